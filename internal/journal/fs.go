package journal

import (
	"io"
	"time"
)

// FS is the little that the log needs of a file system. Names are paths as the
// log joins them from Config.Dir. Errors should match io/fs.ErrNotExist and
// syscall.ENOSPC where that is what happened.
//
// Two implementations come with the package: OS, and MemFS, which can lose
// power.
type FS interface {
	// MkdirAll makes a directory and its parents; it is no error when it is
	// there.
	MkdirAll(dir string) error
	// List gives the entries of a directory, by name.
	List(dir string) ([]Info, error)
	// Create makes an empty file, or empties the one that is there, for reading
	// and writing.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// Rename replaces to by from, at once.
	Rename(from, to string) error
	// Remove takes away a file or an empty directory.
	Remove(name string) error
	// SyncDir makes the entries of a directory durable: what was created,
	// renamed and removed in it.
	SyncDir(dir string) error
	// Lock takes an exclusive lock that other processes respect, and that ends
	// with Close or with the process. ErrLocked when somebody has it.
	Lock(name string) (io.Closer, error)
}

// Info is one entry of a directory.
type Info struct {
	Name string
	Size int64
	Dir  bool
}

// File is an open file. Reading is safe from many goroutines at once.
type File interface {
	io.ReaderAt
	io.Closer
	// WriteVec writes the buffers one behind the other from off on. After an
	// error any part of them may have been written.
	WriteVec(off int64, bufs ...[]byte) error
	// Datasync makes all that was written durable, with the size of the file
	// (fdatasync). After an error nothing is known about what was not durable
	// before, and trying again does not help: the kernel may have dropped it.
	Datasync() error
	Truncate(size int64) error
	Size() (int64, error)
}

// wallMs is the wall clock as Kafka counts it.
func wallMs() int64 { return time.Now().UnixMilli() }
