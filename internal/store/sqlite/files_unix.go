//go:build unix

package sqlite

import (
	"io/fs"
	"os"
	"syscall"
)

// ours reports whether a directory belongs to the user that we run as.
func ours(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Geteuid()
}
