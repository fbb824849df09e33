package sqlite

import (
	"errors"

	sqlitedriver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"annals/internal/fault"
)

// explain gives an error of SQLite its code and its hint. An error that has a
// code already stays as it is.
func explain(path string, err error) error {
	if err == nil || fault.CodeOf(err) != "" {
		return err
	}
	code := -1
	var driver *sqlitedriver.Error
	if errors.As(err, &driver) {
		code = driver.Code() & 0xff // the rest of an extended code says why in more detail
	}
	const whole = "whole transactions are kept or dropped, so nothing is half written"
	switch code {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fault.Wrap(err, fault.Busy, "wait for the other process to end, or see `annals runs list`",
			"the store is locked by another process").Again()
	case sqlite3.SQLITE_FULL:
		return fault.Wrap(err, fault.Store, "free some space and run it again; "+whole,
			"the disk of the store %s is full", path).Again()
	case sqlite3.SQLITE_NOTADB:
		return fault.Wrap(err, fault.Store, "move the file away, or put a backup in its place",
			"%s is not a store of Annals", path)
	case sqlite3.SQLITE_CORRUPT:
		return fault.Wrap(err, fault.Store, "keep a copy of the file with its -wal, and put a backup in its place; the index itself comes back with `annals sync`",
			"the store %s is damaged", path)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH:
		return fault.Wrap(err, fault.Store, "the file, its -wal and -shm and their directory have to be yours and writable",
			"the store %s cannot be opened for writing", path)
	case sqlite3.SQLITE_IOERR:
		return fault.Wrap(err, fault.Store, "look at the disk; "+whole, "the disk of the store %s failed", path).Again()
	}
	return fault.Wrap(err, fault.Store, "run `annals doctor`", "the store %s failed", path)
}
