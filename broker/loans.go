package broker

import "sync"

// lender lends memory for what is read from the disk for an answer. Such a
// buffer belongs to one answer, and is of use again as soon as that is written;
// without that each fetch behind the tail would clear a fresh megabyte, which
// takes as long as to copy it.
//
// What is not given back is collected like everything else, and so is what
// nobody borrows for a while.
type lender struct {
	sizes [lentMax / lentStep]sync.Pool // of *loan, by size
}

// loan is one buffer.
type loan struct{ b []byte }

const (
	// lentStep is the unit of the sizes that are lent.
	lentStep = 64 << 10
	// lentMax is the largest. Consumers ask for 1 MiB of a partition unless they
	// are told otherwise.
	lentMax = 2 << 20
)

// lend gives n bytes with any contents. The loan is nil for sizes that are not
// worth it.
func (l *lender) lend(n int) ([]byte, *loan) {
	if n < lentStep/2 || n > lentMax {
		return make([]byte, n), nil
	}
	class := (n - 1) / lentStep
	got, _ := l.sizes[class].Get().(*loan)
	if got == nil {
		got = &loan{make([]byte, (class+1)*lentStep)}
	}
	return got.b[:n:n], got
}

// takeBack ends loans: nobody may look at the buffers any more.
func (l *lender) takeBack(loans []*loan) {
	for _, each := range loans {
		l.sizes[len(each.b)/lentStep-1].Put(each)
	}
}
