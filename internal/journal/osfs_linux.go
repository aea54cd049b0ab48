package journal

import (
	"io"
	"os"
	"syscall"
	"unsafe"
)

// iovMax is IOV_MAX of Linux.
const iovMax = 1024

// datasync is fdatasync(2): contents and size, but not the times of the inode,
// which would cost a second journal write of the file system.
func datasync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err != syscall.EINTR {
			return err
		}
	}
}

// writeMax is the most that one call writes. From 2 MiB on the page cache asks
// for huge pages, and finding them can take five times the processor time of
// the copy itself.
const writeMax = 1 << 20

// writeVec is pwritev(2), called again until everything is written.
func writeVec(f *os.File, off int64, bufs [][]byte) error {
	vec := make([]syscall.Iovec, 0, min(len(bufs), iovMax))
	for bufs = after(bufs, 0); len(bufs) > 0; {
		vec = vec[:0]
		room := writeMax
		for _, b := range bufs[:min(len(bufs), iovMax)] {
			if len(b) > room && len(vec) > 0 {
				break
			}
			n := min(len(b), room)
			v := syscall.Iovec{}
			if n > 0 {
				v.Base = &b[0]
			}
			v.SetLen(n)
			vec = append(vec, v)
			room -= n
		}
		// The offset is given as two longs; on 64 bits the second has no part in it.
		n, _, errno := syscall.Syscall6(syscall.SYS_PWRITEV, f.Fd(), uintptr(unsafe.Pointer(&vec[0])), uintptr(len(vec)),
			uintptr(off), uintptr(off>>32), 0)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno != 0:
			return &os.PathError{Op: "pwritev", Path: f.Name(), Err: errno}
		case n == 0:
			return &os.PathError{Op: "pwritev", Path: f.Name(), Err: io.ErrShortWrite}
		}
		off += int64(n)
		bufs = after(bufs, int(n))
	}
	return nil
}

// after is bufs without their first n bytes, and without empty buffers in front.
func after(bufs [][]byte, n int) [][]byte {
	for len(bufs) > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	if n > 0 {
		rest := append([][]byte{bufs[0][n:]}, bufs[1:]...)
		return rest
	}
	return bufs
}
