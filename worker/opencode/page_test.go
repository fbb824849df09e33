package opencode

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"annals/internal/index"
)

const smallEnvelope = `{"data":[{"id":"ses_2","projectID":"6df2","cost":0,"time":{"created":12,"updated":13},"title":"Child – session","location":{"directory":"/srv/demo"}},` +
	` {"id":"ses_1","model":{"id":"m"},"time":{"created":10,"updated":11},"title":"a \"b\" \u00e9"}],"cursor":{"previous":"eyJhIn0","next":"eyJiIn0"}}`

const smallArray = `[{"id":"ses_2","time":{"created":12,"updated":13.5},"metadata":{"a":{"b":[1,2]}}}, {"id":"ses_1","project":null}]`

func TestTheShapeIsTakenFromTheAnswer(t *testing.T) {
	cases := map[string]struct {
		body string
		want shape
		ids  string
		next string
	}{
		"a bare array":                {`[{"id":"a"},{"id":"b"}]`, shapeArray, "a b", ""},
		"an empty array":              {` [ ] `, shapeArray, "", ""},
		"an envelope":                 {smallEnvelope, shapeEnvelope, "ses_2 ses_1", "eyJiIn0"},
		"the cursor first":            {`{"cursor":{"next":"n"},"data":[{"id":"a"}]}`, shapeEnvelope, "a", "n"},
		"an empty last page":          {`{"data":[],"cursor":{"previous":null,"next":null}}`, shapeEnvelope, "", ""},
		"an empty page with a token":  {`{"data":[],"cursor":"n"}`, shapeEnvelope, "", "n"},
		"no cursor":                   {`{"data":[{"id":"a"}]}`, shapeEnvelope, "a", ""},
		"other members":               {`{"x":{"data":[{"id":"no"}]},"data":[{"id":"a"}],"total":7,"y":[[]]}`, shapeEnvelope, "a", ""},
		"an escaped name":             {`{"d\u0061ta":[{"id":"a"}]}`, shapeEnvelope, "a", ""},
		"an empty object":             {`{}`, shapeOther, "", ""},
		"data that is no array":       {`{"data":{"id":"a"},"cursor":null}`, shapeOther, "", ""},
		"data null":                   {`{"data":null}`, shapeOther, "", ""},
		"text":                        {`"hello"`, shapeOther, "", ""},
		"null":                        {`null`, shapeOther, "", ""},
		"an error object":             {`{"name":"UnknownError","data":{"message":"m"}}`, shapeOther, "", ""},
		"space before, in and behind": {"\n\t[ \r\n{ \"id\" : \"a\" } , {\"id\":\"b\"} ]\n ", shapeArray, "a b", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []index.Record
			s, sum, err := readPage(c.body, 1<<20, func(r *index.Record) error { got = append(got, *r); return nil })
			if err != nil || s != c.want || ids(got) != c.ids || sum.Next != c.next {
				t.Errorf("shape %d, ids %q, next %q, error %v", s, ids(got), sum.Next, err)
			}
		})
	}
}

