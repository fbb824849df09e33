package opencode

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-resty/resty/v2"

	"annals/internal/fault"
	"annals/internal/index"
)

func TestAnswersThatSayLaterAreAskedForAgain(t *testing.T) {
	for _, status := range []int{429, 500, 502, 503, 504} {
		var n counter
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
			if n.next() < 3 {
				http.Error(w, "later", status)
				return
			}
			answer(w, `[{"id":"a"}]`)
		})
		c := newClient(t, s.URL, nil)
		got, _, err := collect(c, Request{Route: Bare, Limit: 1})
		if err != nil || ids(got) != "a" || c.Requests() != 3 {
			t.Errorf("%d: %q after %d requests, %v", status, ids(got), c.Requests(), err)
		}
	}
}

func TestAnAnswerThatIsNotUsedGivesItsConnectionBack(t *testing.T) {
	body := &closing{Reader: strings.NewReader(strings.Repeat("x", 1<<20))}
	closeBody(&resty.Response{RawResponse: &http.Response{Body: body}}, nil)
	if !body.closed {
		t.Error("the body is open")
	}
	closeBody(nil, errDeadline)
	closeBody(&resty.Response{}, errDeadline)
}

// closing is a body that knows whether it was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

func TestTheNumberOfTriesIsAsConfigured(t *testing.T) {
	for retries, want := range map[int]int64{-1: 1, 0: 4, 1: 2, 5: 6} {
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		c := newClient(t, s.URL, func(c *Config) { c.Retries = retries })
		if _, _, err := collect(c, Request{Route: Bare, Limit: 1}); !fault.Is(err, fault.Upstream) || c.Requests() != want {
			t.Errorf("retries %d: %d requests, want %d, error %v", retries, c.Requests(), want, err)
		}
	}
}

func TestOtherStatusesAreNotAskedForAgain(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 405, 409, 501} {
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		c := newClient(t, s.URL, nil)
		if _, _, err := collect(c, Request{Route: Bare, Limit: 1}); err == nil || c.Requests() != 1 {
			t.Errorf("%d: %d requests, error %v", status, c.Requests(), err)
		}
	}
}

func TestALostConnectionIsTriedAgain(t *testing.T) {
	var n counter
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.next() < 3 {
			panic(http.ErrAbortHandler)
		}
		answer(w, `[]`)
	})
	if _, _, err := collect(newClient(t, s.URL, nil), Request{Route: Bare, Limit: 1}); err != nil {
		t.Error(err)
	}
}

func TestAServerThatIsNotThereIsUnreachableWithAHint(t *testing.T) {
	port, err := freePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, fmt.Sprintf("http://127.0.0.1:%d", port), nil)
	_, _, err = collect(c, Request{Route: Bare, Limit: 1})
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.Unreachable || !f.Retryable || c.Requests() != 4 ||
		!strings.Contains(err.Error(), "refused") || !strings.Contains(f.Hint, "opencode serve") {
		t.Errorf("%d requests, error %+v", c.Requests(), err)
	}
	hides(t, err)
}

func TestOnlyGETsAreTriedAgain(t *testing.T) {
	for method, want := range map[string]bool{http.MethodGet: true, http.MethodPost: false, http.MethodPatch: false, http.MethodDelete: false} {
		r := &resty.Response{Request: &resty.Request{Method: method}}
		if got := tryAgain(r, io.ErrUnexpectedEOF); got != want {
			t.Errorf("%s: %v", method, got)
		}
	}
}

func TestRetryAfterIsHonouredAndCapped(t *testing.T) {
	const longest = 120 * time.Millisecond
	var n counter
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.next() == 1 {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		answer(w, `[]`)
	})
	c := newClient(t, s.URL, func(c *Config) { c.RetryMaxWait = longest })
	started := time.Now()
	_, _, err := collect(c, Request{Route: Bare, Limit: 1})
	if waited := time.Since(started); err != nil || waited < longest || waited > 10*time.Second {
		t.Errorf("waited %s, error %v", waited, err)
	}
}

func TestRetryAfterIsReadInBothForms(t *testing.T) {
	read := func(value string) time.Duration {
		r := &resty.Response{RawResponse: &http.Response{Header: http.Header{"Retry-After": {value}}}}
		d, err := retryAfter(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for value, want := range map[string]time.Duration{"2": 2 * time.Second, " 7 ": 7 * time.Second, "0": 0, "-5": 0, "soon": 0, "": 0,
		"99999999999999999999": 0, "Mon, 02 Jan 2006 15:04:05 GMT": 0} {
		if got := read(value); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
	if got := read(time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)); got < 50*time.Minute || got > time.Hour {
		t.Errorf("a date in an hour: %s", got)
	}
	if got, _ := retryAfter(nil, &resty.Response{}); got != 0 {
		t.Errorf("no answer: %s", got)
	}
}

func TestCancellingEndsTheWaitAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		cancel()
	})
	c := newClient(t, s.URL, func(c *Config) { c.RetryWait, c.RetryMaxWait = time.Hour, time.Hour })
	_, err := c.List(ctx, Request{Route: Bare, Limit: 1}, func(*index.Record) error { return nil })
	if !fault.Is(err, fault.Cancelled) || !errors.Is(err, context.Canceled) || c.Requests() != 1 {
		t.Errorf("%d requests, error %v", c.Requests(), err)
	}
}

