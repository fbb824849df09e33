package index

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"annals/internal/metadata"
)

const ns = metadata.DefaultNamespace

func stamp(at string) json.RawMessage {
	return json.RawMessage(`{"openchamber":{"archive":{"archivedAt":` + at + `}}}`)
}

func TestTheStampBeatsTheUpstreamAndSilenceLeavesItToIt(t *testing.T) {
	for _, c := range []struct {
		name     string
		upstream int64
		doc      json.RawMessage
		want     int64
	}{
		{"both silent", 0, nil, 0},
		{"archived upstream", 7, nil, 7},
		{"archived in the metadata, active upstream", 0, stamp("9"), 9},
		{"archived in both: the stamp's time", 7, stamp("9"), 9},
		{"explicitly active over an upstream archive", 7, stamp("0"), 0},
		{"a stamp that is no number leaves it to the upstream", 7, stamp(`"9"`), 7},
		{"a null stamp leaves it to the upstream", 7, stamp("null"), 7},
		{"a negative stamp leaves it to the upstream", 7, stamp("-1"), 7},
		{"a fraction below one archives", 0, stamp("0.3"), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, _ := Project(&Record{Archived: c.upstream}, c.doc, ns)
			if got != c.want {
				t.Errorf("archived at %d, want %d", got, c.want)
			}
		})
	}
}

func TestActivityIsTheLatestOfItsThreeTimes(t *testing.T) {
	doc := json.RawMessage(`{"openchamber":{"titleRefresh":{"activityUpdatedAt":30}}}`)
	for _, c := range []struct {
		created, updated int64
		doc              json.RawMessage
		want             int64
	}{{10, 20, nil, 20}, {20, 10, nil, 20}, {10, 20, doc, 30}, {10, 40, doc, 40}, {50, 40, doc, 50}} {
		if _, got, _ := Project(&Record{Created: c.created, Updated: c.updated}, c.doc, ns); got != c.want {
			t.Errorf("created %d, updated %d: activity %d, want %d", c.created, c.updated, got, c.want)
		}
	}
}

func TestOnlyTheExactTitleMakesASystemSession(t *testing.T) {
	for title, want := range map[string]bool{"smartfetch-secondary": true, "smartfetch-secondary 2": false, "Smartfetch-secondary": false, "": false} {
		if _, _, got := Project(&Record{Title: title}, nil, ns); got != want {
			t.Errorf("title %q: system = %v", title, got)
		}
	}
}

// genRecord draws records with few ids and few values, so that they meet.
func genRecord() *rapid.Generator[Record] {
	return rapid.Custom(func(t *rapid.T) Record {
		docs := []json.RawMessage{nil, NoMetadata(), stamp("5"), stamp("0"), json.RawMessage(`{"a":1,"b":2}`), json.RawMessage(`{"b":2, "a":1}`)}
		return Record{
			ID: "ses_" + strconv.Itoa(rapid.IntRange(0, 3).Draw(t, "id")), ParentID: rapid.SampledFrom([]string{"", "ses_9"}).Draw(t, "parent"),
			Title: rapid.StringN(0, 4, 8).Draw(t, "title"), Directory: rapid.SampledFrom([]string{"", "/a", "/b"}).Draw(t, "dir"),
			Created: rapid.Int64Range(0, 3).Draw(t, "created"), Updated: rapid.Int64Range(0, 3).Draw(t, "updated"),
			Archived: rapid.Int64Range(0, 2).Draw(t, "archived"), Metadata: rapid.SampledFrom(docs).Draw(t, "metadata"),
		}
	})
}

func TestMergingTheSameObservationTwiceChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, second := genRecord().Draw(t, "first"), genRecord().Draw(t, "second")
		second.ID = first.ID
		row, doc, _ := Merge("u", ns, &first, Committed{})
		row, doc, _ = Merge("u", ns, &second, Committed{Row: &row, Document: doc})
		again, docAgain, change := Merge("u", ns, &second, Committed{Row: &row, Document: doc})
		if change.Any() || change.Archived || change.Restored {
			t.Fatalf("a replay changed %+v", change)
		}
		if d := cmp.Diff(row, again); d != "" || !SameDocument(doc, docAgain) {
			t.Fatalf("a replay made another row: %s", d)
		}
	})
}

func TestAMergeIsWhatTheNewestObservationAloneWouldGive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, second := genRecord().Draw(t, "first"), genRecord().Draw(t, "second")
		second.ID = first.ID
		row, doc, _ := Merge("u", ns, &first, Committed{})
		row, doc, change := Merge("u", ns, &second, Committed{Row: &row, Document: doc})
		if second.Metadata == nil {
			second.Metadata = doc // an answer without metadata leaves what is committed
			row.Digest = Digest{}
		}
		fresh, _, _ := Merge("u", ns, &second, Committed{})
		fresh.Revision = row.Revision
		if row.Digest == (Digest{}) {
			fresh.Digest = Digest{}
		}
		if d := cmp.Diff(fresh, row); d != "" {
			t.Fatal(d)
		}
		if (change.Archived || change.Restored) && !change.Updated {
			t.Fatal("an archive that is no update")
		}
	})
}

