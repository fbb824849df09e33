// Package ownfile writes the files that only their owner may read: 0600 in
// directories of 0700, whatever the umask, and never half written.
package ownfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Create writes a new file with mode 0600 and makes its directory. It fails
// with fs.ErrExist when something is there already, and leaves it alone. The
// file appears whole or not at all.
func Create(path string, content []byte) error {
	if _, err := os.Lstat(path); err == nil {
		return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	temp := fmt.Sprintf(".%s.%s", filepath.Base(path), rand.Text())
	if err := writeNew(root, temp, content); err != nil {
		return errors.Join(err, ignoreMissing(root.Remove(temp)))
	}
	// A hard link, unlike a rename, does not replace what came meanwhile.
	err = root.Link(temp, filepath.Base(path))
	return errors.Join(err, root.Remove(temp), syncDir(root))
}

func writeNew(root *os.Root, name string, content []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close())
}

// syncDir makes a new name in the directory durable.
func syncDir(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
