package supervise

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// prefix begins the name of every private directory. No other is ever removed.
const prefix = "annals-"

// markerFile lies in such a directory and holds its name.
const markerFile = ".annals-private"

// ownerFile holds the process id of the supervisor that made the directory.
const ownerFile = ".annals-supervisor"

// NewDir makes up a name for a private directory below work; kind says what
// it is for, to people. Nothing is made. work should be absolute.
func NewDir(work, kind string) string {
	name := make([]byte, 8)
	_, _ = rand.Read(name) // never fails
	return filepath.Join(work, prefix+kind+"-"+hex.EncodeToString(name))
}

func isPrivateName(name string) bool {
	return strings.HasPrefix(name, prefix) && len(name) > len(prefix)
}

// Sweep removes the private directories below work whose supervisor is gone
// without having removed them, as after a power cut. What it cannot tell
// stays.
func Sweep(work string) {
	entries, err := os.ReadDir(work)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !isPrivateName(e.Name()) {
			continue
		}
		dir := filepath.Join(work, e.Name())
		raw, err := os.ReadFile(filepath.Join(dir, ownerFile))
		if err != nil {
			continue
		}
		if pid, err := strconv.Atoi(string(raw)); err == nil && pid > 0 && !running(pid) {
			_ = removePrivate(dir) // the next sweep tries again
		}
	}
}

// makePrivate makes the private directory and what the order wants in it.
func (o *Order) makePrivate() error {
	if err := o.check(); err != nil {
		return err
	}
	if err := os.Mkdir(o.Dir, 0o700); err != nil {
		return err
	}
	write := func(name, text string) error {
		return os.WriteFile(filepath.Join(o.Dir, name), []byte(text), 0o600)
	}
	if err := write(markerFile, filepath.Base(o.Dir)); err != nil {
		return err
	}
	if err := write(ownerFile, strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	for _, dir := range o.Dirs {
		if err := os.MkdirAll(filepath.Join(o.Dir, dir), 0o700); err != nil {
			return err
		}
	}
	for _, f := range o.Files {
		if err := write(f.Path, f.Text); err != nil {
			return err
		}
	}
	return nil
}

// removePrivate removes a private directory, if it is there and if it is one:
// the name and the marker must agree.
func removePrivate(dir string) error {
	name := filepath.Base(dir)
	info, err := os.Lstat(dir)
	switch {
	case os.IsNotExist(err):
		return nil
	case err != nil:
		return err
	case !info.IsDir() || !isPrivateName(name):
		return errors.New("this is not a private directory")
	}
	marker, err := os.ReadFile(filepath.Join(dir, markerFile))
	if err != nil || string(marker) != name {
		return errors.New("the private directory has lost its marker; it is left alone")
	}
	return removeTree(dir)
}

// removeTree removes a directory with all that is in it. A program may have
// left directories that it may not write or search itself; they are opened
// up, and it is tried again.
func removeTree(dir string) error {
	first := os.RemoveAll(dir)
	if first == nil {
		return nil
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return first
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return first
	}
	openUp(root)
	_ = root.Close()
	return os.RemoveAll(dir)
}

// openUp makes every directory below root one that can be emptied, as far as
// that goes. It follows no link: whoever could put one there is gone.
func openUp(root *os.Root) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || root.Chmod(e.Name(), 0o700) != nil {
			continue
		}
		below, err := root.OpenRoot(e.Name())
		if err != nil {
			continue
		}
		openUp(below)
		_ = below.Close()
	}
}
