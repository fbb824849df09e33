package index

import (
	"encoding/json"

	"annals/internal/metadata"
)

// systemTitle marks a session that a fetch helper makes for itself. The match
// is exact: title prefixes never decide.
const systemTitle = "smartfetch-secondary"

// Project is the projection: facts and metadata in, the projected fields of a
// row out. It is pure: equal input gives equal output, on any day, on any
// machine.
func Project(r *Record, doc json.RawMessage, namespace string) (archivedAt, activity int64, system bool) {
	view := metadata.Read(doc, namespace)
	switch view.Archive {
	case metadata.Archived:
		archivedAt = view.ArchivedAt
	case metadata.Silent:
		archivedAt = r.Archived
	case metadata.Active:
		archivedAt = 0
	}
	return archivedAt, max(view.RefreshAt, r.Updated, r.Created), view.System || r.Title == systemTitle
}

// Change says what an observation did to a row.
type Change struct {
	Added    bool // the row is new
	Updated  bool // the row existed and a fact, a projected field or the missing state differs
	Archived bool // it existed, active, and is archived now
	Restored bool // it existed, archived, and is active now
	Document bool // the metadata document differs in meaning from the committed one
}

// Any reports whether the observation changed anything that a reader can see.
func (c Change) Any() bool { return c.Added || c.Updated || c.Document }

// Committed is what the store holds of one session inside the transaction
// that merges an observation into it.
type Committed struct {
	Row      *Row            // nil when the session is not known
	Document json.RawMessage // nil when no document is kept, which means none
	// Newer is set when the document was committed after the observation was
	// asked for. It then outlives the observation, so that an archive that
	// lands in the middle of a run is not undone by it.
	Newer bool
}

// Merge applies one observation to what is committed. It returns the row to
// keep, the document to keep (NoMetadata when the session has none), and what
// changed. It is pure; the store calls it inside its transaction.
func Merge(upstream, namespace string, r *Record, have Committed) (Row, json.RawMessage, Change) {
	var change Change
	doc := have.Document
	if doc == nil {
		doc = NoMetadata()
	}
	if r.Metadata != nil && !have.Newer && !SameDocument(doc, r.Metadata) {
		doc = r.Metadata
		change.Document = true
	}
	row := Row{Upstream: upstream, Record: *r, Digest: DigestOf(r, namespace)}
	row.Metadata = nil
	if have.Newer {
		row.Digest = Digest{} // the observation is not what the row shows: look again next time
	}
	row.ArchivedAt, row.Activity, row.System = Project(r, doc, namespace)
	if have.Row == nil {
		change.Added = true
		change.Document = false
		return row, doc, change
	}
	old := *have.Row
	row.Revision = old.Revision
	change.Archived = old.ArchivedAt == 0 && row.ArchivedAt > 0
	change.Restored = old.ArchivedAt > 0 && row.ArchivedAt == 0
	same := old
	same.Digest, same.Metadata = row.Digest, nil
	change.Updated = !equalRows(&same, &row)
	return row, doc, change
}

func equalRows(a, b *Row) bool {
	return a.Upstream == b.Upstream && a.ID == b.ID && a.ParentID == b.ParentID && a.Title == b.Title &&
		a.Directory == b.Directory && a.ProjectID == b.ProjectID && a.Created == b.Created &&
		a.Updated == b.Updated && a.Archived == b.Archived && a.ArchivedAt == b.ArchivedAt &&
		a.Activity == b.Activity && a.System == b.System && a.MissingAt == b.MissingAt
}

// SameDocument reports whether two metadata documents mean the same, whatever
// the order of their keys and their white space.
func SameDocument(a, b json.RawMessage) bool {
	if string(a) == string(b) {
		return true
	}
	return canonicalJSON(a) == canonicalJSON(b)
}
