package opencode

import (
	"encoding/json"
	"encoding/json/jsontext"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTheTokenIsTakenAsItCame(t *testing.T) {
	cases := map[string]struct{ cursor, want string }{
		"text":                       {`"eyJh.b-_="`, "eyJh.b-_="},
		"text with escapes":          {`"a\/b\u003d"`, "a/b="},
		"a number":                   {`1796083271122`, "1796083271122"},
		"a number above 2^53":        {`9007199254740993`, "9007199254740993"},
		"a fraction":                 {`1.50`, "1.50"},
		"an exponent":                {`1e3`, "1e3"},
		"zero":                       {`0`, "0"},
		"next":                       {`{"previous":"a","next":"b"}`, "b"},
		"next as a number":           {`{"next":5}`, "5"},
		"next of next":               {`{"next":{"previous":"a","next":{"next":"b"}}}`, "b"},
		"next null":                  {`{"previous":"a","next":null}`, ""},
		"next empty":                 {`{"next":""}`, ""},
		"next false":                 {`{"next":false}`, ""},
		"next true":                  {`{"next":true}`, ""},
		"next as a list":             {`{"next":["a"]}`, ""},
		"no next":                    {`{"previous":"a"}`, ""},
		"an empty object":            {`{}`, ""},
		"next deeper than a sibling": {`{"page":{"next":"no"}}`, ""},
		"another case":               {`{"Next":"no"}`, ""},
		"null":                       {`null`, ""},
		"the empty text":             {`""`, ""},
		"false":                      {`false`, ""},
		"a list":                     {`["a"]`, ""},
		"text that looks like JSON":  {`"{\"next\":\"b\"}"`, `{"next":"b"}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := tokenOf(jsontext.Value(c.cursor))
			if got != c.want || !ok {
				t.Errorf("%s: %q, %v", c.cursor, got, ok)
			}
		})
	}
}

func TestATokenIsNeverTheTextOfAnObject(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaves := []*rapid.Generator[any]{
			rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.StringMatching(`[a-zA-Z0-9_=-]{0,12}`).AsAny(), rapid.Int64().AsAny(),
		}
		if depth > 0 {
			leaves = append(leaves, rapid.MapOf(rapid.SampledFrom([]string{"next", "previous", "x"}), value(depth-1)).AsAny(),
				rapid.SliceOfN(value(depth-1), 0, 3).AsAny())
		}
		return rapid.OneOf(leaves...)
	}
	rapid.Check(t, func(t *rapid.T) {
		v := value(4).Draw(t, "cursor")
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := tokenOf(raw)
		if !ok || strings.ContainsAny(got, "[]{} ") || strings.Contains(got, "map") && !strings.Contains(string(raw), "map") {
			t.Fatalf("%s: %q", raw, got)
		}
		if want := expectedToken(v); got != want {
			t.Fatalf("%s: %q, want %q", raw, got, want)
		}
	})
}

// expectedToken is the rule once more, over decoded values.
func expectedToken(v any) string {
	switch x := v.(type) {
	case string:
		return x
	case int64:
		raw, _ := json.Marshal(x)
		return string(raw)
	case map[string]any:
		return expectedToken(x["next"])
	}
	return ""
}
