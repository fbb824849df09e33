//go:build unix

package sqlite

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// umask sets the process's umask for the length of a test.
func umask(t *testing.T, mask int) {
	t.Helper()
	old := syscall.Umask(mask)
	t.Cleanup(func() { syscall.Umask(old) })
}

func mode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if st.Mode().Perm() != want {
		t.Errorf("%s has mode %o, want %o", filepath.Base(path), st.Mode().Perm(), want)
	}
}

func TestTheFilesAreTheirOwnersAloneWhateverTheUmask(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o277} {
		path := filepath.Join(t.TempDir(), "data", "annals", "annals.db")
		if mask == 0o277 { // one that would take the owner's rights too, of the last directory alone
			if err := os.MkdirAll(filepath.Dir(filepath.Dir(path)), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		umask(t, mask)
		st := openAt(t, Config{Path: path})
		if err := commitPage(t.Context(), st, 1); err != nil {
			t.Fatal(err)
		}
		mode(t, filepath.Dir(path), 0o700)
		for _, name := range []string{path, path + "-wal", path + "-shm"} {
			mode(t, name, 0o600)
		}
		syscall.Umask(0o022)
	}
}

func TestFilesThatAreTooOpenAreClosed(t *testing.T) {
	path := newStore(t)
	first := openAt(t, Config{Path: path}) // makes the log
	if err := commitPage(t.Context(), first, 2); err != nil {
		t.Fatal(err)
	}
	names := []string{path, path + "-wal", path + "-shm"}
	for _, name := range names {
		if err := os.Chmod(name, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	holdsPages(t, openAt(t, Config{Path: path}), 2)
	for _, name := range names {
		mode(t, name, 0o600)
	}
	mode(t, filepath.Dir(path), 0o700)
}

func TestADirectoryThatEverybodySharesIsLeftAsItIs(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "annals.db")
	openAt(t, Config{Path: path})
	mode(t, dir, 0o777)
	mode(t, path, 0o600)
}

func TestAFIFOIsNoStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "annals.db")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Config{Path: path})
	refused(t, err)
}
