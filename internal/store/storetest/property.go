package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"pgregory.net/rapid"

	"annals/internal/fault"
	"annals/internal/index"
)

var modelTests = []test{
	{"AListOf1200RowsIsExact", func(s *suite) { exactList(s) }},
	{"AnySequenceOfWritesEndsWhereTheModelDoes", func(s *suite) { anySequence(s) }},
}

// exactList compares every kind of list of a large index with the model.
func exactList(s *suite) {
	random := rand.New(rand.NewPCG(1, 2))
	m := newModel(0)
	docs := []json.RawMessage{index.NoMetadata(), nil, json.RawMessage(archivedDoc), json.RawMessage(activeDoc), json.RawMessage(systemDoc)}
	upstreams := []string{up, "other"}
	for page := range 6 {
		c := index.Commit{Upstream: upstreams[page%2], Namespace: namespace, Base: m.revision}
		for i := range 200 {
			r := session(fmt.Sprintf("s%04d", random.IntN(10_000)), random.Int64N(40)) // many share their activity
			r.Directory = fmt.Sprintf("/d%d", random.IntN(6))
			r.Metadata = docs[random.IntN(len(docs))]
			if i%3 == 0 && i > 0 {
				r.ParentID = c.Records[random.IntN(i)].ID
			}
			if random.IntN(9) == 0 {
				r.Archived = 5
			}
			c.Records = append(c.Records, r)
		}
		s.same("result", s.commitAs(c), m.commit(c))
	}
	for _, u := range upstreams {
		var gone []string
		for k := range m.rows {
			if k.upstream == u && random.IntN(10) == 0 {
				gone = append(gone, k.id)
			}
		}
		n, err := s.st().MarkMissing(s.Context(), index.Fence{}, u, gone, 9)
		s.ok(err)
		s.same("missing", n, m.markMissing(u, gone, 9))
	}
	if len(m.rows) < 1100 {
		s.Fatalf("%d rows are too few", len(m.rows))
	}
	for _, q := range queries([]string{"", up}, []string{"", "/d3"}) {
		q.Limit = random.IntN(2) * 20
		s.same(fmt.Sprintf("%+v", q), s.list(q), m.list(q))
	}
	for _, limit := range []int{1, 1000, 1001} {
		q := index.Query{Archived: index.ArchivedAll, Children: true, Missing: true, Limit: limit}
		s.same(fmt.Sprintf("%+v", q), s.list(q), m.list(q))
	}
}

// queries are all combinations, none with a limit.
func queries(upstreams, dirs []string) []index.Query {
	var out []index.Query
	for _, a := range []index.ArchivedFilter{"", index.ArchivedOnly, index.ArchivedAll} {
		for i := range 4 {
			for _, d := range dirs {
				for _, u := range upstreams {
					out = append(out, index.Query{Upstream: u, Directory: d, Archived: a, Children: i&1 > 0, Missing: i&2 > 0})
				}
			}
		}
	}
	return out
}

// anySequence draws sequences of writes, does each to the store and to the
// model, and compares all that can be read. Every case has upstreams of its
// own, in one database.
func anySequence(s *suite) {
	c := &comparison{suite: s, st: s.stores.Open(s.T), ctx: s.Context()}
	defer func() { s.ok(c.st.Close()) }()
	rapid.Check(s.T, func(t *rapid.T) {
		c.t, c.cases = t, c.cases+1
		c.upstreams = []string{fmt.Sprintf("%d-a", c.cases), fmt.Sprintf("%d-b", c.cases)}
		p, err := c.st.Point(c.ctx)
		c.ok(err)
		c.start = p.Revision
		c.model = newModel(c.start)
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			c.step()
		}
		c.compare()
	})
	s.ok(c.st.Check(c.ctx))
}

type comparison struct {
	suite     *suite
	ctx       context.Context
	t         *rapid.T
	st        Store
	model     *model
	cases     int
	upstreams []string
	start     int64 // the feed's revision before the case
}

func (c *comparison) ok(err error) {
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *comparison) same(what string, got, want any) {
	if d := diff(want, got); d != "" {
		c.t.Fatalf("%s differs (-model +store):\n%s", what, d)
	}
}

func pick[T any](t *rapid.T, what string, from ...T) T { return rapid.SampledFrom(from).Draw(t, what) }

