package opencode

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"annals/internal/fault"
	"annals/internal/index"
)

var (
	v1Server = Capabilities{Envelope: true, Bare: true, Plain: true}
	v2Server = Capabilities{Envelope: true}
)

func TestLookupReadsTheRecordOfEitherKindOfServer(t *testing.T) {
	var asked string
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.EscapedPath()
		switch {
		case strings.HasPrefix(asked, "/api/"):
			answer(w, `{"data":{"id":"ses_1","title":"T","location":{"directory":"/srv"},"time":{"updated":5}}}`)
		default:
			answer(w, `{"id":"ses_1","title":"T","directory":"/srv","time":{"updated":5},"data":{"id":"no"}}`)
		}
	})
	c := newClient(t, s.URL, nil)
	want := index.Record{ID: "ses_1", Title: "T", Directory: "/srv", Updated: 5}
	for path, caps := range map[string]Capabilities{"/api/session/ses_1": v2Server, "/session/ses_1": v1Server} {
		want.Metadata = nil
		if caps.Bare {
			want.Metadata = index.NoMetadata()
		}
		got, err := c.Lookup(context.Background(), caps, "ses_1")
		if diff := cmp.Diff(want, got); diff != "" || err != nil || asked != path {
			t.Errorf("asked %s: %v\n%s", asked, err, diff)
		}
	}
	if _, err := c.Lookup(context.Background(), Capabilities{Plain: true}, "ses_1"); err != nil || asked != "/session/ses_1" {
		t.Errorf("asked %s: %v", asked, err)
	}
}

func TestLookupCarriesMetadata(t *testing.T) {
	s := serving(t, `{"data":{"id":"ses_1","metadata":{"a":1}}}`)
	got, err := newClient(t, s.URL, nil).Lookup(context.Background(), v2Server, "ses_1")
	if diff := cmp.Diff(json.RawMessage(`{"a":1}`), got.Metadata); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestOnlyA404InJSONSaysThatASessionIsGone(t *testing.T) {
	const secret = "private words"
	cases := map[string]struct {
		status           int
		kind, body, code string
	}{
		"v1":                      {404, "application/json", `{"name":"NotFoundError","data":{"message":"Session not found: ses_1"}}`, fault.NotFound},
		"v2":                      {404, "application/json", `{"_tag":"SessionNotFoundError","sessionID":"ses_1","message":"m"}`, fault.NotFound},
		"a page":                  {404, "text/html", secret, fault.Upstream},
		"text":                    {404, "text/plain", secret, fault.Upstream},
		"JSON under another name": {404, "text/plain", `{"name":"NotFoundError"}`, fault.Upstream},
		"JSON that is none":       {404, "application/json", secret, fault.Upstream},
		"JSON that is cut":        {404, "application/json", `{"name":"NotF`, fault.Upstream},
		"gone":                    {410, "application/json", `{}`, fault.Upstream},
		"a web page with 200":     {200, "text/html", secret, fault.Upstream},
		"a bad id":                {400, "application/json", `{"_tag":"InvalidRequestError"}`, fault.Upstream},
		"a server that fails":     {500, "application/json", `{"name":"UnknownError"}`, fault.Upstream},
		"no content":              {204, "application/json", ``, fault.Upstream},
		"a refused password":      {401, "", secret, fault.Unauthorized},
		"null":                    {200, "application/json", `null`, fault.Upstream},
		"a list":                  {200, "application/json", `[{"id":"ses_1"}]`, fault.Upstream},
		"an empty object":         {200, "application/json", `{}`, fault.Upstream},
		"empty data":              {200, "application/json", `{"data":null}`, fault.Upstream},
		"another session":         {200, "application/json", `{"id":"ses_2"}`, fault.Upstream},
		"a row that is broken":    {200, "application/json", `{"id":"ses_1","title":["` + secret + `"]}`, fault.Upstream},
		"a record that is cut":    {200, "application/json", `{"id":"ses_1","title":"` + secret, fault.Upstream},
		"more behind the record":  {200, "application/json", `{"id":"ses_1"} {}`, fault.Upstream},
		"a record that is long":   {200, "application/json", `{"id":"ses_1","title":"` + strings.Repeat("x", 9000) + `"}`, fault.Upstream},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, func(w http.ResponseWriter, _ *http.Request) { statusOf(c.status, c.kind, c.body)(w) })
			client := newClient(t, s.URL, func(c *Config) { c.MaxRow = 8000 })
			rec, err := client.Lookup(context.Background(), v1Server, "ses_1")
			if !fault.Is(err, c.code) || rec.ID != "" {
				t.Errorf("%+v, error %v", rec, err)
			}
			hides(t, err, secret)
		})
	}
}

func TestAnIDIsAskedForAsOnePathSegment(t *testing.T) {
	var asked string
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.EscapedPath() + "?" + r.URL.RawQuery
		answer(w, `{"id":"a/b?c=%{d}#é"}`)
	})
	c := newClient(t, s.URL, nil)
	if _, err := c.Lookup(context.Background(), v1Server, "a/b?c=%{d}#é"); err != nil || asked != "/session/a%2Fb%3Fc=%25%7Bd%7D%23%C3%A9?" {
		t.Errorf("asked %s: %v", asked, err)
	}
	for _, id := range []string{"", ".", "..", "a\nb", strings.Repeat("x", 257), "a\xff"} {
		before := c.Requests()
		if _, err := c.Lookup(context.Background(), v1Server, id); !fault.Is(err, fault.Usage) || c.Requests() != before {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestProjectsAreListed(t *testing.T) {
	s := newServer(t, routes{"/project": jsonOf(`[{"id":"6df2","worktree":"/srv/demo","vcs":"git","time":{"created":1},"sandboxes":["/srv/demo-worktree"]},
		{"id":"global","worktree":"/","sandboxes":[]},{"id":"x","worktree":"/x","sandboxes":null}]`)}.ServeHTTP)
	got, err := newClient(t, s.URL, nil).Projects(context.Background())
	want := []Project{{"6df2", "/srv/demo", []string{"/srv/demo-worktree"}}, {"global", "/", []string{}}, {"x", "/x", nil}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestProjectsSayWhyThereAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		code   string
	}{
		"a web page":         {statusOf(200, "text/html", "private"), fault.NotFound},
		"404":                {statusOf(404, "application/json", "{}"), fault.NotFound},
		"405":                {statusOf(405, "text/plain", ""), fault.NotFound},
		"no content":         {statusOf(204, "application/json", ""), fault.NotFound},
		"a failing server":   {statusOf(500, "text/plain", "private"), fault.Upstream},
		"a refused password": {statusOf(401, "", ""), fault.Unauthorized},
		"an object":          {jsonOf(`{"data":[]}`), fault.Upstream},
		"a broken project":   {jsonOf(`[{"id":"a","worktree":"/a"},{"id":5,"worktree":"private"}]`), fault.Upstream},
		"no project":         {jsonOf(`["private"]`), fault.Upstream},
		"a cut list":         {jsonOf(`[{"id":"a","worktree":"/a"}`), fault.Upstream},
		"more behind it":     {jsonOf(`[] []`), fault.Upstream},
	} {
		s := newServer(t, routes{"/project": c.answer}.ServeHTTP)
		list, err := newClient(t, s.URL, nil).Projects(context.Background())
		if !fault.Is(err, c.code) || list != nil {
			t.Errorf("%s: %v, error %v", name, list, err)
		}
		hides(t, err, "private")
	}
}
