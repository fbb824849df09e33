package opencode

import (
	"bytes"
	"encoding/json"
	"encoding/json/jsontext"
	"math"
	"strconv"
	"unicode"
	"unicode/utf8"

	"annals/internal/index"
	"annals/internal/metadata"
)

// maxID is the longest session id accepted, in bytes.
const maxID = 256

// rowReader reads one session row member by member, straight from the
// decoder: each byte is looked at once. It is used again for every row.
type rowReader struct {
	dec  *jsontext.Decoder
	stub bool            // only id and time.updated are wanted
	none json.RawMessage // the metadata of a row that carries none

	rec         index.Record
	id          string
	badID       string // why the id cannot be used
	problem     string // the first other thing that makes the row unusable
	location    string // location.directory
	directory   string
	worktree    string // project.worktree
	hasMetadata bool
	scratch     []byte
	lastDir     string // values that repeat from row to row are kept once
	lastProject string
}

func (r *rowReader) reset() {
	r.rec = index.Record{Metadata: r.none}
	r.id, r.badID, r.problem = "", `field "id" is not a string`, ""
	r.location, r.directory, r.worktree = "", "", ""
	r.hasMetadata = false
}

// finish completes the record, or says why the row cannot be used.
func (r *rowReader) finish() string {
	if r.badID != "" {
		return r.badID
	}
	if r.problem != "" {
		return r.problem
	}
	r.rec.ID = r.id
	switch {
	case r.location != "":
		r.rec.Directory = r.location
	case r.directory != "":
		r.rec.Directory = r.directory
	default:
		r.rec.Directory = r.worktree
	}
	return ""
}

// knownID is the id under which a row that is left out may be named.
func (r *rowReader) knownID() string {
	if r.badID != "" {
		return ""
	}
	return r.id
}

// setID accepts an id, or notes why it is none. A replaced character would
// make two sessions one, so an id must be valid as it came.
func (r *rowReader) setID(id string) {
	switch {
	case id == "":
		r.badID = `field "id" is empty`
	case len(id) > maxID:
		r.badID = `field "id" is longer than ` + strconv.Itoa(maxID) + " bytes"
	case !plain(id):
		r.badID = `field "id" has characters that no id has`
	default:
		r.id, r.badID = id, ""
	}
}

// plain reports whether id has neither control characters nor bytes that
// could not be read as text.
func plain(id string) bool {
	for _, c := range id {
		if c == utf8.RuneError || unicode.IsControl(c) {
			return false
		}
	}
	return true
}

// members reads the members of the row up to its closing brace.
func (r *rowReader) members() error { return r.object(member) }

// object reads an object whose opening brace has been read, handing the name
// of each member to take, which must read the value.
func (r *rowReader) object(take func(*rowReader, []byte) error) error {
	for r.dec.PeekKind() == '"' {
		v, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		name := v[1 : len(v)-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			// An error means invalid UTF-8, which has been replaced.
			r.scratch, _ = jsontext.AppendUnquote(r.scratch[:0], []byte(v))
			name = r.scratch
		}
		if err := take(r, name); err != nil {
			return err
		}
	}
	_, err := r.dec.ReadToken() // the brace, or what is wrong instead of it
	return err
}

func member(r *rowReader, name []byte) error {
	switch string(name) {
	case "id":
		return r.readID()
	case "time":
		return r.nested(`field "time" is not an object`, timeMember)
	}
	if r.stub {
		return r.ignore()
	}
	switch string(name) {
	case "parentID":
		return r.text(&r.rec.ParentID, nil, `field "parentID" is not a string`)
	case "title":
		return r.text(&r.rec.Title, nil, `field "title" is not a string`)
	case "projectID":
		return r.text(&r.rec.ProjectID, &r.lastProject, `field "projectID" is not a string`)
	case "directory":
		return r.text(&r.directory, &r.lastDir, "")
	case "location":
		return r.nested("", locationMember)
	case "project":
		return r.nested("", projectMember)
	case "metadata":
		return r.metadata()
	}
	return r.ignore()
}

