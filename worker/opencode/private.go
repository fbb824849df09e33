package opencode

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// privatePrefix begins the name of every directory that is made for a managed
// server. No other is ever removed.
const privatePrefix = "annals-opencode-"

// markerFile lies in such a directory and holds its name.
const markerFile = ".annals-managed"

// ownerFile holds the process id of the supervisor that made the directory.
const ownerFile = ".annals-supervisor"

// sweep removes the private directories whose supervisor is gone without
// having removed them, as after a power cut. What it cannot tell stays.
func sweep(work string) {
	entries, err := os.ReadDir(work)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), privatePrefix) {
			continue
		}
		o := order{Dir: filepath.Join(work, e.Name())}
		raw, err := os.ReadFile(filepath.Join(o.Dir, ownerFile))
		if err != nil {
			continue
		}
		if pid, err := strconv.Atoi(string(raw)); err == nil && pid > 0 && !running(pid) {
			_ = o.removePrivate() // the next run tries again
		}
	}
}

// order is what the supervisor is told to run, one line of JSON on its
// standard input. The password is in Env: a pipe shows it to nobody.
type order struct {
	Program string
	Args    []string
	Env     []string
	Dir     string // the private directory, which the supervisor makes and removes
	Grace   time.Duration
}

// work is the directory that the server runs in.
func (o *order) work() string { return filepath.Join(o.Dir, "work") }

// makePrivate makes the private directory. What OpenCode would install into
// its configuration is made to look installed, and an empty .git file stops
// its search for a repository above: it would write into one it finds there.
func (o *order) makePrivate() error {
	if !strings.HasPrefix(filepath.Base(o.Dir), privatePrefix) {
		return errors.New("this is not the name of a private directory")
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
	for _, dir := range []string{"home", "config/opencode/node_modules", "state", "cache", "tmp", "work"} {
		if err := os.MkdirAll(filepath.Join(o.Dir, dir), 0o700); err != nil {
			return err
		}
	}
	if err := write("config/opencode/package-lock.json",
		`{"lockfileVersion":3,"packages":{"":{"dependencies":{"@opencode-ai/plugin":"*"}}}}`+"\n"); err != nil {
		return err
	}
	return write("work/.git", "")
}

// removePrivate removes the private directory, if it is there and if it is
// one: the name and the marker must agree.
func (o *order) removePrivate() error {
	name := filepath.Base(o.Dir)
	info, err := os.Lstat(o.Dir)
	switch {
	case os.IsNotExist(err):
		return nil
	case err != nil:
		return err
	case !info.IsDir() || !strings.HasPrefix(name, privatePrefix):
		return errors.New("this is not a private directory")
	}
	marker, err := os.ReadFile(filepath.Join(o.Dir, markerFile))
	if err != nil || string(marker) != name {
		return errors.New("the private directory has lost its marker; it is left alone")
	}
	return os.RemoveAll(o.Dir)
}
