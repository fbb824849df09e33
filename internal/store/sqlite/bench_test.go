package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"testing"

	"annals/internal/index"
	"annals/internal/metadata"
	"annals/internal/store"
)

const (
	benchRows = 10_000
	benchPage = 1000
)

// benchRecords are sessions as an upstream tells them: every fifth is a child,
// every tenth has metadata.
func benchRecords(n int) []index.Record {
	recs := make([]index.Record, n)
	for i := range recs {
		sum := sha256.Sum256(fmt.Append(nil, i))
		at := 1_700_000_000_000 + int64(i)*1777
		recs[i] = index.Record{
			ID: fmt.Sprintf("ses_%012x%x", 0x198000000000+i*7777, sum[:7]), Title: fmt.Sprintf("Session %d about something or other", i),
			Directory: fmt.Sprintf("/home/user/projects/project-%d", i%40), ProjectID: fmt.Sprintf("%x", sum[8:28]),
			Created: at - 1000, Updated: at, Metadata: index.NoMetadata(),
		}
		if i%5 == 4 {
			recs[i].ParentID = recs[i-1].ID
		}
		if i%10 == 3 {
			recs[i].Metadata = json.RawMessage(fmt.Sprintf(`{"openchamber":{"archive":{"archivedAt":%d},"note":"%x"}}`, at, sum))
		}
	}
	return recs
}

func benchStore(b *testing.B, dir string) *store.Store {
	b.Helper()
	st, err := Open(b.Context(), Config{Path: filepath.Join(dir, "annals.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = st.Close() })
	return st
}

// commitAll commits records in pages, each with a checkpoint, as a walk does.
func commitAll(b *testing.B, st *store.Store, recs []index.Record) {
	b.Helper()
	p, err := st.Point(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for at := 0; at < len(recs); at += benchPage {
		_, err := st.Commit(context.Background(), index.Fence{}, index.Commit{
			Upstream: "local", Namespace: metadata.DefaultNamespace, Base: p.Revision, Records: recs[at:min(at+benchPage, len(recs))],
			Checkpoint: &index.Checkpoint{Upstream: "local", Run: "run", Pages: at / benchPage},
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFirstCommit is a first walk; BenchmarkFloor is what it is measured
// against: the same rows into the same tables by the barest loop of prepared
// inserts.
func BenchmarkFirstCommit(b *testing.B) {
	recs := benchRecords(benchRows)
	for b.Loop() {
		b.StopTimer()
		st := benchStore(b, b.TempDir())
		b.StartTimer()
		commitAll(b, st, recs)
		b.StopTimer()
		if err := st.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkFloor(b *testing.B) {
	recs := benchRecords(benchRows)
	for b.Loop() {
		b.StopTimer()
		path := filepath.Join(b.TempDir(), "annals.db")
		st, err := Open(b.Context(), Config{Path: path})
		if err != nil {
			b.Fatal(err)
		}
		if err := st.Close(); err != nil {
			b.Fatal(err)
		}
		db, err := pool(path, url.Values{"_txlock": {"immediate"}, "_pragma": {"synchronous(normal)", "cache_size(-16000)", "foreign_keys(on)"}}, 1)
		if err == nil {
			err = db.PingContext(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		for at := 0; at < len(recs); at += benchPage {
			tx, err := db.BeginTx(context.Background(), nil)
			if err != nil {
				b.Fatal(err)
			}
			row, err := tx.Prepare(`INSERT INTO sessions (upstream, id, parent_id, title, directory, project_id, created, updated,
				upstream_archived, archived_at, activity, system, missing_at, revision, digest) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`)
			if err != nil {
				b.Fatal(err)
			}
			doc, err := tx.Prepare(`INSERT INTO session_metadata (upstream, id, revision, document) VALUES ($1, $2, $3, $4)`)
			if err != nil {
				b.Fatal(err)
			}
			digest := make([]byte, 16)
			for i := range recs[at:min(at+benchPage, len(recs))] {
				r := &recs[at+i]
				if _, err := row.Exec("local", r.ID, r.ParentID, r.Title, r.Directory, r.ProjectID, r.Created, r.Updated, 0, 0, r.Updated, 0, 0, 1, digest); err != nil {
					b.Fatal(err)
				}
				if len(r.Metadata) > 2 {
					if _, err := doc.Exec("local", r.ID, 1, []byte(r.Metadata)); err != nil {
						b.Fatal(err)
					}
				}
			}
			if err := tx.Commit(); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkReplay commits rows that are all known and unchanged, as --full
// does.
func BenchmarkReplay(b *testing.B) {
	recs := benchRecords(benchRows)
	st := benchStore(b, b.TempDir())
	commitAll(b, st, recs)
	for b.Loop() {
		commitAll(b, st, recs)
	}
}

// BenchmarkOneChange commits one changed row into a full store.
func BenchmarkOneChange(b *testing.B) {
	recs := benchRecords(benchRows)
	st := benchStore(b, b.TempDir())
	commitAll(b, st, recs)
	for b.Loop() {
		recs[77].Updated++
		commitAll(b, st, recs[77:78])
	}
}

func BenchmarkKnown(b *testing.B) {
	st := benchStore(b, b.TempDir())
	commitAll(b, st, benchRecords(benchRows))
	for b.Loop() {
		if known, err := st.Known(b.Context(), "local"); err != nil || len(known) != benchRows {
			b.Fatal(len(known), err)
		}
	}
}

func BenchmarkList(b *testing.B) {
	st := benchStore(b, b.TempDir())
	commitAll(b, st, benchRecords(benchRows))
	for name, q := range map[string]index.Query{
		"all":       {Archived: index.ArchivedAll, Children: true, Missing: true},
		"default":   {},
		"limit20":   {Limit: 20},
		"directory": {Directory: "/home/user/projects/project-7", Limit: 20},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if list, err := st.List(b.Context(), q); err != nil || len(list) == 0 {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}

func BenchmarkCounts(b *testing.B) {
	st := benchStore(b, b.TempDir())
	commitAll(b, st, benchRecords(benchRows))
	for b.Loop() {
		if _, err := st.Counts(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen opens and closes a store that is there.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	benchStore(b, dir)
	for b.Loop() {
		st, err := Open(b.Context(), Config{Path: filepath.Join(dir, "annals.db")})
		if err != nil {
			b.Fatal(err)
		}
		if err := st.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