func TestCancellingEndsARequestThatHangs(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		answer(w, `[{"id":"a"},`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	c := newClient(t, s.URL, nil)
	_, err := c.List(ctx, Request{Route: Bare, Limit: 1}, func(*index.Record) error { cancel(); return nil })
	if !fault.Is(err, fault.Cancelled) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// hanging is a server that takes connections and never answers.
func hanging(t *testing.T, write string) *httptest.Server {
	over := make(chan struct{})
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if write != "" {
			answer(w, write)
			w.(http.Flusher).Flush()
		}
		select {
		case <-over:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(over) })
	return s
}

func TestAServerThatNeverAnswersIsAskedTwiceAndThenUnreachable(t *testing.T) {
	c := newClient(t, hanging(t, "").URL, func(c *Config) { c.RequestTimeout = 60 * time.Millisecond })
	_, _, err := collect(c, Request{Route: Bare, Limit: 1})
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.Unreachable || !f.Retryable || c.Requests() != 2 || !strings.Contains(f.Message, "no complete answer within 60ms") {
		t.Errorf("%d requests, error %v", c.Requests(), err)
	}
	hides(t, err)
}

func TestAFirstRequestThatIsNeverAnsweredIsNotTheEnd(t *testing.T) {
	var n counter
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if n.next() == 1 {
			<-r.Context().Done()
			return
		}
		answer(w, `[]`)
	})
	c := newClient(t, s.URL, func(c *Config) { c.RequestTimeout = 100 * time.Millisecond })
	if _, _, err := collect(c, Request{Route: Bare, Limit: 1}); err != nil {
		t.Error(err)
	}
}

func TestTheDeadlineCoversTheBody(t *testing.T) {
	c := newClient(t, hanging(t, `[{"id":"a"},{"id":`).URL, func(c *Config) { c.RequestTimeout = 100 * time.Millisecond })
	got, _, err := collect(c, Request{Route: Bare, Limit: 1})
	if !fault.Is(err, fault.Unreachable) || ids(got) != "a" || c.Requests() != 1 {
		t.Errorf("%q, %d requests, error %v", ids(got), c.Requests(), err)
	}
}

// slowBody answers each Read after some time, with one byte.
type slowBody struct{ each time.Duration }

func (b slowBody) Read(p []byte) (int, error) { <-time.After(b.each); p[0] = 'x'; return 1, nil }
func (slowBody) Close() error                 { return nil }

func TestTheClockStandsStillWhileTheCallerWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.Background())
		b := &timedBody{body: slowBody{time.Second}, ctx: ctx, cancel: cancel, left: 10*time.Second + time.Millisecond, started: time.Now()}
		b.timer = time.AfterFunc(b.left, func() { cancel(errDeadline) })
		b.pause()
		reads := 0
		for ; reads < 100; reads++ {
			if _, err := b.Read(make([]byte, 1)); err != nil {
				if err != errDeadline {
					t.Error(err)
				}
				break
			}
			<-time.After(time.Minute) // the caller at work
		}
		if reads != 11 && reads != 10 {
			t.Errorf("%d reads of a second each in ten seconds", reads)
		}
		_ = b.Close()
	})
}

func TestRedirectsWithinTheServerAreFollowedFiveTimes(t *testing.T) {
	for hops, ok := range map[int]bool{1: true, 5: true, 6: false} {
		s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
			var n int
			if _, err := fmt.Sscanf(r.URL.Path, "/hop/%d", &n); err != nil {
				n = 0
			}
			if _, _, auth := r.BasicAuth(); !auth {
				t.Errorf("hop %d came without the password", n)
			}
			if n == hops {
				answer(w, `[{"id":"a"}]`)
				return
			}
			http.Redirect(w, r, fmt.Sprintf("/hop/%d", n+1), http.StatusTemporaryRedirect)
		})
		c := newClient(t, s.URL, nil)
		got, _, err := collect(c, Request{Route: Bare, Limit: 1})
		if ok != (err == nil) || ok != (ids(got) == "a") || c.Requests() != int64(min(hops, 5))+1 {
			t.Errorf("%d hops: %q after %d requests, %v", hops, ids(got), c.Requests(), err)
		}
		if !ok && (!fault.Is(err, fault.Upstream) || !strings.Contains(err.Error(), "more than 5 times")) {
			t.Error(err)
		}
	}
}

