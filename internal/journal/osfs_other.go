//go:build !linux

package journal

import "os"

func datasync(f *os.File) error { return f.Sync() }

// writeVec joins the buffers: one write, as on Linux, at the price of a copy.
func writeVec(f *os.File, off int64, bufs [][]byte) error {
	var n int
	for _, b := range bufs {
		n += len(b)
	}
	joined := make([]byte, 0, n)
	for _, b := range bufs {
		joined = append(joined, b...)
	}
	_, err := f.WriteAt(joined, off)
	return err
}
