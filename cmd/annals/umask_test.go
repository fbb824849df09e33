//go:build unix

package main

import (
	"syscall"
	"testing"
)

// withoutUmask takes the umask away for the rest of a test.
func withoutUmask(t *testing.T) {
	old := syscall.Umask(0)
	t.Cleanup(func() { syscall.Umask(old) })
}
