package opencode

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"annals/internal/fault"
	"annals/internal/index"
)

func TestAURLThatCannotBeUsedIsRefusedWithoutRepeatingIt(t *testing.T) {
	for name, url := range map[string]string{
		"empty":                "",
		"no scheme":            "127.0.0.1:4096",
		"another scheme":       "ftp://127.0.0.1",
		"a socket":             "unix:///run/opencode.sock",
		"no host":              "http://",
		"a port alone":         "http://:4096",
		"user info":            "http://opencode:hunter2@127.0.0.1:4096",
		"a user alone":         "http://hunter2@127.0.0.1:4096",
		"a query":              "http://127.0.0.1:4096?auth=hunter2",
		"an empty query":       "http://127.0.0.1:4096/?",
		"a fragment":           "http://127.0.0.1:4096/#hunter2",
		"an empty fragment":    "http://127.0.0.1:4096/#",
		"a bad port":           "http://opencode:hunter2@127.0.0.1:port",
		"a control character":  "http://127.0.0.1:4096/\x01hunter2",
		"a space in its host":  "http://a b:4096",
		"user info in nothing": "//opencode:hunter2@host",
	} {
		c, err := New(Config{Name: "work", URL: url, Password: "p"})
		if c != nil || !fault.Is(err, fault.Config) || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), `"work"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(Config{Name: "work", URL: "http://127.0.0.1:1", Username: "a:b"}); !fault.Is(err, fault.Config) {
		t.Errorf("a user name with a colon: %v", err)
	}
}

func TestLexicalSaysWhetherPathsAreAnotherMachines(t *testing.T) {
	for url, want := range map[string]bool{
		"http://127.0.0.1:4096": false, "http://127.9.9.9": false, "http://[::1]:4096": false, "http://localhost:4096/": false,
		"http://LOCALHOST": false, "http://app.localhost": false, "http://localhost.": false,
		"http://192.168.1.5:4096": true, "https://opencode.example.org/base/": true, "http://localhost.example.org": true, "http://[fe80::1]": true,
	} {
		c, err := New(Config{URL: url})
		if err != nil || c.Lexical() != want {
			t.Errorf("%s: %v, %v", url, c.Lexical(), err)
		}
	}
}

func TestALoopbackServerIsNeverAskedThroughAProxy(t *testing.T) {
	near, _ := New(Config{URL: "http://127.0.0.1:4096"})
	far, _ := New(Config{URL: "http://opencode.example.org"})
	if near.wire.base.Proxy != nil || far.wire.base.Proxy == nil {
		t.Errorf("proxy for loopback %v, for others %v", near.wire.base.Proxy != nil, far.wire.base.Proxy != nil)
	}
}

func TestWhatARequestSends(t *testing.T) {
	cases := map[string]struct {
		req  Request
		path string
	}{
		"the envelope":              {Request{Route: Envelope, Limit: 1000}, "/base/api/session?limit=1000"},
		"its first page":            {Request{Route: Envelope, Limit: 5, Directory: "/srv/a b&c%/ü"}, "/base/api/session?directory=%2Fsrv%2Fa+b%26c%25%2F%C3%BC&limit=5"},
		"its second page":           {Request{Route: Envelope, Limit: 5, Directory: "/srv", Cursor: "eyJ+/="}, "/base/api/session?cursor=eyJ%2B%2F%3D&limit=5"},
		"the bare list":             {Request{Route: Bare, Limit: 7, WholeProject: true}, "/base/experimental/session?archived=true&limit=7"},
		"a bare second page":        {Request{Route: Bare, Limit: 7, Directory: "/srv", Cursor: "179"}, "/base/experimental/session?archived=true&cursor=179&directory=%2Fsrv&limit=7"},
		"the plain list":            {Request{Route: Plain, Limit: 7, Directory: "/srv"}, "/base/session?directory=%2Fsrv&limit=7"},
		"the plain list of project": {Request{Route: Plain, Limit: 7, Directory: "/srv", WholeProject: true}, "/base/session?directory=%2Fsrv&limit=7&scope=project"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var asked *http.Request
			s := newServer(t, func(w http.ResponseWriter, r *http.Request) { asked = r; answer(w, `[]`) })
			client := newClient(t, s.URL+"/base/", nil)
			if _, _, err := collect(client, c.req); err != nil {
				t.Fatal(err)
			}
			user, password, ok := asked.BasicAuth()
			if got := asked.URL.String(); got != c.path || !ok || user != "opencode" || password != testPassword ||
				asked.Header.Get("Accept") != "application/json" || asked.Method != http.MethodGet {
				t.Errorf("asked %s for %s with user %q, accepting %q", asked.Method, got, user, asked.Header.Get("Accept"))
			}
			if client.Requests() != 1 {
				t.Errorf("%d requests", client.Requests())
			}
		})
	}
}

func TestWithoutAPasswordNoAuthorizationIsSent(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("an Authorization header came")
		}
		answer(w, `[]`)
	})
	if _, _, err := collect(newClient(t, s.URL, func(c *Config) { c.Password = "" }), Request{Route: Bare, Limit: 1}); err != nil {
		t.Error(err)
	}
}

func TestARequestWithoutALimitOrARouteIsNotSent(t *testing.T) {
	c := newClient(t, "http://127.0.0.1:1", nil)
	for _, r := range []Request{{Route: Bare}, {Route: Bare, Limit: -1}, {Limit: 1}} {
		if _, _, err := collect(c, r); !fault.Is(err, fault.Usage) || c.Requests() != 0 {
			t.Errorf("%+v: %v, %d requests", r, err, c.Requests())
		}
	}
}

func TestMetadataThatDoesNotComeIsUnknownOnTheEnvelopeAndNoneElsewhere(t *testing.T) {
	s := serving(t, `{"data":[{"id":"a"},{"id":"b","metadata":{"k":1}},{"id":"c","metadata":null}]}`)
	for route, want := range map[Route]string{Envelope: "nil {\"k\":1} nil", Plain: "{} {\"k\":1} {}", Bare: "{} {\"k\":1} {}"} {
		got, sum, err := collect(newClient(t, s.URL, nil), Request{Route: route, Limit: 1})
		var seen []string
		for _, r := range got {
			text := string(r.Metadata)
			if r.Metadata == nil {
				text = "nil"
			}
			seen = append(seen, text)
		}
		if strings.Join(seen, " ") != want || !sum.HasMetadata || err != nil {
			t.Errorf("%s: %q, has metadata %v, error %v", route, seen, sum.HasMetadata, err)
		}
	}
}

func TestTheTokenOfABareArrayIsItsHeader(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Next-Cursor", " 1796083271122 ")
		answer(w, `[{"id":"a"}]`)
	})
	_, sum, err := collect(newClient(t, s.URL, nil), Request{Route: Bare, Limit: 1})
	if diff := cmp.Diff(Summary{Rows: 1, Next: "1796083271122"}, sum); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestAnErrorOfTheCallerEndsTheListAndComesBackUnchanged(t *testing.T) {
	s := serving(t, smallEnvelope)
	mine := errors.New("mine")
	rows := 0
	_, err := newClient(t, s.URL, nil).List(context.Background(), Request{Route: Envelope, Limit: 5}, func(*index.Record) error { rows++; return mine })
	if err != mine || rows != 1 {
		t.Errorf("%d rows, error %v", rows, err)
	}
}

func TestAnAnswerThatIsNoListIsAnUpstreamError(t *testing.T) {
	const secret = "the private title of a session"
	cases := map[string]struct {
		status            int
		kind, body, code  string
		says              string
		retryable, tiring bool
	}{
		"a web page":         {200, "text/html", "<!doctype html>" + secret, fault.Upstream, "answered 200 with text/html", false, false},
		"no content type":    {200, "", `[]`, fault.Upstream, "an unreadable content type", false, false},
		"no content":         {204, "application/json", "", fault.Upstream, "answered 204", false, false},
		"an empty body":      {200, "application/json", "", fault.Upstream, "cut short", true, false},
		"an empty object":    {200, "application/json", `{}`, fault.Upstream, "neither an array", true, false},
		"an error object":    {200, "application/json", `{"name":"` + secret + `"}`, fault.Upstream, "neither an array", true, false},
		"broken JSON":        {200, "application/json; charset=utf-8", `[{"title":"` + secret + `" x}]`, fault.Upstream, "not valid JSON at byte", true, false},
		"a bad cursor":       {400, "application/json", `{"_tag":"InvalidCursorError","message":"` + secret + `"}`, fault.Upstream, "answered 400", false, false},
		"not found":          {404, "application/json", `{"message":"` + secret + `"}`, fault.Upstream, "answered 404", false, false},
		"a refused password": {401, "", secret, fault.Unauthorized, "answered 401", false, false},
		"forbidden":          {403, "text/html", secret, fault.Unauthorized, "answered 403", false, false},
		"a failing server":   {500, "text/plain", secret, fault.Upstream, "answered 500", true, true},
		"too many":           {429, "application/json", secret, fault.Upstream, "answered 429", true, true},
		"not implemented":    {501, "application/json", secret, fault.Upstream, "answered 501", true, false},
		"a strange redirect": {304, "", "", fault.Upstream, "answered 304", false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = nil
				if c.kind != "" {
					w.Header().Set("Content-Type", c.kind)
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			})
			client := newClient(t, s.URL, nil)
			got, _, err := collect(client, Request{Route: Envelope, Limit: 5})
			var f *fault.Error
			if !errors.As(err, &f) || f.Code != c.code || f.Retryable != c.retryable || !strings.Contains(err.Error(), c.says) || len(got) > 0 {
				t.Errorf("%d rows, error %+v, want one that says %q", len(got), err, c.says)
			}
			if !strings.Contains(err.Error(), string(Envelope)) || !strings.Contains(err.Error(), `"local"`) {
				t.Errorf("%v names neither the route nor the upstream", err)
			}
			want := int64(1)
			if c.tiring {
				want = 4
			}
			if client.Requests() != want {
				t.Errorf("%d requests, want %d", client.Requests(), want)
			}
			hides(t, err, secret)
		})
	}
}

// hides fails the test when an error tells what it must not.
func hides(t *testing.T, err error, more ...string) {
	t.Helper()
	basic := base64.StdEncoding.EncodeToString([]byte("opencode:" + testPassword))
	for _, secret := range append(more, testPassword, basic) {
		for e := err; e != nil; e = errors.Unwrap(e) {
			var hint string
			if f := (*fault.Error)(nil); errors.As(e, &f) {
				hint = f.Hint
			}
			if strings.Contains(e.Error()+hint, secret) {
				t.Errorf("the error tells %q: %v", secret, e)
			}
		}
	}
}
