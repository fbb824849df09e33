package store

import (
	"context"
	"database/sql"
)

// Dialect is what the databases differ in. Everything else is one SQL text:
// $1 for arguments, ON CONFLICT for upserts, RETURNING, BIGINT for every
// number, 0 and 1 for yes and no. Texts compare byte by byte and come back as
// they were written, whatever bytes they have; a database whose text type
// cannot do that has to keep them in another type.
type Dialect struct {
	// Begin opens a writing transaction. Two of them never overlap, also not
	// from two processes; one that has to wait for longer than the store's
	// patience fails with an error that Fault calls busy.
	Begin func(ctx context.Context, db *sql.DB) (*sql.Tx, error)
	// List writes n placeholders that follow the first ones, with commas
	// between them: List(3, 2) is "$3, $4".
	List func(from, n int) string
	// MaxList is how many values one statement may list.
	MaxList int
	// Fault gives an error of the driver its code and hint.
	Fault func(err error) error
	// Check looks for damage below the level of our tables and returns a line
	// for each fault that it finds.
	Check func(ctx context.Context, db *sql.DB) ([]string, error)
}
