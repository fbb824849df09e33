// Package metadata reads what other tools and Annals itself keep in an
// OpenCode session's free metadata object: who archived it and when, whether
// it is a session that a person never opened, and when its title was
// refreshed.
package metadata

import "encoding/json"

// DefaultNamespace is the key under which existing tools write.
const DefaultNamespace = "openchamber"

// Authority says who decides whether a session is archived.
type Authority int

// The three answers a metadata object can give about the archive.
const (
	Silent   Authority = iota // no usable value: the upstream's own state counts
	Archived                  // a positive time
	Active                    // exactly 0: active, whatever the upstream says
)

// View is what the rules need of one metadata object. The zero value is the
// view of a session without metadata.
type View struct {
	Archive    Authority
	ArchivedAt int64 // milliseconds since the epoch, UTC; set with Archived
	System     bool  // made by a tool for itself, never a person's session
	RefreshAt  int64 // titleRefresh.activityUpdatedAt in ms, 0 when absent
}

// Read returns the view of doc under namespace. It never fails: a document
// that is not an object, or a value of the wrong type, says nothing.
func Read(doc json.RawMessage, namespace string) View {
	if len(doc) <= 2 { // nil, "", "{}"
		return View{}
	}
	space := object(object(doc)[namespace])
	if space == nil {
		return View{}
	}
	var v View
	if at, ok := number(object(space["archive"])["archivedAt"]); ok {
		switch {
		case at == 0:
			v.Archive = Active
		case at > 0:
			v.Archive, v.ArchivedAt = Archived, Milliseconds(at)
		}
	}
	if at, ok := number(object(space["titleRefresh"])["activityUpdatedAt"]); ok {
		v.RefreshAt = Milliseconds(at)
	}
	v.System = system(space)
	return v
}

// system is the rule for sessions that are no person's: one that an
// assistant, a scheduled task or a helper model made for itself.
func system(space map[string]json.RawMessage) bool {
	if text(object(space["assistant"])["assistantID"]) != "" &&
		text(object(space["assigned"])["from"]) != "contact" {
		return true
	}
	return text(object(space["scheduledTask"])["taskID"]) != "" ||
		text(object(space["smallModel"])["purpose"]) != "" ||
		text(object(space["llm"])["purpose"]) != ""
}

// latest is the last time that a date of ECMAScript can name, in ms: what lies
// beyond is no time, but positive all the same.
const latest = 8_640_000_000_000_000

// Milliseconds turns a JSON number into a time. What is not positive is 0. A
// fraction below one millisecond is rounded up: it is positive, and only an
// exact 0 means "active".
func Milliseconds(f float64) int64 {
	switch {
	case !(f > 0):
		return 0
	case f < 1:
		return 1
	case f >= latest:
		return latest
	}
	return int64(f)
}

// Number returns the value of raw when it is a JSON number.
func Number(raw json.RawMessage) (float64, bool) { return number(raw) }

func number(raw json.RawMessage) (float64, bool) {
	if len(raw) == 0 || (raw[0] != '-' && (raw[0] < '0' || raw[0] > '9')) {
		return 0, false
	}
	var f float64
	if json.Unmarshal(raw, &f) != nil {
		return 0, false
	}
	return f, true
}

func object(raw json.RawMessage) map[string]json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

func text(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