func (c *comparison) step() {
	t := c.t
	upstream := pick(t, "upstream", c.upstreams...)
	switch pick(t, "step", "commit", "commit", "commit", "missing", "pin", "directories", "reopen") {
	case "commit":
		c.commit(upstream)
	case "missing":
		gone := rapid.SliceOfNDistinct(c.id(), 0, 4, rapid.ID[string]).Draw(t, "gone")
		n, err := c.st.MarkMissing(c.ctx, index.Fence{}, upstream, gone, 9)
		c.ok(err)
		c.same("missing", n, c.model.markMissing(upstream, gone, 9))
	case "pin":
		id, pinned := c.id().Draw(t, "id"), rapid.Bool().Draw(t, "pinned")
		err := c.st.SetPinned(c.ctx, upstream, id, pinned)
		if !c.model.setPinned(upstream, id, pinned) {
			if !fault.Is(err, fault.NotFound) {
				t.Fatalf("the pin of an unknown session: %v", err)
			}
			return
		}
		c.ok(err)
	case "directories":
		dirs := rapid.SliceOfN(c.directory(), 0, 3).Draw(t, "directories")
		c.ok(c.st.SetDirectories(c.ctx, index.Fence{}, upstream, dirs))
		c.model.change(func(move func(*modelRow)) {
			for _, d := range dirs {
				c.model.setDirectory(upstream, d, move)
			}
		})
	case "reopen":
		c.ok(c.st.Close())
		c.st = c.suite.stores.Open(c.suite.T)
	}
	p, err := c.st.Point(c.ctx)
	c.ok(err)
	c.same("revision", p.Revision, c.model.revision)
}

func (c *comparison) commit(upstream string) {
	page := index.Commit{Upstream: upstream, Namespace: namespace,
		Records:     rapid.SliceOfN(c.record(), 0, 8).Draw(c.t, "records"),
		Directories: rapid.SliceOfN(c.directory(), 0, 2).Draw(c.t, "directories"),
		Base:        rapid.Int64Range(c.start, c.model.revision).Draw(c.t, "base"),
		DryRun:      rapid.IntRange(0, 5).Draw(c.t, "dry") == 0,
	}
	got, err := c.st.Commit(c.ctx, index.Fence{}, page)
	c.ok(err)
	m := c.model
	if page.DryRun {
		m = c.model.copy()
	}
	c.same("result", got, m.commit(page))
}

// copy returns a model that can be changed without this one.
func (m *model) copy() *model {
	out := newModel(m.revision)
	for k, r := range m.rows {
		row := *r
		out.rows[k] = &row
	}
	for k, d := range m.dirs {
		out.dirs[k] = d
	}
	return out
}

func (c *comparison) id() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "'\x00%"})
}

func (c *comparison) directory() *rapid.Generator[index.Directory] {
	return rapid.Custom(func(t *rapid.T) index.Directory {
		return index.Directory{Given: pick(t, "given", "/x", "/y/", ""), Canonical: pick(t, "canonical", "/x", "/y", "/z")}
	})
}

func (c *comparison) record() *rapid.Generator[index.Record] {
	return rapid.Custom(func(t *rapid.T) index.Record {
		doc := pick(t, "document", "", "{}", "{ }", archivedDoc, activeDoc, systemDoc, `{"x":1,"y":2}`, `{"y":2,"x":1}`,
			`{"openchamber":{"titleRefresh":{"activityUpdatedAt":90}}}`)
		r := index.Record{ID: c.id().Draw(t, "id"), ParentID: pick(t, "parent", "", "", "a", "b"), Title: pick(t, "title", "t", "u", "smartfetch-secondary"),
			Directory: pick(t, "directory", "/x", "/y/", ""), Created: 1, Updated: rapid.Int64Range(0, 4).Draw(t, "updated"),
			Archived: pick[int64](t, "archived", 0, 0, 7)}
		if doc != "" {
			r.Metadata = json.RawMessage(doc)
		}
		return r
	})
}

// compare reads all that the case has written.
func (c *comparison) compare() {
	list, err := c.st.Changes(c.ctx, c.start, 0)
	c.ok(err)
	c.same("changes", list, c.model.changes(c.start))
	for _, u := range c.upstreams {
		known, err := c.st.Known(c.ctx, u)
		c.ok(err)
		c.same("known", known, c.model.known(u))
		q := pick(c.t, "query", index.Query{}, index.Query{Directory: "/x", Children: true}, index.Query{Archived: index.ArchivedOnly, Limit: 2})
		for _, q := range []index.Query{q, {Archived: index.ArchivedAll, Children: true, Missing: true}} {
			q.Upstream = u
			list, err := c.st.List(c.ctx, q)
			c.ok(err)
			c.same(fmt.Sprintf("%+v", q), list, c.model.list(q))
		}
	}
	for k, r := range c.model.rows {
		doc, err := c.st.Document(c.ctx, k.upstream, k.id)
		c.ok(err)
		if !index.SameDocument(doc, r.doc) {
			c.t.Fatalf("the document of %q is %s, the model has %s", k.id, doc, r.doc)
		}
	}
}
