package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// OS is the operating system's file system.
type OS struct{}

// MkdirAll makes a directory that only its owner can write.
func (OS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o755) }

// List reads a directory.
func (OS) List(dir string) ([]Info, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(entries))
	for _, e := range entries {
		i, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // removed while we looked
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, Info{Name: e.Name(), Size: i.Size(), Dir: e.IsDir()})
	}
	return infos, nil
}

// Create makes or empties a file.
func (OS) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	return &osFile{f}, nil
}

// Open opens a file that is there.
func (OS) Open(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &osFile{f}, nil
}

// Rename replaces to by from.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove takes away a file or an empty directory.
func (OS) Remove(name string) error { return os.Remove(name) }

// Lock locks a file, which it creates, and leaves the process id in it for
// people.
func (OS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if held, err := lockFile(f); err != nil {
		holder := make([]byte, 32)
		n, _ := f.ReadAt(holder, 0) // only to be helpful
		f.Close()
		if !held {
			return nil, &os.PathError{Op: "lock", Path: name, Err: err}
		}
		return nil, fmt.Errorf("%w: %s is held by process %s: stop it, or choose another data directory",
			ErrLocked, filepath.Dir(name), strings.TrimSpace(string(holder[:n])))
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := fmt.Fprintln(f, os.Getpid()); err != nil && !errors.Is(err, syscall.ENOSPC) {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

type osFile struct{ f *os.File }

func (o *osFile) ReadAt(p []byte, off int64) (int, error) { return o.f.ReadAt(p, off) }
func (o *osFile) Truncate(size int64) error               { return o.f.Truncate(size) }
func (o *osFile) Close() error                            { return o.f.Close() }

func (o *osFile) Size() (int64, error) {
	i, err := o.f.Stat()
	if err != nil {
		return 0, err
	}
	return i.Size(), nil
}

func (o *osFile) WriteVec(off int64, bufs ...[]byte) error {
	return writeVec(o.f, off, bufs)
}

func (o *osFile) Datasync() error {
	if err := datasync(o.f); err != nil {
		return &os.PathError{Op: "fdatasync", Path: o.f.Name(), Err: err}
	}
	return nil
}
