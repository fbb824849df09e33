package ownfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

func TestANewFileIsPrivateWhateverTheUmask(t *testing.T) {
	for _, mask := range []int{0, 0o777 &^ 0o700, 0o277} {
		old := syscall.Umask(mask)
		path := filepath.Join(t.TempDir(), "a", "b", "file")
		err := Create(path, []byte("x"))
		syscall.Umask(old)
		if mask == 0o277 && os.Geteuid() != 0 {
			continue // a directory that its owner may not write to: an error is right
		}
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("umask %o: file mode %o", mask, got)
		}
		if dir, err := os.Stat(filepath.Dir(path)); err != nil || dir.Mode().Perm()&0o077 != 0 {
			t.Errorf("umask %o: directory mode %v, %v", mask, dir.Mode(), err)
		}
	}
}

func TestWhatIsThereIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Create(path, []byte("yours")); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("err = %v", err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), link); err != nil {
		t.Fatal(err)
	}
	if err := Create(link, []byte("yours")); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("through a link: %v", err)
	}
	if raw, err := os.ReadFile(path); err != nil || string(raw) != "mine" {
		t.Errorf("%q, %v", raw, err)
	}
}

func TestOfManyWritersOneWins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d", "file")
	var wg sync.WaitGroup
	wins := make(chan int, 20)
	for i := range 20 {
		wg.Go(func() {
			switch err := Create(path, []byte{byte(i)}); {
			case err == nil:
				wins <- i
			case !errors.Is(err, fs.ErrExist):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	close(wins)
	if len(wins) != 1 {
		t.Fatalf("%d writers won", len(wins))
	}
	raw, err := os.ReadFile(path)
	if err != nil || len(raw) != 1 || int(raw[0]) != <-wins {
		t.Errorf("%v, %v", raw, err)
	}
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(names) != 1 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

func TestADirectoryInTheWayIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Create(filepath.Join(file, "below"), nil); err == nil {
		t.Error("a file below a file")
	}
}
