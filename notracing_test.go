//go:build !race

package rondo_test

// racing: the race detector is off, so memory is what a user would see.
const racing = false