func TestADocumentCommittedMeanwhileOutlivesThePage(t *testing.T) {
	old := Record{ID: "ses_1", Updated: 1, Metadata: NoMetadata()}
	row, _, _ := Merge("u", ns, &old, Committed{})
	row.ArchivedAt = 9 // archived by us after the page was asked for
	got, doc, change := Merge("u", ns, &old, Committed{Row: &row, Document: stamp("9"), Newer: true})
	if got.ArchivedAt != 9 || !SameDocument(doc, stamp("9")) || change.Restored || change.Document {
		t.Errorf("the page undid the archive: %+v %s %+v", got, doc, change)
	}
	if got.Digest == DigestOf(&old, ns) {
		t.Error("the stale observation would hide the next one")
	}
}

func TestAMissingRowComesBackWhenItIsSeen(t *testing.T) {
	rec := Record{ID: "ses_1", Updated: 1, Metadata: NoMetadata()}
	row, _, _ := Merge("u", ns, &rec, Committed{})
	row.MissingAt = 5
	got, _, change := Merge("u", ns, &rec, Committed{Row: &row})
	if got.MissingAt != 0 || !change.Updated {
		t.Errorf("%+v %+v", got, change)
	}
}

func TestEachFactHasItsPartInTheDigest(t *testing.T) {
	base := Record{ID: "a", ParentID: "b", Title: "c", Directory: "d", ProjectID: "e", Created: 1, Updated: 2, Archived: 3, Metadata: NoMetadata()}
	seen := map[Digest]string{DigestOf(&base, ns): "base", DigestOf(&base, "other"): "namespace"}
	for name, change := range map[string]func(*Record){
		"id": func(r *Record) { r.ID = "x" }, "parent": func(r *Record) { r.ParentID = "x" }, "title": func(r *Record) { r.Title = "x" },
		"directory": func(r *Record) { r.Directory = "x" }, "project": func(r *Record) { r.ProjectID = "x" }, "created": func(r *Record) { r.Created = 9 },
		"updated": func(r *Record) { r.Updated = 9 }, "archived": func(r *Record) { r.Archived = 9 }, "metadata": func(r *Record) { r.Metadata = stamp("1") },
		"unknown metadata":    func(r *Record) { r.Metadata = nil },
		"a letter moved over": func(r *Record) { r.Title, r.Directory = "cd", "" },
	} {
		r := base
		change(&r)
		if other, dup := seen[DigestOf(&r, ns)]; dup {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[DigestOf(&r, ns)] = name
	}
}

func TestTheStateOfARow(t *testing.T) {
	for want, r := range map[Status]Row{StatusActive: {}, StatusArchived: {ArchivedAt: 1}, StatusMissing: {ArchivedAt: 1, MissingAt: 1}} {
		if got := r.Status(); got != want {
			t.Errorf("%+v is %s, want %s", r, got, want)
		}
	}
}

func TestTheCanonicalFormOfADirectory(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "/": "/", "//": "/", "/a/": "/a", "/a//b/../c/.": "/a/c", "/a b/'q'%25/🧪/": "/a b/'q'%25/🧪",
		`C:\`: `C:\`, `c:\`: `C:\`, `c:`: `C:\`, `c:\Users\x\`: `C:\Users\x`, `C:/Users//x`: `C:\Users\x`, `c:x`: `c:x`,
		"/e\u0301": "/\u00e9", "relative/x/": "relative/x", "/a\nb": "/a\nb",
	} {
		if got := Canonical(in); got != want {
			t.Errorf("Canonical(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzTheCanonicalFormIsItsOwn(f *testing.F) {
	f.Add("/a/../b//")
	f.Add(`c:\x\..`)
	f.Fuzz(func(t *testing.T, dir string) {
		once := Canonical(dir)
		if twice := Canonical(once); once != twice {
			t.Errorf("%q → %q → %q", dir, once, twice)
		}
	})
}

func TestTheResolverFollowsLinksAndKeepsQuietWhereNothingIs(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	real, link := filepath.Join(root, "real"), filepath.Join(root, "link")
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	var r Resolver
	if got, ok := r.Resolve(link + "/"); got != real || !ok {
		t.Errorf("link → %q, %v", got, ok)
	}
	if got, ok := r.Resolve(filepath.Join(root, "gone")); got != filepath.Join(root, "gone") || ok {
		t.Errorf("gone → %q, %v", got, ok)
	}
	if got, ok := (&Resolver{Lexical: true}).Resolve(link); got != link || !ok {
		t.Errorf("another machine's path was looked up here: %q, %v", got, ok)
	}
}
