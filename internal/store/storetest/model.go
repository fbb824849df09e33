package storetest

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"annals/internal/index"
)

// model is the index in the plainest form: a map, and a loop for each rule.
// What a record means comes from index.Project and index.DigestOf; what a
// commit does with it is written here once more.
type model struct {
	revision int64
	rows     map[key]*modelRow
	dirs     map[key]string
	pins     map[key]bool
}

type key struct{ upstream, id string }

type modelRow struct {
	index.Row
	doc         json.RawMessage // {} when there is none
	docRevision int64           // 0 when there never was one
}

func newModel(revision int64) *model {
	return &model{revision: revision, rows: map[key]*modelRow{}, dirs: map[key]string{}, pins: map[key]bool{}}
}

// commit does what Store.Commit should, and returns what it should.
func (m *model) commit(c index.Commit) index.Result {
	var res index.Result
	next, moved := m.revision+1, false
	move := func(r *modelRow) {
		r.Revision = next
		moved = true
	}
	for _, d := range c.Directories {
		m.setDirectory(c.Upstream, d, move)
	}
	for _, rec := range newestOf(c.Records) {
		if _, ok := m.dirs[key{c.Upstream, rec.Directory}]; !ok {
			m.dirs[key{c.Upstream, rec.Directory}] = index.Canonical(rec.Directory)
		}
		old, known := m.rows[key{c.Upstream, rec.ID}]
		if !known {
			old = &modelRow{doc: index.NoMetadata()}
		}
		row := modelRow{Row: index.Row{Upstream: c.Upstream, Record: rec, Revision: old.Revision}, doc: old.doc, docRevision: old.docRevision}
		row.Metadata = nil
		newer := old.docRevision > c.Base
		changed := rec.Metadata != nil && !newer && !index.SameDocument(old.doc, rec.Metadata)
		if changed {
			row.doc, row.docRevision = rec.Metadata, next
		}
		row.ArchivedAt, row.Activity, row.System = index.Project(&rec, row.doc, c.Namespace)
		before := old.Row
		before.Digest = index.Digest{}
		differs := asJSON(before) != asJSON(row.Row)
		if !newer {
			row.Digest = index.DigestOf(&rec, c.Namespace)
		}
		switch {
		case !known:
			res.Added++
			move(&row)
		case differs || changed:
			res.Updated++
			move(&row)
			if before.ArchivedAt == 0 && row.ArchivedAt > 0 {
				res.Archived++
			}
			if before.ArchivedAt > 0 && row.ArchivedAt == 0 {
				res.Restored++
			}
		default:
			res.Unchanged++
		}
		m.rows[key{c.Upstream, rec.ID}] = &row
	}
	if moved {
		m.revision = next
	}
	return res
}

func asJSON(r index.Row) string {
	raw, err := json.Marshal(r)
	if err != nil {
		panic(err) // a struct of texts and numbers
	}
	return string(raw)
}

// newestOf keeps one record of each id: the newest, the later one on a tie.
func newestOf(recs []index.Record) []index.Record {
	var out []index.Record
	for i, r := range recs {
		beaten := false
		for j, other := range recs {
			if other.ID == r.ID && (other.Updated > r.Updated || other.Updated == r.Updated && j > i) {
				beaten = true
			}
		}
		if !beaten {
			out = append(out, r)
		}
	}
	return out
}

func (m *model) setDirectory(upstream string, d index.Directory, move func(*modelRow)) {
	if old, ok := m.dirs[key{upstream, d.Given}]; ok && old == d.Canonical {
		return
	}
	m.dirs[key{upstream, d.Given}] = d.Canonical
	for k, r := range m.rows {
		if k.upstream == upstream && r.Directory == d.Given {
			move(r)
		}
	}
}

// change lets do touch rows, in one revision.
func (m *model) change(do func(move func(*modelRow))) {
	moved := false
	do(func(r *modelRow) {
		r.Revision = m.revision + 1
		moved = true
	})
	if moved {
		m.revision++
	}
}

func (m *model) markMissing(upstream string, ids []string, at int64) int {
	n := 0
	m.change(func(move func(*modelRow)) {
		for _, id := range ids {
			if r, ok := m.rows[key{upstream, id}]; ok && r.MissingAt == 0 {
				r.MissingAt = at
				move(r)
				n++
			}
		}
	})
	return n
}

// setPinned reports whether the session is known.
func (m *model) setPinned(upstream, id string, pinned bool) bool {
	r, ok := m.rows[key{upstream, id}]
	if ok && m.pins[key{upstream, id}] != pinned {
		m.pins[key{upstream, id}] = pinned
		m.change(func(move func(*modelRow)) { move(r) })
	}
	return ok
}

// entries are all rows with what is kept beside them.
func (m *model) entries() []index.Entry {
	children := map[key]int{}
	for _, r := range m.rows {
		if r.MissingAt == 0 && !r.System {
			children[key{r.Upstream, r.ParentID}]++
		}
	}
	var out []index.Entry
	for k, r := range m.rows {
		out = append(out, index.Entry{Row: r.Row, Canonical: m.dirs[key{k.upstream, r.Directory}], Pinned: m.pins[k], Children: children[k]})
	}
	return out
}

// list does what Store.List should.
func (m *model) list(q index.Query) []index.Entry {
	var out []index.Entry
	for _, e := range m.entries() {
		archived := q.Archived == index.ArchivedAll || (q.Archived == index.ArchivedOnly) == (e.ArchivedAt > 0)
		if e.System || !archived || q.Upstream != "" && q.Upstream != e.Upstream || !q.Children && e.ParentID != "" ||
			!q.Missing && e.MissingAt > 0 || q.Directory != "" && e.Canonical != q.Directory {
			continue
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b index.Entry) int {
		return cmp.Or(cmp.Compare(b.Activity, a.Activity), strings.Compare(a.ID, b.ID), strings.Compare(a.Upstream, b.Upstream))
	})
	if q.Limit > 0 && len(out) > q.Limit {
		out = out[:q.Limit]
	}
	return out
}

func (m *model) known(upstream string) map[string]index.Known {
	out := map[string]index.Known{}
	for k, r := range m.rows {
		if k.upstream == upstream {
			out[k.id] = index.Known{Digest: r.Digest, Missing: r.MissingAt > 0}
		}
	}
	return out
}

// changes does what Store.Changes should without a limit.
func (m *model) changes(since int64) []index.Entry {
	var out []index.Entry
	for _, e := range m.entries() {
		if e.Revision > since {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b index.Entry) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), strings.Compare(a.Upstream, b.Upstream), strings.Compare(a.ID, b.ID))
	})
	return out
}
