package jobs

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"annals/internal/fault"
)

// lockFile is the lock of one job on this machine. The file holds a random
// token, so that a lease can name the very file that its owner has locked,
// whichever path, host or container sees it, and also after somebody removed
// the file and another one took its place.
type lockFile struct {
	path  string
	flock *flock.Flock
	token string // of the file that is locked
}

// lockFor returns the lock of a job, not yet taken, and makes the directory.
func (k *Keeper) lockFor(job, target string) (*lockFile, error) {
	dir := k.cfg.LockDir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, k.lockFault(err)
	}
	st, err := os.Stat(dir)
	if err == nil && st.Mode().Perm() != 0o700 {
		err = os.Chmod(dir, 0o700)
	}
	if err != nil {
		return nil, k.lockFault(err)
	}
	// Names are a person's text and may be no file names at all.
	sum := sha256.Sum256([]byte(k.cfg.StoreID + "\x00" + job + "\x00" + target))
	path := filepath.Join(dir, hex.EncodeToString(sum[:16])+".lock")
	return &lockFile{path: path, flock: flock.New(path, flock.SetPermissions(0o600))}, nil
}

func (k *Keeper) lockFault(err error) error {
	return fault.Wrap(err, fault.Store, "the directory and the files in it have to be yours and writable",
		"the lock files in %s cannot be used", k.cfg.LockDir)
}

// try takes the lock if nobody has it.
func (l *lockFile) try() (bool, error) {
	locked, err := l.flock.TryLock()
	if err != nil || !locked {
		return false, lockError(err, l.path)
	}
	if l.token, err = l.readToken(); err != nil {
		return false, lockError(errors.Join(err, l.flock.Unlock()), l.path)
	}
	if l.token == "" { // the file was removed under us: there is another lock by now
		return false, lockError(l.flock.Unlock(), l.path)
	}
	return true, nil
}

func lockError(err error, path string) error {
	if err == nil {
		return nil
	}
	return fault.Wrap(err, fault.Store, "the file and its directory have to be yours and writable", "the lock %s cannot be used", path)
}

// readToken returns the token of the locked file, and gives it one first if it
// has none. It is "" when the locked file is no longer the one at the path.
func (l *lockFile) readToken() (string, error) {
	locked, err := l.flock.Stat()
	if err != nil {
		return "", err
	}
	st, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(locked, st) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if st.Mode().Perm() != 0o600 {
		if err := os.Chmod(l.path, 0o600); err != nil {
			return "", err
		}
	}
	fresh := rand.Text()
	token, err := os.ReadFile(l.path)
	if err != nil || len(token) == len(fresh) {
		return string(token), err
	}
	return fresh, os.WriteFile(l.path, []byte(fresh), 0o600)
}

// release gives the lock back. The file stays: removing it would let two
// processes lock two files of the same name.
func (l *lockFile) release() error { return l.flock.Unlock() }
