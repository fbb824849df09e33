package opencode

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"annals/internal/index"
)

// listOf writes a bare list of n rows like those of OpenCode 1.18, about 590
// bytes each.
func listOf(n int) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"ses_dd1183f1fffeCOi0w0FES%05d","slug":"stellar-forest","projectID":"6df22bed18047a67918295c521916c4d4debc0dc",`+
			`"directory":"/srv/demo/project-%d","path":"","title":"Make the parser of page %d accept an empty list","agent":"build",`+
			`"model":{"id":"stub-1","providerID":"stub","variant":"default"},"version":"1.18.33","summary":{"additions":0,"deletions":0,"files":0},`+
			`"cost":0.000296,"tokens":{"input":216,"output":30,"reasoning":10,"cache":{"read":20,"write":0}},`+
			`"time":{"created":17960832%05d,"updated":17960833%05d},"project":{"id":"6df22bed18047a67918295c521916c4d4debc0dc","worktree":"/srv/demo/project-%d"}}`,
			i, i/100, i, i, i, i/100)
	}
	b.WriteByte(']')
	return b.String()
}

func benchmarkList(b *testing.B, list func(*Client) func(context.Context, Request, func(*index.Record) error) (Summary, error)) {
	body := listOf(10_000)
	s := newServer(b, func(w http.ResponseWriter, _ *http.Request) { answer(w, body) })
	c := newClient(b, s.URL, nil)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		rows := 0
		if _, err := list(c)(context.Background(), Request{Route: Bare, Limit: 20_000}, func(*index.Record) error { rows++; return nil }); err != nil || rows != 10_000 {
			b.Fatal(rows, err)
		}
	}
}

// BenchmarkList reads 10,000 rows from a loopback server.
func BenchmarkList(b *testing.B) {
	benchmarkList(b, func(c *Client) func(context.Context, Request, func(*index.Record) error) (Summary, error) {
		return c.List
	})
}

// BenchmarkStubs reads only the ids and times of the same rows.
func BenchmarkStubs(b *testing.B) {
	benchmarkList(b, func(c *Client) func(context.Context, Request, func(*index.Record) error) (Summary, error) {
		return c.Stubs
	})
}

// BenchmarkDecode is BenchmarkList without the network; stubs is BenchmarkStubs.
func BenchmarkDecode(b *testing.B) {
	body := listOf(10_000)
	for _, stub := range []bool{false, true} {
		b.Run(fmt.Sprintf("stubs=%v", stub), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				p := newPage(strings.NewReader(body), DefaultMaxRow, DefaultMaxBody)
				p.rows.stub = stub
				if _, err := p.read(); err != nil || p.sum.Rows != 10_000 {
					b.Fatal(p.sum.Rows, err)
				}
			}
		})
	}
}
