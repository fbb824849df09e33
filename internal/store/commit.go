package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"

	"annals/internal/index"
)

// Commit merges a page into the index in one transaction. Of records with the
// same id the newest Updated counts, the later one on a tie.
func (s *Store) Commit(ctx context.Context, fence index.Fence, c index.Commit) (index.Result, error) {
	var res index.Result
	err := s.writeTx(ctx, "commit", fence, c.DryRun, func(t *tx) (err error) {
		res, err = t.commit(&c)
		return err
	})
	if err != nil {
		return index.Result{}, err
	}
	return res, nil
}

func (t *tx) commit(c *index.Commit) (index.Result, error) {
	var res index.Result
	recs, at := newest(c.Records)
	have, err := t.load(c.Upstream, recs, at)
	if err != nil {
		return res, err
	}
	if err := t.putDirectories(c.Upstream, c.Directories, recs); err != nil {
		return res, err
	}
	for i, rec := range recs {
		if err := t.merge(c, rec, have[i], &res); err != nil {
			return res, err
		}
	}
	t.step("commit:rows")
	if c.Checkpoint != nil {
		return res, t.putCheckpoint(c.Checkpoint)
	}
	return res, nil
}

// newest drops all but one record of each id, and says where each one is.
func newest(records []index.Record) ([]*index.Record, map[string]int) {
	recs := make([]*index.Record, 0, len(records))
	at := make(map[string]int, len(records))
	for i := range records {
		r := &records[i]
		if j, again := at[r.ID]; !again {
			at[r.ID] = len(recs)
			recs = append(recs, r)
		} else if r.Updated >= recs[j].Updated {
			recs[j] = r
		}
	}
	return recs, at
}

// kept is what the store holds of one session.
type kept struct {
	row      index.Row
	document json.RawMessage
	revision int64 // of the document; 0 when none was ever kept
}

// load returns what is committed of each record, in their order: nil for a
// session that is not known.
func (t *tx) load(upstream string, recs []*index.Record, at map[string]int) ([]*kept, error) {
	have := make([]*kept, len(recs))
	ids := make([]string, len(recs))
	for i, r := range recs {
		ids[i] = r.ID
	}
	var row index.Row
	var digest, document sql.RawBytes
	var revision sql.NullInt64
	dest := append(rowDest(&row, &digest), &document, &revision)
	err := t.eachOf(ids, func(rows *sql.Rows) error {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		copy(row.Digest[:], digest)
		have[at[row.ID]] = &kept{row: row, document: bytes.Clone(document), revision: revision.Int64}
		return nil
	}, func(list string) string {
		return `SELECT ` + rowColumns + `, m.document, m.revision FROM sessions s
			LEFT JOIN session_metadata m ON m.upstream = s.upstream AND m.id = s.id
			WHERE s.upstream = $1 AND s.id IN (` + list + `)`
	}, upstream)
	return have, err
}

// merge applies one record to what is kept of its session, and writes what
// differs.
func (t *tx) merge(c *index.Commit, rec *index.Record, have *kept, res *index.Result) error {
	var old index.Committed
	if have != nil {
		old = index.Committed{Row: &have.row, Document: have.document, Newer: have.revision > c.Base}
	}
	row, doc, change := index.Merge(c.Upstream, c.Namespace, rec, old)
	if !change.Any() {
		res.Unchanged++
		if row.Digest == have.row.Digest {
			return nil
		}
		return t.exec(`UPDATE sessions SET digest = $1 WHERE upstream = $2 AND id = $3`, row.Digest[:], c.Upstream, row.ID)
	}
	t.moved = true
	row.Revision = t.revision()
	count(change, res)
	write := updateRow
	if change.Added {
		write = insertRow
	}
	if err := t.exec(write, rowArgs(&row)...); err != nil {
		return err
	}
	if change.Document || change.Added && !empty(doc) {
		return t.exec(putDocument, c.Upstream, row.ID, row.Revision, []byte(doc))
	}
	return nil
}

func count(change index.Change, res *index.Result) {
	switch {
	case change.Added:
		res.Added++
	default:
		res.Updated++
	}
	if change.Archived {
		res.Archived++
	}
	if change.Restored {
		res.Restored++
	}
}

// empty reports whether a document says nothing, however it is written.
func empty(doc json.RawMessage) bool {
	doc = bytes.TrimSpace(doc)
	return len(doc) >= 2 && doc[0] == '{' && len(bytes.TrimSpace(doc[1:len(doc)-1])) == 0
}

const (
	rowColumns = `s.upstream, s.id, s.parent_id, s.title, s.directory, s.project_id, s.created, s.updated,
		s.upstream_archived, s.archived_at, s.activity, s.system, s.missing_at, s.revision, s.digest`

	insertRow = `INSERT INTO sessions (upstream, id, parent_id, title, directory, project_id, created, updated,
		upstream_archived, archived_at, activity, system, missing_at, revision, digest)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`

	updateRow = `UPDATE sessions SET parent_id = $3, title = $4, directory = $5, project_id = $6, created = $7, updated = $8,
		upstream_archived = $9, archived_at = $10, activity = $11, system = $12, missing_at = $13, revision = $14, digest = $15
		WHERE upstream = $1 AND id = $2`

	// {} stays as a row of its own: its revision tells an older page that the
	// document it saw is gone.
	putDocument = `INSERT INTO session_metadata (upstream, id, revision, document) VALUES ($1, $2, $3, $4)
		ON CONFLICT (upstream, id) DO UPDATE SET revision = excluded.revision, document = excluded.document`
)

// rowDest is where a row's columns are scanned to; the digest lies in the
// driver's memory until the next row.
func rowDest(r *index.Row, digest *sql.RawBytes) []any {
	return []any{&r.Upstream, &r.ID, &r.ParentID, &r.Title, &r.Directory, &r.ProjectID, &r.Created, &r.Updated,
		&r.Archived, &r.ArchivedAt, &r.Activity, &r.System, &r.MissingAt, &r.Revision, digest}
}

func rowArgs(r *index.Row) []any {
	return []any{r.Upstream, r.ID, r.ParentID, r.Title, r.Directory, r.ProjectID, r.Created, r.Updated,
		r.Archived, r.ArchivedAt, r.Activity, bit(r.System), r.MissingAt, r.Revision, r.Digest[:]}
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
