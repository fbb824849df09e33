// Package index holds the session index: what a session is, how one
// observation of it becomes a row, which rows a list shows, and what the index
// needs of a store. It knows no HTTP, no SQL and no clock.
package index

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
)

// Record is one session as an upstream's answer told it: facts, no
// conclusions. All times are milliseconds since the epoch, UTC, and 0 when
// the answer had none.
type Record struct {
	ID        string
	ParentID  string // "" for a root
	Title     string
	Directory string // as given: location.directory, directory, or project.worktree
	ProjectID string
	Created   int64
	Updated   int64
	Archived  int64 // the upstream's own time.archived; 0 means active

	// Metadata is the session's metadata object. nil means that the answer
	// does not carry metadata, so nothing is known; NoMetadata means that the
	// session has none.
	Metadata json.RawMessage
}

// NoMetadata returns the document of a session known to have no metadata.
func NoMetadata() json.RawMessage { return json.RawMessage("{}") }

// Digest identifies an observation. Two observations of one session with
// equal digests lead to the same row, so the second needs no work.
type Digest [16]byte

// projectionVersion is part of every digest: raising it makes the next run
// project every known row again.
const projectionVersion = 1

// DigestOf returns the digest of a record observed under a metadata
// namespace.
func DigestOf(r *Record, namespace string) Digest {
	buf := make([]byte, 0, 512)
	buf = append(buf, projectionVersion)
	for _, s := range [...]string{namespace, r.ID, r.ParentID, r.Title, r.Directory, r.ProjectID} {
		buf = binary.AppendUvarint(buf, uint64(len(s)))
		buf = append(buf, s...)
	}
	for _, n := range [...]int64{r.Created, r.Updated, r.Archived} {
		buf = binary.AppendVarint(buf, n)
	}
	if r.Metadata != nil {
		buf = append(buf, 1)
		buf = append(buf, r.Metadata...)
	}
	sum := sha256.Sum256(buf)
	return Digest(sum[:16])
}

// Row is one session in the index: the facts last observed, and what the
// projection made of them.
type Row struct {
	Upstream   string
	Record           // Metadata is not part of a row; it is kept beside it
	ArchivedAt int64 // projected: when it was archived, 0 when active
	Activity   int64 // projected: what lists are ordered by
	System     bool  // projected: a tool's own session, in no list
	MissingAt  int64 // since when it is gone at the upstream, 0 when present
	Revision   int64 // feed revision of the last change of this row
	Digest     Digest
}

// Status is what a list says of a session.
type Status string

// The three states of a session. Missing wins over archived.
const (
	StatusActive   Status = "active"
	StatusArchived Status = "archived"
	StatusMissing  Status = "missing"
)

// Status returns the state of the row.
func (r *Row) Status() Status {
	switch {
	case r.MissingAt > 0:
		return StatusMissing
	case r.ArchivedAt > 0:
		return StatusArchived
	}
	return StatusActive
}

// Root reports whether the session has no parent.
func (r *Row) Root() bool { return r.ParentID == "" }

// Entry is a row as a list shows it, with what is kept outside the row.
type Entry struct {
	Row
	Canonical string // the canonical form of Directory
	Pinned    bool
	Children  int // sessions whose parent this is, missing and system ones left out
}
