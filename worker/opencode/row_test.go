package opencode

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"annals/internal/index"
)

// readRow reads one row of a bare list.
func readRow(t *testing.T, row string, none json.RawMessage) (index.Record, []Skip) {
	t.Helper()
	p := newPage(strings.NewReader("["+row+"]"), 1<<20, 1<<20)
	p.rows.none = none
	var rec index.Record
	p.yield = func(r *index.Record) error { rec = *r; return nil }
	if _, err := p.read(); err != nil {
		t.Fatalf("%s: %v", row, err)
	}
	if p.sum.Rows != 1 {
		t.Fatalf("%s: %d rows", row, p.sum.Rows)
	}
	return rec, p.sum.Skipped
}

func TestARowOfTheBareListIsRead(t *testing.T) {
	const row = `{"id":"ses_1","slug":"stellar-forest","projectID":"6df2","directory":"/srv/demo","path":"","parentID":"ses_0",
		"title":"A \"quoted\" title – ü","agent":"build","model":{"id":"m","providerID":"p"},"version":"1.18.33",
		"summary":{"additions":0,"deletions":0,"files":0},"cost":0.000296,"tokens":{"input":216,"cache":{"read":20}},
		"metadata":{"openchamber": {"archive":{"archivedAt":5}}},"permission":[{"a":[]}],
		"time":{"created":1796083269856,"updated":1796083271160,"archived":1796083271161},
		"project":{"id":"6df2","worktree":"/srv"}}`
	got, skipped := readRow(t, row, index.NoMetadata())
	want := index.Record{ID: "ses_1", ParentID: "ses_0", Title: "A \"quoted\" title – ü", Directory: "/srv/demo", ProjectID: "6df2",
		Created: 1796083269856, Updated: 1796083271160, Archived: 1796083271161,
		Metadata: json.RawMessage(`{"openchamber": {"archive":{"archivedAt":5}}}`)}
	if diff := cmp.Diff(want, got); diff != "" || skipped != nil {
		t.Errorf("row (-want +got):\n%s\nskipped %v", diff, skipped)
	}
}

func TestRowFields(t *testing.T) {
	base := func(change func(*index.Record)) index.Record {
		r := index.Record{ID: "s", Metadata: index.NoMetadata()}
		change(&r)
		return r
	}
	cases := map[string]struct {
		row  string
		want func(*index.Record)
	}{
		"an id alone":                 {`{"id":"s"}`, func(*index.Record) {}},
		"an escaped id and name":      {`{"\u0069d":"\u0073"}`, func(*index.Record) {}},
		"nulls are absent":            {`{"id":"s","title":null,"parentID":null,"projectID":null,"directory":null,"location":null,"project":null,"time":null,"metadata":null}`, func(*index.Record) {}},
		"null times":                  {`{"id":"s","time":{"created":null,"updated":null,"archived":null}}`, func(*index.Record) {}},
		"location before directory":   {`{"id":"s","directory":"/b","location":{"directory":"/a"},"project":{"worktree":"/c"}}`, func(r *index.Record) { r.Directory = "/a" }},
		"an empty location":           {`{"id":"s","location":{"directory":""},"directory":"/b"}`, func(r *index.Record) { r.Directory = "/b" }},
		"a location of another type":  {`{"id":"s","location":"/a","directory":"/b"}`, func(r *index.Record) { r.Directory = "/b" }},
		"a location directory number": {`{"id":"s","location":{"directory":7},"directory":"/b"}`, func(r *index.Record) { r.Directory = "/b" }},
		"worktree last":               {`{"id":"s","directory":"","project":{"id":"p","worktree":"/c"}}`, func(r *index.Record) { r.Directory = "/c" }},
		"directory of another type":   {`{"id":"s","directory":{"a":1},"project":{"worktree":"/c"}}`, func(r *index.Record) { r.Directory = "/c" }},
		"floats are rounded down":     {`{"id":"s","time":{"created":1.9,"updated":1796083271160.75}}`, func(r *index.Record) { r.Created, r.Updated = 1, 1796083271160 }},
		"negative times":              {`{"id":"s","time":{"created":-1,"updated":-0.5}}`, func(*index.Record) {}},
		"exponents":                   {`{"id":"s","time":{"created":1e3,"updated":1.5E+3}}`, func(r *index.Record) { r.Created, r.Updated = 1000, 1500 }},
		"a time that does not fit":    {`{"id":"s","time":{"created":1e400,"updated":99999999999999999999}}`, func(*index.Record) {}},
		"18 digits":                   {`{"id":"s","time":{"updated":999999999999999999}}`, func(r *index.Record) { r.Updated = 999999999999999999 }},
		"archived":                    {`{"id":"s","time":{"archived":1796083271160.5}}`, func(r *index.Record) { r.Archived = 1796083271160 }},
		"archived at 0 is active":     {`{"id":"s","time":{"archived":0}}`, func(*index.Record) {}},
		"archived below 1":            {`{"id":"s","time":{"archived":0.25}}`, func(r *index.Record) { r.Archived = 1 }},
		"archived negative":           {`{"id":"s","time":{"archived":-5}}`, func(*index.Record) {}},
		"archived as text":            {`{"id":"s","time":{"archived":"1796083271160"}}`, func(*index.Record) {}},
		"archived as object":          {`{"id":"s","time":{"archived":{"at":1}}}`, func(*index.Record) {}},
		"archived true":               {`{"id":"s","time":{"archived":true}}`, func(*index.Record) {}},
		"empty metadata":              {`{"id":"s","metadata":{}}`, func(r *index.Record) { r.Metadata = json.RawMessage(`{}`) }},
		"metadata of another type":    {`{"id":"s","metadata":[1]}`, func(r *index.Record) { r.Metadata = nil }},
		"metadata that is null":       {`{"id":"s","metadata":null}`, func(*index.Record) {}},
		"names differ by case":        {`{"id":"s","Title":"x","TIME":5,"Parentid":7}`, func(*index.Record) {}},
		"parent_id is not a field":    {`{"id":"s","parent_id":"p"}`, func(*index.Record) {}},
		"a repeated name":             {`{"id":"s","title":"a","title":"b"}`, func(r *index.Record) { r.Title = "b" }},
		"invalid UTF-8":               {"{\"id\":\"s\",\"title\":\"a\xffb\",\"metadata\":{\"k\":\"\xfe\"}}", func(r *index.Record) { r.Title, r.Metadata = "a\uFFFDb", json.RawMessage("{\"k\":\"\uFFFD\"}") }},
		"half a surrogate":            {`{"id":"s","title":"a\ud83d!"}`, func(r *index.Record) { r.Title = "a\uFFFD!" }},
		"a whole surrogate pair":      {`{"id":"s","title":"\ud83d\ude00"}`, func(r *index.Record) { r.Title = "😀" }},
		"a very long title":           {`{"id":"s","title":"` + strings.Repeat("x", 300_000) + `"}`, func(r *index.Record) { r.Title = strings.Repeat("x", 300_000) }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, skipped := readRow(t, c.row, index.NoMetadata())
			if diff := cmp.Diff(base(c.want), got); diff != "" || skipped != nil {
				t.Errorf("(-want +got):\n%s\nskipped %v", diff, skipped)
			}
		})
	}
}

