package opencode

import (
	"bytes"
	"encoding/json/jsontext"
)

// maxNesting is how deep a token may lie. Each level is read again from its
// beginning, so it is bounded.
const maxNesting = 32

// tokenOf finds the page token in the value of an envelope's cursor: a string,
// a number as it came, or whatever stands under "next", however often.
// Everything else, the empty string among it, is the end of the list. It
// reports false for a token that is too long to send or lies too deep.
func tokenOf(v jsontext.Value) (string, bool) {
	for range maxNesting {
		if len(v) == 0 {
			return "", true
		}
		switch v.Kind() {
		case '"':
			token := unquote(v)
			return token, len(token) <= maxToken
		case '0':
			return string(v), len(v) <= maxToken
		case '{':
			v = memberOf(v, "next")
		default:
			return "", true
		}
	}
	return "", false
}

// memberOf returns the value of a member of an object, nil without one. The
// last of two counts, as in JavaScript.
func memberOf(object jsontext.Value, member string) jsontext.Value {
	dec := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := dec.ReadToken(); err != nil {
		return nil
	}
	var found jsontext.Value
	for dec.PeekKind() == '"' {
		name, err := dec.ReadValue()
		if err != nil {
			return nil
		}
		wanted := unquote(name) == member
		v, err := dec.ReadValue()
		if err != nil {
			return nil
		}
		if wanted {
			found = v
		}
	}
	return found
}
