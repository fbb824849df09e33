package sqlite

import (
	"strings"
	"testing"
)

const mounts = `24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 24 0:44 / /home/user/far\040away rw,nosuid shared:9 master:2 - fuse.sshfs user@host:/srv rw
41 24 0:45 / /data rw - nfs4 host:/export rw
`

func TestTheTypeOfAMountIsFoundByItsDevice(t *testing.T) {
	for dev, want := range map[string]string{"8:1": "ext4", "0:44": "fuse.sshfs", "0:45": "nfs4", "0:4": "", "": ""} {
		if got := mountedAs(mounts, dev); got != want {
			t.Errorf("%s is %q, want %q", dev, got, want)
		}
	}
}

func TestALocalDirectoryIsNotRemote(t *testing.T) {
	if kind := remote(t.TempDir()); kind != "" {
		t.Errorf("the temporary directory is on %q", kind)
	}
	if kind := remote(strings.Repeat("/none", 3)); kind != "" {
		t.Errorf("a directory that is not there is on %q", kind)
	}
}

func FuzzAnyMountTableIsRead(f *testing.F) {
	f.Add(mounts, "0:44")
	f.Add(" - \n - x\n1 2 3 - ", "3")
	f.Fuzz(func(t *testing.T, text, dev string) {
		if kind := mountedAs(text, dev); kind != "" && !strings.Contains(text, kind) {
			t.Errorf("%q is not in the table", kind)
		}
	})
}
