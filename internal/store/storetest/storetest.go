// Package storetest is what every database of the store has to pass: the rules
// of index.Store and jobs.Ledger, one test for each, and a comparison with a
// naive model of the index in memory. Only tests import it.
package storetest

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"annals/internal/fault"
	"annals/internal/index"
	"annals/internal/jobs"
	"annals/internal/metadata"
)

// Store is what a database package opens.
type Store interface {
	index.Store
	jobs.Ledger
	// Check returns nil when the store is sound.
	Check(ctx context.Context) error
	Close() error
}

// Stores is one empty database.
type Stores struct {
	// Open opens it, and opens the same one again, as another process would.
	// The test closes what it opened.
	Open func(t *testing.T) Store
}

// Run runs the suite. open returns a new, empty database each time.
func Run(t *testing.T, open func(t *testing.T) Stores) {
	for _, group := range [...]struct {
		name  string
		tests []test
	}{
		{"Commit", commitTests}, {"Feed", feedTests}, {"Read", readTests}, {"Fence", fenceTests},
		{"Walks", walkTests}, {"Ledger", ledgerTests}, {"Concurrency", concurrencyTests}, {"Model", modelTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, tt := range group.tests {
				t.Run(tt.name, func(t *testing.T) {
					tt.run(&suite{T: t, stores: open(t)})
				})
			}
		})
	}
}

// test is one rule.
type test struct {
	name string
	run  func(s *suite)
}

// suite is the running of one test on its own database.
type suite struct {
	*testing.T
	stores Stores
	opened Store // the first handle, made when it is asked for
}

// st returns the store, opened once.
func (s *suite) st() Store {
	s.Helper()
	if s.opened == nil {
		s.opened = s.another()
	}
	return s.opened
}

// another opens the same database once more, and closes it with the test.
func (s *suite) another() Store {
	s.Helper()
	st := s.stores.Open(s.T)
	s.Cleanup(func() {
		if err := st.Close(); err != nil {
			s.Errorf("close: %v", err)
		}
	})
	return st
}

const (
	up        = "local"
	namespace = metadata.DefaultNamespace
)

// commit commits records of up, asked for at the present revision.
func (s *suite) commit(recs ...index.Record) index.Result {
	s.Helper()
	return s.commitAs(index.Commit{Records: recs, Base: s.point().Revision})
}

// commitAs commits c with the usual upstream and namespace.
func (s *suite) commitAs(c index.Commit) index.Result {
	s.Helper()
	if c.Upstream == "" {
		c.Upstream = up
	}
	c.Namespace = namespace
	res, err := s.st().Commit(s.Context(), index.Fence{}, c)
	s.ok(err)
	return res
}

func (s *suite) point() index.Point {
	s.Helper()
	p, err := s.st().Point(s.Context())
	s.ok(err)
	return p
}

func (s *suite) list(q index.Query) []index.Entry {
	s.Helper()
	list, err := s.st().List(s.Context(), q)
	s.ok(err)
	return list
}

// everything lists all that a list can show.
func (s *suite) everything() []index.Entry {
	s.Helper()
	return s.list(index.Query{Archived: index.ArchivedAll, Children: true, Missing: true})
}

// get returns the one entry with this id.
func (s *suite) get(id string) index.Entry {
	s.Helper()
	found, err := s.st().Get(s.Context(), id)
	s.ok(err)
	if len(found) != 1 {
		s.Fatalf("%d entries have the id %q", len(found), id)
	}
	return found[0]
}

func (s *suite) document(id string) string {
	s.Helper()
	doc, err := s.st().Document(s.Context(), up, id)
	s.ok(err)
	return string(doc)
}

func (s *suite) pin(id string, pinned bool) {
	s.Helper()
	s.ok(s.st().SetPinned(s.Context(), up, id, pinned))
}

func (s *suite) missing(at int64, ids ...string) int {
	s.Helper()
	n, err := s.st().MarkMissing(s.Context(), index.Fence{}, up, ids, at)
	s.ok(err)
	return n
}

func (s *suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// code fails the test unless err has this code.
func (s *suite) code(err error, code string) {
	s.Helper()
	if !fault.Is(err, code) {
		s.Fatalf("the error is %v, its code %q; want code %q", err, fault.CodeOf(err), code)
	}
}

// same fails the test unless got is want.
func (s *suite) same(what string, got, want any) {
	s.Helper()
	if d := diff(want, got); d != "" {
		s.Fatalf("%s differs (-want +got):\n%s", what, d)
	}
}

// diff is cmp.Diff, which takes its time also where nothing differs.
func diff(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got)
}

// session returns a record with an id and a time, an active root in /work.
func session(id string, updated int64) index.Record {
	return index.Record{ID: id, Title: "title of " + id, Directory: "/repo", ProjectID: "p", Created: 1, Updated: updated,
		Metadata: index.NoMetadata()}
}

// with returns the record with metadata.
func with(r index.Record, doc string) index.Record {
	r.Metadata = json.RawMessage(doc)
	return r
}

// child returns a record whose parent is another one.
func child(id, parent string, updated int64) index.Record {
	r := session(id, updated)
	r.ParentID = parent
	return r
}

const (
	archivedDoc = `{"openchamber":{"archive":{"archivedAt":500}}}`
	activeDoc   = `{"openchamber":{"archive":{"archivedAt":0}}}`
	systemDoc   = `{"openchamber":{"scheduledTask":{"taskID":"t"}}}`
)

func ids(list []index.Entry) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].ID
	}
	return out
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }
