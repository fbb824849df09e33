//go:build !unix

package sqlite

import "io/fs"

// ours is false: permission bits close nothing here.
func ours(fs.FileInfo) bool { return false }