func TestARedirectToAnotherServerIsRefused(t *testing.T) {
	asked := false
	other := newServer(t, func(w http.ResponseWriter, r *http.Request) { asked = true; answer(w, `[]`) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/x?secret=title", status)
		})
		c := newClient(t, s.URL, nil)
		_, _, err := collect(c, Request{Route: Bare, Limit: 1})
		var f *fault.Error
		if !errors.As(err, &f) || f.Code != fault.Upstream || f.Retryable || c.Requests() != 1 || !strings.Contains(err.Error(), "to another host or port; it was not followed") {
			t.Errorf("%d: %d requests, error %v", status, c.Requests(), err)
		}
		hides(t, err, "secret=title", other.URL)
	}
	if asked {
		t.Error("the other server was asked")
	}
}

func TestRedirectTargets(t *testing.T) {
	cases := []struct {
		base, to string
		ok       bool
	}{
		{"http://a:4096", "http://a:4096/x", true},
		{"http://a:4096", "http://A:4096/x", true},
		{"http://a", "http://a:80/x", true},
		{"https://a:443", "https://a/x", true},
		{"http://a:4096", "http://a:4097/x", false},
		{"http://a:4096", "http://b:4096/x", false},
		{"http://a", "https://a/x", false},
		{"https://a", "http://a/x", false},
		{"https://a:4096", "http://a:4096/x", false},
		{"http://a", "http://user:pw@a/x", false},
		{"http://a", "http://a.evil/x", false},
		{"http://[::1]:80", "http://[::1]/x", true},
	}
	for _, c := range cases {
		base, err := parseBase("local", c.base)
		if err != nil {
			t.Fatal(err)
		}
		to, err := url.Parse(c.to)
		if err != nil {
			t.Fatal(err)
		}
		if err := sameServer(base)(&http.Request{URL: to}, make([]*http.Request, 1)); (err == nil) != c.ok {
			t.Errorf("%s to %s: %v", c.base, c.to, err)
		}
	}
}

func TestABodyCutInTransferIsAnErrorAtEveryByte(t *testing.T) {
	var at int
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(smallArray)))
		answer(w, smallArray[:at])
	})
	c := newClient(t, s.URL, nil)
	for at = 0; at <= len(smallArray); at++ {
		got, _, err := collect(c, Request{Route: Bare, Limit: 2})
		if whole := at == len(smallArray); whole != (err == nil) || whole && len(got) != 2 || !whole && !fault.Is(err, fault.Upstream) {
			t.Fatalf("cut at %d of %d: %d rows, %v", at, len(smallArray), len(got), err)
		}
	}
}

func zipped(t *testing.T, text []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestACompressedAnswerIsBoundedByItsDecodedSize(t *testing.T) {
	bomb := zipped(t, append([]byte(`[{"id":"a","title":"`), bytes.Repeat([]byte("x"), 4<<20)...))
	good := zipped(t, []byte(smallArray))
	body := good
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
	for _, compress := range []bool{false, true} { // asked for, and not
		c := newClient(t, s.URL, func(c *Config) { c.MaxBody = 1 << 20 })
		c.wire.base.DisableCompression = !compress
		body = good
		if got, _, err := collect(c, Request{Route: Bare, Limit: 1}); err != nil || len(got) != 2 {
			t.Errorf("%d rows, %v", len(got), err)
		}
		body = good[:len(good)-3]
		if _, _, err := collect(c, Request{Route: Bare, Limit: 1}); !fault.Is(err, fault.Upstream) {
			t.Errorf("cut: %v", err)
		}
		body = bomb
		if _, _, err := collect(c, Request{Route: Bare, Limit: 1}); !fault.Is(err, fault.Upstream) || !strings.Contains(err.Error(), "longer than 1048576 bytes") {
			t.Errorf("bomb: %v", err)
		}
		body = []byte("not gzip at all")
		if _, _, err := collect(c, Request{Route: Bare, Limit: 1}); err == nil {
			t.Error("garbage was taken for gzip")
		} else {
			hides(t, err, "not gzip")
		}
	}
}

func TestWhatAServerSaysInsteadOfHTTPStaysOutOfTheError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, "the private title of a session\r\n\r\n")
			_ = conn.Close()
		}
	}()
	_, _, err = collect(newClient(t, "http://"+l.Addr().String(), nil), Request{Route: Bare, Limit: 1})
	_ = l.Close()
	<-done
	if !fault.Is(err, fault.Unreachable) {
		t.Error(err)
	}
	hides(t, err, "private title")
}

func TestAServerWithAnotherKindOfConnectionIsUnreachable(t *testing.T) {
	plainServer := serving(t, `[]`)
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, `[]`) }))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for url, says := range map[string]string{
		strings.Replace(plainServer.URL, "http:", "https:", 1): "does not speak HTTPS",
		secure.URL: "certificate is not trusted",
	} {
		c := newClient(t, url, nil)
		if _, _, err := collect(c, Request{Route: Bare, Limit: 1}); !fault.Is(err, fault.Unreachable) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestAConnectionIsUsedAgain(t *testing.T) {
	seen := map[string]bool{}
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) { seen[r.RemoteAddr] = true; answer(w, smallArray) })
	c := newClient(t, s.URL, nil)
	for range 5 {
		if _, _, err := collect(c, Request{Route: Bare, Limit: 2}); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 1 {
		t.Errorf("%d connections for 5 requests", len(seen))
	}
}