func timeMember(r *rowReader, name []byte) error {
	switch string(name) {
	case "updated":
		return r.time(&r.rec.Updated, `field "time.updated" is not a number`)
	case "created":
		if !r.stub {
			return r.time(&r.rec.Created, `field "time.created" is not a number`)
		}
	case "archived":
		if !r.stub {
			return r.archived()
		}
	}
	return r.ignore()
}

func locationMember(r *rowReader, name []byte) error {
	if string(name) == "directory" {
		return r.text(&r.location, &r.lastDir, "")
	}
	return r.ignore()
}

func projectMember(r *rowReader, name []byte) error {
	if string(name) == "worktree" {
		return r.text(&r.worktree, &r.lastDir, "")
	}
	return r.ignore()
}

func (r *rowReader) ignore() error {
	_, err := r.dec.ReadValue()
	return err
}

// wrong notes what makes the row unusable; "" is a type that does not matter.
func (r *rowReader) wrong(problem string) {
	if r.problem == "" {
		r.problem = problem
	}
}

// nested reads an object value; null counts as absent.
func (r *rowReader) nested(problem string, take func(*rowReader, []byte) error) error {
	if r.dec.PeekKind() == '{' {
		if _, err := r.dec.ReadToken(); err != nil {
			return err
		}
		return r.object(take)
	}
	v, err := r.dec.ReadValue()
	if err == nil && v[0] != 'n' {
		r.wrong(problem)
	}
	return err
}

// text reads a string value into dst; null counts as "". last is the value of
// an earlier row to share memory with.
func (r *rowReader) text(dst, last *string, problem string) error {
	v, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	switch v[0] {
	case '"':
		raw := v[1 : len(v)-1]
		if last != nil && *last == string(raw) {
			*dst = *last
			return nil
		}
		*dst = unquote(v)
		if last != nil && *dst == string(raw) { // nothing was escaped
			*last = *dst
		}
	case 'n':
		*dst = ""
	default:
		r.wrong(problem)
	}
	return nil
}

func (r *rowReader) readID() error {
	v, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	if v[0] != '"' {
		r.badID = `field "id" is not a string`
		return nil
	}
	r.setID(unquote(v))
	return nil
}

func (r *rowReader) time(dst *int64, problem string) error {
	v, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	switch {
	case v[0] == 'n':
		*dst = 0
	case v.Kind() == '0':
		*dst = milliseconds(v)
	default:
		r.wrong(problem)
	}
	return nil
}

// archived reads time.archived: what is not a positive number means active.
func (r *rowReader) archived() error {
	v, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	r.rec.Archived = 0
	if f, ok := metadata.Number(v); ok {
		r.rec.Archived = metadata.Milliseconds(f)
	}
	return nil
}

// metadata keeps the raw object. null counts as none. Anything else is not
// metadata that anybody wrote: it is unknown, and never taken for empty.
func (r *rowReader) metadata() error {
	v, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	if v[0] != '{' {
		r.rec.Metadata, r.hasMetadata = nil, false
		if v[0] == 'n' {
			r.rec.Metadata = r.none
		}
		return nil
	}
	r.hasMetadata = true
	r.rec.Metadata = bytes.Clone(v)
	if !utf8.Valid(v) {
		r.rec.Metadata = bytes.ToValidUTF8(r.rec.Metadata, []byte("\uFFFD"))
	}
	return nil
}

// milliseconds reads a time: rounded down, and 0 when it is negative or does
// not fit.
func milliseconds(v jsontext.Value) int64 {
	if len(v) <= 18 {
		var n int64
		for i, c := range v {
			if c < '0' || c > '9' {
				break
			}
			if n = n*10 + int64(c-'0'); i == len(v)-1 {
				return n
			}
		}
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || !(f > 0) || f >= math.MaxInt64 {
		return 0
	}
	return int64(f)
}

// unquote returns the text of a JSON string. Bytes that are not UTF-8 are
// replaced by U+FFFD, which AppendUnquote reports as an error.
func unquote(v jsontext.Value) string {
	if raw := v[1 : len(v)-1]; bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw)
	}
	text, _ := jsontext.AppendUnquote(nil, []byte(v))
	return string(text)
}
