package opencode

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"annals/internal/fault"
)

// routes is a server that answers each path in its own way, and everything
// else with a web page and status 200, as OpenCode does.
type routes map[string]func(http.ResponseWriter)

func (m routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f, ok := m[r.URL.Path]; ok {
		f(w)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprint(w, "<!doctype html><title>the private title</title>")
}

func jsonOf(body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { answer(w, body) }
}

func statusOf(code int, kind, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

func probe(t *testing.T, m routes) (Capabilities, error) {
	t.Helper()
	c := newClient(t, newServer(t, m.ServeHTTP).URL, nil)
	caps, err := c.Probe(context.Background())
	if err != nil {
		hides(t, err, "private")
		if caps != (Capabilities{}) {
			t.Errorf("%+v beside an error", caps)
		}
	}
	return caps, err
}

func TestProbeFindsOutWhatTheServerHas(t *testing.T) {
	health := jsonOf(`{"healthy":true,"version":"1.18.33"}`)
	page := jsonOf(`{"data":[{"id":"a"}],"cursor":{"previous":"p","next":"n"}}`)
	list := jsonOf(`[{"id":"a","title":7}]`)
	cases := map[string]struct {
		m    routes
		want Capabilities
	}{
		"1.18":                       {routes{"/global/health": health, "/api/session": page, "/experimental/session": list, "/session": list}, Capabilities{"1.18.33", true, true, true}},
		"a server with one list":     {routes{"/session": jsonOf(`[]`)}, Capabilities{"", false, false, true}},
		"an envelope under /session": {routes{"/session": page}, Capabilities{"", false, false, true}},
		"404 and 405 and 501": {routes{"/global/health": statusOf(404, "application/json", "{}"), "/api/session": page,
			"/experimental/session": statusOf(405, "application/json", "[]"), "/session": statusOf(501, "application/json", "[]")}, Capabilities{"", true, false, false}},
		"404 that is a list": {routes{"/api/session": page, "/session": statusOf(404, "application/json", "[]")}, Capabilities{"", true, false, false}},
		"200 of other shapes": {routes{"/global/health": jsonOf(`{"version":5}`), "/api/session": jsonOf(`{"healthy":true}`),
			"/experimental/session": jsonOf(`"x"`), "/session": list}, Capabilities{"", false, false, true}},
		"data that is no list":     {routes{"/api/session": jsonOf(`{"data":{}}`), "/session": list}, Capabilities{"", false, false, true}},
		"no content":               {routes{"/api/session": statusOf(204, "application/json", ""), "/experimental/session": jsonOf(``), "/session": list}, Capabilities{"", false, false, true}},
		"a version of many words":  {routes{"/global/health": jsonOf(`{"version":"` + strings.Repeat("x", 65) + `"}`), "/session": list}, Capabilities{"", false, false, true}},
		"a version with an escape": {routes{"/global/health": jsonOf(`{"version":"\u001b[2J"}`), "/session": list}, Capabilities{"", false, false, true}},
		"a health that fails":      {routes{"/global/health": statusOf(500, "text/plain", "private"), "/session": list}, Capabilities{"", false, false, true}},
		"a health that is no JSON": {routes{"/global/health": jsonOf(`{{`), "/session": list}, Capabilities{"", false, false, true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := probe(t, c.m)
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func TestProbeSaysWhyItCannotTell(t *testing.T) {
	list := jsonOf(`[]`)
	cases := map[string]struct {
		m          routes
		code, says string
		retryable  bool
	}{
		"a password refused by the health": {routes{"/global/health": statusOf(401, "", "private"), "/session": list}, fault.Unauthorized, "401", false},
		"forbidden at the health":          {routes{"/global/health": statusOf(403, "text/html", "private"), "/session": list}, fault.Unauthorized, "403", false},
		"a password refused by a route":    {routes{"/api/session": statusOf(401, "", ""), "/session": list}, fault.Unauthorized, "GET /api/session answered 401", false},
		"a route that fails":               {routes{"/experimental/session": statusOf(500, "text/plain", "private"), "/session": list}, fault.Upstream, "GET /experimental/session answered 500", true},
		"a route that is busy":             {routes{"/session": statusOf(429, "text/plain", "private")}, fault.Upstream, "GET /session answered 429", true},
		"an answer that is cut":            {routes{"/session": jsonOf(`[{"id":"private`)}, fault.Upstream, "GET /session: malformed page", true},
		"nothing":                          {routes{}, fault.Upstream, "no list of sessions", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := probe(t, c.m)
			var f *fault.Error
			if !errors.As(err, &f) || f.Code != c.code || !strings.Contains(err.Error(), c.says) || f.Retryable != c.retryable || f.Hint == "" && c.code != fault.Upstream {
				t.Errorf("%+v", err)
			}
		})
	}
}

func TestProbeAsksEachRouteOnceForOneRow(t *testing.T) {
	var asked []string
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		answer(w, `[]`)
	})
	c := newClient(t, s.URL, nil)
	if _, err := c.Probe(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := []string{"/global/health", "/api/session?limit=1", "/experimental/session?archived=true&limit=1", "/session?limit=1"}
	if diff := cmp.Diff(want, asked); diff != "" || c.Requests() != 4 {
		t.Errorf("%d requests\n%s", c.Requests(), diff)
	}
}

func TestProbeOfAServerThatHangsIsUnreachable(t *testing.T) {
	c := newClient(t, hanging(t, "").URL, func(c *Config) { c.RequestTimeout = 40 * time.Millisecond })
	_, err := c.Probe(context.Background())
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.Unreachable || !f.Retryable {
		t.Error(err)
	}
}

func TestProbeOfAHealthThatStopsHalfwayIsUnreachable(t *testing.T) {
	c := newClient(t, hanging(t, `{"version":`).URL, func(c *Config) { c.RequestTimeout = 60 * time.Millisecond })
	if _, err := c.Probe(context.Background()); !fault.Is(err, fault.Unreachable) {
		t.Error(err)
	}
}
