package journal

import (
	"bytes"
	"path/filepath"
	"testing"
)

// A write of many buffers, larger than one call takes, lands in order and
// whole, whatever the sizes.
func TestWriteVecInPieces(t *testing.T) {
	f, err := OS{}.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var want []byte
	var bufs [][]byte
	for i, size := range []int{0, 1, 1 << 20, 0, 3<<20 + 7, 110 << 10, 110 << 10, 900 << 10, 0, 1<<20 - 1, 2, 0} {
		b := bytes.Repeat([]byte{byte(i + 1)}, size)
		bufs = append(bufs, b)
		want = append(want, b...)
	}
	for range 1100 {
		bufs = append(bufs, []byte{'x'})
		want = append(want, 'x')
	}
	if err := f.WriteVec(5, bufs...); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteVec(0, []byte("head!")); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteVec(3, nil); err != nil {
		t.Errorf("nothing to write: %v", err)
	}
	got := make([]byte, len(want)+5)
	if _, err := f.ReadAt(got, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, append([]byte("head!"), want...)) {
		t.Error("what was written is not what is there")
	}
}
