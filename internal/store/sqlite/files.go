package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"annals/internal/fault"
)

// prepare makes the file and its directory when they are not there, closes
// them to others, and returns the file's real path. It never opens a file that
// is there.
func prepare(path string, log *slog.Logger) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", unusable(err, path)
	}
	dir := filepath.Dir(path)
	if err := makeDir(dir, log); err != nil {
		return "", unusable(err, path)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	switch {
	case err == nil:
		// The umask may have taken more than others' rights.
		if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
			return "", unusable(err, path)
		}
	case !errors.Is(err, fs.ErrExist):
		return "", unusable(err, path)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", unusable(err, path)
	}
	st, err := os.Stat(path)
	if err != nil {
		return "", unusable(err, path)
	}
	if !st.Mode().IsRegular() {
		return "", unusable(errors.New("it is not a file"), path)
	}
	tighten(path, log)
	if kind := remote(filepath.Dir(path)); kind != "" {
		log.Warn("the store is on a network file system, which may damage it; keep it on a local disk",
			"path", path, "file_system", kind)
	}
	return path, nil
}

// makeDir makes the store's directory with mode 0700, whatever the umask, and
// closes one of ours to others. One that belongs to somebody else, or that
// everybody shares, is not ours to close: the files in it are closed anyway.
func makeDir(dir string, log *slog.Logger) error {
	st, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		return os.Chmod(dir, 0o700)
	}
	if err != nil {
		return err
	}
	if st.Mode().Perm()&0o077 == 0 || !st.IsDir() {
		return nil
	}
	if !ours(st) || st.Mode()&fs.ModeSticky != 0 {
		return nil
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		log.Warn("the store's directory is open to others and cannot be closed", "path", dir, "error", err)
	}
	return nil
}

// tighten closes the store's files to others.
func tighten(path string, log *slog.Logger) {
	if path == InMemory {
		return
	}
	for _, name := range [...]string{path, path + "-wal", path + "-shm"} {
		st, err := os.Stat(name)
		if err != nil || st.Mode().Perm()&0o077 == 0 {
			continue // not there, or closed already
		}
		if err := os.Chmod(name, 0o600); err != nil {
			log.Warn("a file of the store is open to others and cannot be closed", "path", name, "error", err)
		}
	}
}

func unusable(err error, path string) error {
	hint := "see what is at that path, and that it and its directory may be written"
	if errors.Is(err, fs.ErrPermission) {
		hint = "the file and its directory have to be yours and writable"
	}
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err // the path is in the message already
	}
	return fault.Wrap(err, fault.Store, hint, "%s", fmt.Sprintf("the store %s cannot be used", path))
}
