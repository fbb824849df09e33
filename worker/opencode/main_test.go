package opencode

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"annals/internal/index"
	"annals/internal/supervise"
)

// The test binary plays the other processes too: the supervisor, and a program
// that starts a managed server and is then killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "__supervise":
			os.Exit(supervise.Main(os.Stdin, os.Stdout, os.Stderr))
		case "__parent":
			os.Exit(parentProcess())
		}
	}
	goleak.VerifyTestMain(m)
}

// supervisor is the command line of the supervisor. A program with the race
// detector in it sleeps for a second before it ends, unless it is told.
func supervisor() []string {
	return []string{"/usr/bin/env", "GORACE=atexit_sleep_ms=0", os.Args[0], "__supervise"}
}

// parentProcess starts a managed server as told on standard input, says so,
// and waits for its end.
func parentProcess() int {
	var c ManagedConfig
	if err := json.NewDecoder(os.Stdin).Decode(&c); err != nil {
		return 2
	}
	c.Self = supervisor()
	m, err := StartManaged(context.Background(), c)
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	fmt.Println("started", m.URL)
	select {}
}

const testPassword = "hunter2-very-secret"

// newServer starts a server and ends it with the test.
func newServer(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// newClient returns a client that hardly waits between tries.
func newClient(t testing.TB, url string, change func(*Config)) *Client {
	t.Helper()
	c := Config{Name: "local", URL: url, Password: testPassword, RequestTimeout: 5 * time.Second,
		RetryWait: time.Millisecond, RetryMaxWait: 2 * time.Millisecond}
	if change != nil {
		change(&c)
	}
	client, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// answer writes JSON.
func answer(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, body)
}

// serving answers every request with the same JSON.
func serving(t testing.TB, body string) *httptest.Server {
	return newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, body) })
}

// counter counts requests.
type counter struct{ n atomic.Int64 }

func (c *counter) next() int { return int(c.n.Add(1)) }

// collect returns copies of the records of one List call.
func collect(c *Client, r Request) ([]index.Record, Summary, error) {
	var got []index.Record
	sum, err := c.List(context.Background(), r, func(rec *index.Record) error {
		got = append(got, *rec)
		return nil
	})
	return got, sum, err
}

// readPage reads a whole answer without a server.
func readPage(body string, maxRow int64, yield func(*index.Record) error) (shape, Summary, error) {
	p := newPage(strings.NewReader(body), maxRow, 1<<30)
	p.yield = yield
	got, err := p.read()
	return got, p.sum, err
}

func ids(recs []index.Record) string {
	var b strings.Builder
	for i, r := range recs {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(r.ID)
	}
	return b.String()
}
