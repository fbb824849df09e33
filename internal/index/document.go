package index

import (
	"encoding/json"
	"encoding/json/jsontext"
)

// canonicalJSON returns raw with sorted keys and no white space, or raw itself
// when it is not valid JSON.
func canonicalJSON(raw json.RawMessage) string {
	v := jsontext.Value(append([]byte(nil), raw...))
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return string(raw)
	}
	return string(v)
}