func TestAMalformedPageIsAnError(t *testing.T) {
	cases := map[string]struct{ body, says string }{
		"nothing":                    {"", "cut short"},
		"space":                      {"  \n", "cut short"},
		"a web page":                 {"<!doctype html>", "not valid JSON at byte 0"},
		"a trailing comma":           {`[{"id":"a"},]`, "not valid JSON"},
		"a missing comma":            {`[{"id":"a"} {"id":"b"}]`, "not valid JSON"},
		"a wrong bracket":            {`[{"id":"a"]]`, "not valid JSON"},
		"a bare word in a row":       {`[{"id":undefined}]`, "not valid JSON"},
		"NaN":                        {`[{"id":"a","time":{"updated":NaN}}]`, "not valid JSON"},
		"a raw newline in a string":  {"[{\"id\":\"a\nb\"}]", "not valid JSON"},
		"a row without colons":       {`[{"id"}]`, "not valid JSON"},
		"garbage behind an array":    {`[{"id":"a"}] x`, "not valid JSON"},
		"a second array":             {`[] []`, "more after its end"},
		"a second object":            {`{"data":[]}{"data":[]}`, "more after its end"},
		"two lists of rows":          {`{"data":[{"id":"a"}],"data":[{"id":"a"}]}`, "two lists of rows"},
		"two cursors":                {`{"data":[],"cursor":"a","cursor":"b"}`, "two page tokens"},
		"a token that is a document": {`{"data":[],"cursor":"` + strings.Repeat("x", maxToken+1) + `"}`, "a page token too long"},
		"a token too deep":           {`{"data":[],"cursor":` + strings.Repeat(`{"next":`, 40) + `"a"` + strings.Repeat("}", 40) + `}`, "a page token too long or too deep"},
		"rows too deep":              {`[{"id":"a","x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}]`, "nested deeper than 10000 levels"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := readPage(c.body, 1<<20, nil)
			var bad *pageError
			if !errors.As(err, &bad) || !strings.Contains(bad.what, c.says) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
		})
	}
}

func TestAPageCutAnywhereIsAnError(t *testing.T) {
	for _, body := range []string{smallEnvelope, smallArray} {
		for n := range len(body) {
			for _, r := range []io.Reader{strings.NewReader(body[:n]), iotest.OneByteReader(strings.NewReader(body[:n])),
				iotest.DataErrReader(strings.NewReader(body[:n]))} {
				p := newPage(r, 1<<20, 1<<20)
				_, err := p.read()
				var bad *pageError
				if !errors.As(err, &bad) || !strings.Contains(bad.what, "cut short") {
					t.Fatalf("cut at %d of %d: %v", n, len(body), err)
				}
			}
		}
		p := newPage(iotest.OneByteReader(strings.NewReader(body)), 1<<20, 1<<20)
		if _, err := p.read(); err != nil || p.sum.Rows != 2 {
			t.Fatalf("the whole page: %d rows, %v", p.sum.Rows, err)
		}
	}
}

func TestOneBadRowLeavesTheOthers(t *testing.T) {
	var got []index.Record
	_, sum, err := readPage(`[{"id":"a"},null,{"id":"b","title":7,"x":{"y":[1]}},{"time":{}},{"id":"c","title":"`+strings.Repeat("t", 10_000)+`"},5,{"id":"d","time":null,"directory":""}]`,
		1<<20, func(r *index.Record) error { got = append(got, *r); return nil })
	want := []Skip{{"", "row 2: not an object"}, {"b", `field "title" is not a string`}, {"", `row 4: field "id" is not a string`}, {"", "row 6: not an object"}}
	if diff := cmp.Diff(want, sum.Skipped); diff != "" || ids(got) != "a c d" || sum.Rows != 7 || err != nil {
		t.Errorf("ids %q, rows %d, error %v\n%s", ids(got), sum.Rows, err, diff)
	}
}

