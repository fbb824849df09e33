package storetest

import (
	"context"
	"strings"

	"annals/internal/fault"
	"annals/internal/index"
)

var commitTests = []test{
	{"AFirstPageIsAdded", func(s *suite) {
		s.same("result", s.commit(session("a", 10), child("b", "a", 20)), index.Result{Added: 2})
		a := s.get("a")
		want := index.Entry{Row: index.Row{Upstream: up, Record: session("a", 10), Activity: 10, Revision: 1,
			Digest: digest(session("a", 10))}, Canonical: "/repo", Children: 1}
		want.Metadata = nil
		s.same("the row", a, want)
	}},
	{"AReplayChangesNothing", func(s *suite) {
		page := []index.Record{session("a", 10), with(session("b", 20), archivedDoc), child("c", "a", 5)}
		s.commit(page...)
		before, rows := s.point(), s.everything()
		s.same("result", s.commit(page...), index.Result{Unchanged: 3})
		s.same("the feed", s.point(), before)
		s.same("the rows", s.everything(), rows)
	}},
	{"AnEmptyCommitIsNothing", func(s *suite) {
		s.same("result", s.commit(), index.Result{})
		s.same("revision", s.point().Revision, int64(0))
	}},
	{"AChangeOfAFactIsAnUpdate", func(s *suite) {
		s.commit(session("a", 10), session("b", 10))
		changed := session("a", 10)
		changed.Title, changed.Directory, changed.ParentID = "other", "/elsewhere", "b"
		s.same("result", s.commit(changed, session("b", 10)), index.Result{Updated: 1, Unchanged: 1})
		a := s.get("a")
		s.same("title", a.Title, "other")
		s.same("canonical", a.Canonical, "/elsewhere")
		s.same("parent", a.ParentID, "b")
		s.same("revisions", []int64{a.Revision, s.get("b").Revision}, []int64{2, 1})
	}},
	{"ArchiveAndRestoreAreCountedBothWays", func(s *suite) {
		plain := session("a", 10)
		plain.Archived = 77
		s.same("new and archived", s.commit(plain), index.Result{Added: 1})
		s.same("archived at", s.get("a").ArchivedAt, int64(77))
		s.same("0 beats the upstream", s.commit(with(plain, activeDoc)), index.Result{Updated: 1, Restored: 1})
		s.same("archived again", s.commit(with(plain, archivedDoc)), index.Result{Updated: 1, Archived: 1})
		s.same("archived at", s.get("a").ArchivedAt, int64(500))
		s.same("the upstream's own again", s.commit(plain), index.Result{Updated: 1})
		s.same("archived at", s.get("a").ArchivedAt, int64(77))
	}},
	{"OfTheSameSessionInOnePageTheNewestCounts", func(s *suite) {
		old, tie := session("a", 10), session("a", 30)
		old.Title, tie.Title = "old", "the later of two"
		s.same("result", s.commit(session("a", 20), session("a", 30), old, tie, session("b", 1)), index.Result{Added: 2})
		s.same("title", s.get("a").Title, "the later of two")
	}},
	{"ADigestAloneIsWrittenWithoutARevision", func(s *suite) {
		s.commit(with(session("a", 10), `{"x":1,"y":2}`))
		before := s.get("a")
		other := with(session("a", 10), `{ "y":2, "x":1 }`) // the same, written otherwise
		s.same("result", s.commit(other), index.Result{Unchanged: 1})
		after := s.get("a")
		s.same("digest", after.Digest, digest(other))
		s.same("revision", after.Revision, before.Revision)
		s.same("feed", s.point().Revision, int64(1))
		s.same("document", s.document("a"), `{"x":1,"y":2}`)
	}},
	{"ADocumentIsKeptAsItCame", func(s *suite) {
		const doc = `{"b": 1.50, "a": 12345678901234567890, "s": "\u0000 \ud83d\ude00"}`
		s.commit(with(session("a", 10), doc), session("b", 10))
		s.same("document", s.document("a"), doc)
		s.same("no document", s.document("b"), "{}")
		s.same("document of nobody", s.document("nobody"), "{}")
	}},
	{"ADocumentChangeAloneIsAnUpdate", func(s *suite) {
		s.commit(session("a", 10))
		s.same("result", s.commit(with(session("a", 10), `{"note":1}`)), index.Result{Updated: 1})
		s.same("revision", s.get("a").Revision, int64(2))
		s.same("document", s.document("a"), `{"note":1}`)
	}},
	{"ARecordWithoutMetadataLeavesTheDocument", func(s *suite) {
		s.commit(with(session("a", 10), archivedDoc))
		r := session("a", 20)
		r.Metadata = nil
		s.same("result", s.commit(r), index.Result{Updated: 1})
		s.same("archived at", s.get("a").ArchivedAt, int64(500))
		s.same("document", s.document("a"), archivedDoc)
	}},
	{"ANewerDocumentSurvivesThePage", func(s *suite) {
		s.commit(session("a", 10))
		asked := s.point().Revision
		s.commit(with(session("a", 10), archivedDoc)) // lands while the page is on its way
		s.same("result", s.commitAs(index.Commit{Base: asked, Records: []index.Record{with(session("a", 11), activeDoc)}}), index.Result{Updated: 1})
		a := s.get("a")
		s.same("archived at", a.ArchivedAt, int64(500))
		s.same("updated", a.Updated, int64(11))
		s.same("document", s.document("a"), archivedDoc)
		s.same("the digest of a row that must be looked at again", a.Digest, index.Digest{})
		s.same("next time", s.commit(with(session("a", 11), activeDoc)), index.Result{Updated: 1, Restored: 1})
	}},
	{"ARemovedDocumentDoesNotComeBackFromAnOlderPage", func(s *suite) {
		s.commit(with(session("a", 10), archivedDoc))
		asked := s.point().Revision
		s.same("removed", s.commit(session("a", 10)), index.Result{Updated: 1, Restored: 1})
		s.same("document", s.document("a"), "{}")
		s.same("result", s.commitAs(index.Commit{Base: asked, Records: []index.Record{with(session("a", 10), archivedDoc)}}), index.Result{Unchanged: 1})
		s.same("archived at", s.get("a").ArchivedAt, int64(0))
		s.same("document", s.document("a"), "{}")
		s.same("a newer page", s.commit(with(session("a", 10), archivedDoc)), index.Result{Updated: 1, Archived: 1})
	}},
	{"ADryRunCountsAndWritesNothing", func(s *suite) {
		s.commit(session("a", 10))
		before, rows := s.point(), s.everything()
		c := index.Commit{DryRun: true, Records: []index.Record{session("a", 20), with(session("b", 1), archivedDoc)},
			Directories: []index.Directory{{Given: "/repo", Canonical: "/other"}}, Checkpoint: &index.Checkpoint{Upstream: up, Run: "r"}}
		s.same("result", s.commitAs(c), index.Result{Added: 1, Updated: 1})
		s.same("feed", s.point(), before)
		s.same("rows", s.everything(), rows)
		s.same("document", s.document("b"), "{}")
		cp, err := s.st().Checkpoint(s.Context(), up)
		s.ok(err)
		if cp != nil {
			s.Fatal("the checkpoint was written")
		}
	}},
	{"PinsOutliveWalks", func(s *suite) {
		s.commit(session("a", 10), session("b", 10))
		s.pin("a", true)
		s.same("replay", s.commit(session("a", 10)), index.Result{Unchanged: 1})
		s.commit(session("a", 99))
		s.missing(5, "a")
		s.commit(session("a", 100))
		s.same("pinned", []bool{s.get("a").Pinned, s.get("b").Pinned}, []bool{true, false})
		s.pin("a", false)
		s.same("pinned", s.get("a").Pinned, false)
		s.code(s.st().SetPinned(s.Context(), up, "nobody", true), fault.NotFound)
		s.code(s.st().SetPinned(s.Context(), "elsewhere", "a", true), fault.NotFound)
	}},
	{"TheMissingComeBackWhenTheyAreSeen", func(s *suite) {
		s.commit(session("a", 10), session("b", 10), session("c", 10))
		s.same("set", s.missing(700, "a", "b", "nobody"), 2)
		s.same("again", s.missing(800, "a", "b"), 0)
		a := s.get("a")
		s.same("since", a.MissingAt, int64(700))
		s.same("status", a.Status(), index.StatusMissing)
		s.same("known", s.known(up)["a"].Missing, true)
		s.same("result", s.commit(session("a", 10), session("c", 10)), index.Result{Updated: 1, Unchanged: 1})
		s.same("back", s.get("a").MissingAt, int64(0))
		s.same("still gone", s.get("b").MissingAt, int64(700))
		_, err := s.st().MarkMissing(s.Context(), index.Fence{}, up, []string{"c"}, 0)
		s.code(err, fault.Internal)
	}},
	{"UpstreamsAreApart", func(s *suite) {
		s.commit(session("a", 10))
		s.same("result", s.commitAs(index.Commit{Upstream: "other", Records: []index.Record{session("a", 20)}}), index.Result{Added: 1})
		found, err := s.st().Get(s.Context(), "a")
		s.ok(err)
		if len(found) != 2 || found[0].Upstream != up || found[1].Upstream != "other" {
			s.Fatalf("got %+v", found)
		}
		s.missing(5, "a")
		s.same("the other's", s.known("other")["a"].Missing, false)
		s.same("one upstream", len(s.list(index.Query{Upstream: "other"})), 1)
	}},
	{"TextsComeBackAsTheyWere", func(s *suite) {
		recs := odd()
		dirs := make([]index.Directory, len(recs))
		for i, r := range recs {
			dirs[i] = index.Directory{Given: r.Directory, Canonical: "/c" + r.Directory}
		}
		s.same("result", s.commitAs(index.Commit{Records: recs, Directories: dirs}), index.Result{Added: len(recs)})
		again := s.another()
		for i, r := range recs {
			found, err := again.Get(s.Context(), r.ID)
			s.ok(err)
			if len(found) != 1 {
				s.Fatalf("%q was found %d times", r.ID, len(found))
			}
			want := r
			want.Metadata = nil
			s.same("record", found[0].Record, want)
			in, err := again.List(s.Context(), index.Query{Directory: dirs[i].Canonical, Children: true})
			s.ok(err)
			s.same("by directory", ids(in), []string{r.ID})
		}
		s.same("replay", s.commitAs(index.Commit{Records: recs, Base: 1}), index.Result{Unchanged: len(recs)})
		s.ok(s.st().Check(s.Context()))
	}},
	{"ACancelledCommitWritesNothing", func(s *suite) {
		s.commit(session("a", 10))
		ctx, cancel := context.WithCancel(s.Context())
		cancel()
		_, err := s.st().Commit(ctx, index.Fence{}, index.Commit{Upstream: up, Records: []index.Record{session("b", 1)}})
		s.code(err, fault.Cancelled)
		s.same("rows", ids(s.everything()), []string{"a"})
	}},
}

// odd are records with the texts that go wrong elsewhere.
func odd() []index.Record {
	texts := []string{"", "plain", "nul\x00inside", "\x00", "emoji 😀 and e\u0301", "not \xff\xfe utf-8", "it's \"quoted\" `so`",
		"100% _under_ \\back", "line\nbreak\ttab\r", "' OR 1=1 --", strings.Repeat("long ", 2048), "$1 ?", "é", "É"}
	recs := make([]index.Record, len(texts))
	for i, text := range texts {
		recs[i] = index.Record{ID: "id" + text, ParentID: text, Title: text, Directory: "/d/" + text + "/", ProjectID: text,
			Created: int64(i), Updated: int64(-i), Metadata: index.NoMetadata()}
	}
	return recs
}

func digest(r index.Record) index.Digest { return index.DigestOf(&r, namespace) }

func (s *suite) known(upstream string) map[string]index.Known {
	s.Helper()
	known, err := s.st().Known(s.Context(), upstream)
	s.ok(err)
	return known
}
