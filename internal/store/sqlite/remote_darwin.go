package sqlite

import "golang.org/x/sys/unix"

// remote names the network file system that a directory is on, "" when it is
// on none.
func remote(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil || st.Flags&unix.MNT_LOCAL != 0 {
		return ""
	}
	return unix.ByteSliceToString(st.Fstypename[:])
}
