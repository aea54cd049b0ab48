//go:build !linux

package broker

// diskSpace is the size of the file system under dir and what is free of it.
func diskSpace(string) (total, usable int64, ok bool) { return 0, 0, false }