func TestRowsThatCannotBeReadAreSkippedByName(t *testing.T) {
	long := strings.Repeat("x", maxID+1)
	cases := map[string]struct {
		row  string
		want Skip
	}{
		"a number as title":     {`{"title":5,"id":"s"}`, Skip{"s", `field "title" is not a string`}},
		"an object as parent":   {`{"id":"s","parentID":{"id":"p"}}`, Skip{"s", `field "parentID" is not a string`}},
		"a list as project":     {`{"id":"s","projectID":[]}`, Skip{"s", `field "projectID" is not a string`}},
		"a number as time":      {`{"id":"s","time":1796083271160}`, Skip{"s", `field "time" is not an object`}},
		"text as updated":       {`{"id":"s","time":{"updated":"today"}}`, Skip{"s", `field "time.updated" is not a number`}},
		"a boolean as created":  {`{"id":"s","time":{"created":true}}`, Skip{"s", `field "time.created" is not a number`}},
		"the first of two":      {`{"id":"s","title":1,"parentID":2}`, Skip{"s", `field "title" is not a string`}},
		"no id":                 {`{"title":"private words"}`, Skip{"", `row 1: field "id" is not a string`}},
		"null as id":            {`{"id":null}`, Skip{"", `row 1: field "id" is not a string`}},
		"a number as id":        {`{"id":7,"title":8}`, Skip{"", `row 1: field "id" is not a string`}},
		"an empty id":           {`{"id":""}`, Skip{"", `row 1: field "id" is empty`}},
		"a long id":             {`{"id":"` + long + `"}`, Skip{"", `row 1: field "id" is longer than 256 bytes`}},
		"an id with a newline":  {`{"id":"a\nb"}`, Skip{"", `row 1: field "id" has characters that no id has`}},
		"an id with an escape":  {`{"id":"\u001b[31m"}`, Skip{"", `row 1: field "id" has characters that no id has`}},
		"an id with DEL":        {"{\"id\":\"a\x7f\"}", Skip{"", `row 1: field "id" has characters that no id has`}},
		"an id that is no text": {"{\"id\":\"a\xff\"}", Skip{"", `row 1: field "id" has characters that no id has`}},
		"null":                  {`null`, Skip{"", `row 1: not an object`}},
		"text":                  {`"private words"`, Skip{"", `row 1: not an object`}},
		"a list":                {`[{"id":"s"}]`, Skip{"", `row 1: not an object`}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, skipped := readRow(t, c.row, nil)
			if diff := cmp.Diff([]Skip{c.want}, skipped); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnIDOf256BytesIsAccepted(t *testing.T) {
	id := strings.Repeat("x", maxID)
	if got, skipped := readRow(t, `{"id":"`+id+`"}`, nil); got.ID != id {
		t.Errorf("skipped %v", skipped)
	}
}

func TestValuesThatRepeatAreShared(t *testing.T) {
	var got []index.Record
	if _, _, err := readPage(`[{"id":"a","projectID":"a\\b"},{"id":"b","projectID":"a\b"}]`, 1<<20,
		func(r *index.Record) error { got = append(got, *r); return nil }); err != nil || got[0].ProjectID != `a\b` || got[1].ProjectID != "a\b" {
		t.Errorf("%+v, %v", got, err)
	}
	got = nil
	_, _, err := readPage(`[{"id":"a","directory":"/srv/one","projectID":"p\/1"},{"id":"b","directory":"/srv/one","projectID":"p/1"},{"id":"c","directory":"/srv/two","projectID":"p\/1"}]`,
		1<<20, func(r *index.Record) error { got = append(got, *r); return nil })
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	for i, dir := range []string{"/srv/one", "/srv/one", "/srv/two"} {
		if got[i].Directory != dir || got[i].ProjectID != "p/1" {
			t.Errorf("row %d: %+v", i, got[i])
		}
	}
}
