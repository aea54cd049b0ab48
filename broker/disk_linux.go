package broker

import "syscall"

// diskSpace is the size of the file system under dir and what is free of it.
func diskSpace(dir string) (total, usable int64, ok bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0, 0, false
	}
	return int64(s.Blocks) * int64(s.Bsize), int64(s.Bavail) * int64(s.Bsize), true
}
