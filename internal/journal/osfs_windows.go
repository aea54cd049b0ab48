package journal

import (
	"errors"
	"math"
	"os"
	"syscall"
	"unsafe"
)

const (
	lockfileFailImmediately = 0x1
	lockfileExclusiveLock   = 0x2
	errorLockViolation      = syscall.Errno(33)
)

// lockFile takes LockFileEx on one byte far behind the end, so that others can
// still read the process id; held says that another process has it.
func lockFile(f *os.File) (held bool, err error) {
	lock := syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")
	at := syscall.Overlapped{Offset: math.MaxInt32}
	ok, _, err := lock.Call(f.Fd(), lockfileExclusiveLock|lockfileFailImmediately, 0, 1, 0, uintptr(unsafe.Pointer(&at)))
	if ok != 0 {
		return false, nil
	}
	return errors.Is(err, errorLockViolation), err
}

// SyncDir has nothing to do: Windows gives no way to flush a directory, and
// NTFS logs its entries.
func (OS) SyncDir(string) error { return nil }
