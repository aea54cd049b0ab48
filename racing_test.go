//go:build race

package rondo_test

// racing: the race detector is on, which keeps a shadow of all memory.
const racing = true