func TestALongRowIsSkippedByName(t *testing.T) {
	long := strings.Repeat("x", 5000)
	cases := map[string]struct {
		row, id string
	}{
		"a long title":              {`{"id":"big","title":"` + long + `"}`, "big"},
		"the id behind it":          {`{"title":"` + long + `","time":{"id":"no"},"id":"big"}`, "big"},
		"many fields":               {`{"id":"big"` + strings.Repeat(`,"k":{"id":"no","v":[1,2,"three"]}`, 300) + `}`, "big"},
		"a long name":               {`{"` + long + `":1,"id":"big"}`, "big"},
		"deep inside":               {`{"metadata":{"a":[{"b":"` + long + `"}]},"id":"big"}`, "big"},
		"an id that is too long":    {`{"id":"` + long + `"}`, ""},
		"no id":                     {`{"x":"id","title":"` + long + `"}`, ""},
		"an id as a value":          {`{"title":"` + long + `","id2":"id","x":"no"}`, ""},
		"a nested id only":          {`{"title":"` + long + `","project":{"id":"no"}}`, ""},
		"an id of another type":     {`{"title":"` + long + `","id":["no"]}`, ""},
		"escapes at every cut":      {`{"id":"big","title":"` + strings.Repeat(`\u00e9\n\\\"`, 600) + `"}`, "big"},
		"a backslash before quotes": {`{"id":"big","title":"` + strings.Repeat(`\\`, 2600) + `\""}`, "big"},
		"surrogates":                {`{"id":"big","title":"` + strings.Repeat(`\ud83d\ude00`, 600) + `"}`, "big"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for limit := int64(900); limit < 920; limit++ { // so that the cut falls on each part of an escape
				var got []index.Record
				_, sum, err := readPage(`[{"id":"a"},`+c.row+`,{"id":"b"}]`, limit, func(r *index.Record) error { got = append(got, *r); return nil })
				reason := fmt.Sprintf("longer than %d bytes", limit)
				if c.id == "" {
					reason = "row 2: " + reason
				}
				if diff := cmp.Diff([]Skip{{c.id, reason}}, sum.Skipped); diff != "" || ids(got) != "a b" || err != nil {
					t.Fatalf("ids %q, error %v\n%s", ids(got), err, diff)
				}
			}
		})
	}
}

func TestARowOfExactlyTheLimitIsRead(t *testing.T) {
	for _, size := range []int{40, 5000} {
		row := `{"id":"a","title":"` + strings.Repeat("x", size-21) + `"}`
		for limit, want := range map[int64]int{int64(size): 0, int64(size) - 1: 1} {
			_, sum, err := readPage("["+row+"]", limit, nil)
			if err != nil || len(sum.Skipped) != want {
				t.Errorf("%d bytes with a limit of %d: skipped %v, error %v", len(row), limit, sum.Skipped, err)
			}
		}
	}
}

