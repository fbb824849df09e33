package sqlite

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// remote names the network file system that a directory is on, "" when it is
// on none.
func remote(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return ""
	}
	switch uint32(st.Type) {
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "cifs"
	case unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC:
		return "a cluster file system"
	case unix.FUSE_SUPER_MAGIC:
		return remoteFuse(dir)
	}
	return ""
}

// remoteFuse tells programs that reach over the network from those that do
// not: the kernel has one magic number for all.
func remoteFuse(dir string) string {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	dev := uint64(st.Dev)
	kind := mountedAs(string(mounts), fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev)))
	switch kind {
	case "fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.glusterfs", "fuse.davfs", "fuse.gvfsd-fuse":
		return kind
	}
	return ""
}

// mountedAs returns the type of the file system with this device number in
// the text of /proc/self/mountinfo, "" when it is not there.
func mountedAs(mountinfo, dev string) string {
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		if fields := strings.Fields(before); !ok || len(fields) < 3 || fields[2] != dev {
			continue
		}
		if fields := strings.Fields(after); len(fields) > 0 {
			return fields[0]
		}
	}
	return ""
}
