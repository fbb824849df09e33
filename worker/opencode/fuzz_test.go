package opencode

import (
	"encoding/json"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"annals/internal/index"
)

// FuzzPage: whatever a server sends, reading it ends, never panics, and never
// yields more than the answer has; what it takes for complete is JSON; and a
// complete page loses its last byte only with an error.
func FuzzPage(f *testing.F) {
	for _, seed := range []string{smallEnvelope, smallArray, `{"cursor":{"next":{"next":7}},"data":[]}`, `[null,{"id":"a\u00e9\ud83d"},{"id":"a"}]`,
		`[{"title":"` + strings.Repeat(`x\"\\é`, 90) + `","id":"long"},{"id":"b"}]`, "[{\"id\":\"\xff\"}]", `{"data":[{"id":"a"}],"data":[{"id":"a"}]}`, `[1e999,-0,"x",[[]]]`} {
		f.Add([]byte(seed), int64(64), false)
		f.Add([]byte(seed), int64(4096), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, maxRow int64, stub bool) {
		if maxRow < 16 || maxRow > 1<<16 || len(body) > 1<<16 {
			return
		}
		read := func(body string, slow bool) (shape, Summary, []string, error) {
			var got []string
			p := newPage(strings.NewReader(body), maxRow, 1<<20)
			if slow {
				p = newPage(iotest.OneByteReader(strings.NewReader(body)), maxRow, 1<<20)
			}
			p.rows.stub = stub
			p.yield = func(r *index.Record) error {
				if r.ID == "" || r.Created < 0 || r.Updated < 0 || r.Archived < 0 {
					t.Fatalf("a record that cannot be: %+v", r)
				}
				if r.Metadata != nil && !json.Valid(r.Metadata) {
					t.Fatalf("metadata that is no JSON: %q", r.Metadata)
				}
				got = append(got, r.ID)
				return nil
			}
			s, err := p.read()
			var bad *pageError
			if err != nil && !errors.As(err, &bad) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return s, p.sum, got, err
		}
		s, sum, got, err := read(string(body), false)
		if len(got)+len(sum.Skipped) > sum.Rows {
			t.Fatalf("%d rows, %d yielded, %d skipped", sum.Rows, len(got), len(sum.Skipped))
		}
		s2, sum2, got2, err2 := read(string(body), true)
		if s != s2 || fmt.Sprint(got) != fmt.Sprint(got2) || (err == nil) != (err2 == nil) || sum.Next != sum2.Next {
			t.Fatalf("byte by byte: %v %v %v, at once: %v %v %v", s2, got2, err2, s, got, err)
		}
		if err != nil {
			return
		}
		if v := jsontext.Value(body); !v.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			t.Fatalf("taken for a page: %q", body)
		}
		if len(got)+len(sum.Skipped) != sum.Rows {
			t.Fatalf("%d rows, %d yielded, %d skipped", sum.Rows, len(got), len(sum.Skipped))
		}
		if s != shapeOther {
			cut := strings.TrimRight(string(body), " \t\r\n")
			if _, _, _, err := read(cut[:len(cut)-1], false); err == nil {
				t.Fatal("a cut page was taken for a whole one")
			}
		}
	})
}

// FuzzToken: the token of any JSON value is a piece of it, and short.
func FuzzToken(f *testing.F) {
	for _, seed := range []string{`"a"`, `5`, `{"next":{"next":"b"}}`, `{"next":null}`, `[]`, `{"next":"\ud83d\ude00"}`, `{"n\u0065xt":1e5}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v := jsontext.Value(strings.TrimSpace(string(raw)))
		if !v.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			return
		}
		if token, ok := tokenOf(v); ok && (len(token) > maxToken || strings.HasPrefix(token, "map[")) && v.Kind() != '"' {
			t.Fatalf("%q: %q", raw, token)
		}
	})
}

// FuzzRetryAfter: a header never asks us to wait into the past.
func FuzzRetryAfter(f *testing.F) {
	f.Add("5")
	f.Add("Mon, 02 Jan 2006 15:04:05 GMT")
	f.Fuzz(func(t *testing.T, value string) {
		if d := parseRetryAfter(value); d < 0 {
			t.Fatalf("%q: %s", value, d)
		}
	})
}