func TestALongNumberOrAGapIsAnErrorAndNotMemory(t *testing.T) {
	for name, body := range map[string]string{
		"a number":        `[{"id":"a","cost":` + strings.Repeat("1", 9000) + `}]`,
		"a number row":    `[` + strings.Repeat("1", 9000) + `]`,
		"space":           `[` + strings.Repeat(" ", 9000) + `]`,
		"space in a row":  `[{"id":` + strings.Repeat(" ", 9000) + `"a"}]`,
		"space at an end": `[]` + strings.Repeat(" ", 9000),
		"a cursor":        `{"data":[],"cursor":"` + strings.Repeat("c", 9000) + `"}`,
	} {
		_, _, err := readPage(body, 1000, nil)
		var bad *pageError
		if !errors.As(err, &bad) || !strings.Contains(bad.what, "a single value longer than 1000 bytes") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsLeftOutOfALongStringIsCheckedToo(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for name, inside := range map[string]string{"an unknown escape": `\x`, "half a number": `\u12g4`, "a raw newline": "\n", "a NUL": "\x00"} {
		_, _, err := readPage(`[{"id":"a","title":"`+long+inside+long+`"}]`, 1000, nil)
		var bad *pageError
		if !errors.As(err, &bad) || !strings.Contains(bad.what, "not valid JSON") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, inside := range []string{`\u00e9`, `\"\\\/\b\f\n\r\t`, "é\xff"} {
		_, sum, err := readPage(`[{"id":"a","title":"`+long+inside+long+`"}]`, 1000, nil)
		if err != nil || len(sum.Skipped) != 1 {
			t.Errorf("%q: %v, %v", inside, sum.Skipped, err)
		}
	}
}

// endless is an answer whose one row never ends.
type endless struct{ sent int }

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	if e.sent == 0 {
		n = copy(p, `[{"id":"a","title":"`)
	}
	for ; n < len(p); n++ {
		p[n] = 'x'
	}
	e.sent += n
	return n, nil
}

func TestAnEndlessRowTakesNoMemoryAndEndsAtTheLimitOfTheAnswer(t *testing.T) {
	const maxRow, maxBody = 1 << 20, 12 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p := newPage(&endless{}, maxRow, maxBody)
	_, err := p.read()
	runtime.ReadMemStats(&after)
	var bad *pageError
	if !errors.As(err, &bad) || !strings.Contains(bad.what, "longer than 12582912 bytes") {
		t.Errorf("error %v", err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16*maxRow {
		t.Errorf("%d bytes allocated for a row limit of %d", grown, maxRow)
	}
}

func TestAPageOfJunkRowsIsMalformed(t *testing.T) {
	_, sum, err := readPage("["+strings.Repeat("0,", maxSkips)+"0]", 1<<20, nil)
	var bad *pageError
	if !errors.As(err, &bad) || len(sum.Skipped) != maxSkips {
		t.Errorf("%d skipped, error %v", len(sum.Skipped), err)
	}
}

func TestStubsReadOnlyIDAndUpdated(t *testing.T) {
	p := newPage(strings.NewReader(`[{"id":"a","title":7,"parentID":[],"projectID":1,"directory":"/d","metadata":{"a":1},"time":{"created":"x","updated":5,"archived":6}},{"id":"b","time":{"updated":"x"}}]`), 1<<20, 1<<20)
	p.rows.stub = true
	var got []index.Record
	p.yield = func(r *index.Record) error { got = append(got, *r); return nil }
	_, err := p.read()
	if diff := cmp.Diff([]index.Record{{ID: "a", Updated: 5}}, got); diff != "" || err != nil || p.sum.HasMetadata {
		t.Errorf("error %v\n%s", err, diff)
	}
	if diff := cmp.Diff([]Skip{{"b", `field "time.updated" is not a number`}}, p.sum.Skipped); diff != "" {
		t.Error(diff)
	}
}

// Whatever the rows are, the decoder says the same of them under any limit
// that they keep and for any size of what arrives.
func TestHowThePageArrivesMakesNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SampledFrom([]string{`1`, `"x"`, `null`, `{}`, `[]`, `{"id":"n"}`, `"\u00e9\\"`, `{"directory":"/d"}`, `true`, `-1.5e3`})
		name := rapid.SampledFrom([]string{"id", "title", "time", "location", "metadata", "x", "directory", "parentID"})
		row := rapid.Custom(func(t *rapid.T) string {
			var b strings.Builder
			b.WriteByte('{')
			for i := range rapid.IntRange(0, 5).Draw(t, "members") {
				if i > 0 {
					b.WriteByte(',')
				}
				fmt.Fprintf(&b, "%q:%s", name.Draw(t, "name"), value.Draw(t, "value"))
			}
			return b.String() + "}"
		})
		body := "[" + strings.Join(rapid.SliceOfN(row, 0, 8).Draw(t, "rows"), ",") + "]"
		read := func(r io.Reader) (recs []index.Record, sum Summary, err error) {
			p := newPage(r, 1<<10, 1<<20)
			p.yield = func(r *index.Record) error { recs = append(recs, *r); return nil }
			_, err = p.read()
			return recs, p.sum, err
		}
		whole, sum, err := read(strings.NewReader(body))
		slow, slowSum, slowErr := read(iotest.OneByteReader(strings.NewReader(body)))
		if diff := cmp.Diff(whole, slow); diff != "" || err != nil || slowErr != nil || cmp.Diff(sum, slowSum) != "" {
			t.Fatalf("%s\n%v %v\n%s", body, err, slowErr, diff)
		}
		if len(whole)+len(sum.Skipped) != sum.Rows {
			t.Fatalf("%d rows, %d yielded, %d skipped", sum.Rows, len(whole), len(sum.Skipped))
		}
	})
}
