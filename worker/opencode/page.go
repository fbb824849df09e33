package opencode

import (
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"strings"

	"annals/internal/index"
)

// maxSkips is how many rows of one answer may be unreadable before the answer
// itself counts as malformed: their names are held in memory.
const maxSkips = 100_000

// deepest is how deep values may be nested: the decoder's own bound.
const deepest = 10_000

// maxToken is the longest page token that is followed. It has to fit into a
// request line.
const maxToken = 16 << 10

// shape is what an answer turned out to be.
type shape int

const (
	shapeOther    shape = iota // JSON, but neither of the two
	shapeArray                 // a bare array of rows
	shapeEnvelope              // an object with an array of rows, "data"
)

// page reads one list answer from start to end, one value at a time.
type page struct {
	in     source
	dec    *jsontext.Decoder
	maxRow int64
	rows   rowReader
	yield  func(*index.Record) error
	sum    Summary
}

// pageError is a fault of the answer itself. Its text holds positions, never
// what the answer said there.
type pageError struct{ what string }

func (e *pageError) Error() string { return e.what }

// yieldError carries an error of the caller through the decoder untouched.
type yieldError struct{ err error }

func (e *yieldError) Error() string { return "the caller stopped" }

func newPage(body io.Reader, maxRow, maxBody int64) *page {
	p := &page{in: source{body: body, max: maxBody}, maxRow: maxRow}
	// The upstream is not ours: what it repeats or encodes badly is no reason
	// to refuse the rest.
	p.dec = jsontext.NewDecoder(&p.in, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	p.rows.dec = p.dec
	return p
}

// read goes through the answer. It returns a *pageError, a *yieldError, or
// what the body's Read returned.
func (p *page) read() (shape, error) {
	got := shapeOther
	p.allow()
	var err error
	switch p.dec.PeekKind() {
	case '[':
		got = shapeArray
		err = p.array()
	case '{':
		got, err = p.envelope()
	default:
		err = p.skipValue()
	}
	if err == nil {
		err = p.end()
	}
	return got, p.explain(err)
}

// allow lets the decoder read as far as a row may be long from here.
func (p *page) allow() { p.in.stop = p.dec.InputOffset() + p.maxRow }

// end makes sure that nothing but space follows.
func (p *page) end() error {
	p.allow()
	_, err := p.dec.ReadToken()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return &pageError{fmt.Sprintf("more after its end, at byte %d", p.dec.InputOffset())}
	}
	return err
}

// explain turns the decoder's errors into page errors. Their own text quotes
// names and characters of the answer.
func (p *page) explain(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errPause):
		return &pageError{fmt.Sprintf("a single value longer than %d bytes at byte %d", p.maxRow, p.dec.InputOffset())}
	case errors.Is(err, errTooLarge):
		return &pageError{fmt.Sprintf("longer than %d bytes", p.in.max)}
	case errors.Is(err, errBadString):
		return &pageError{fmt.Sprintf("not valid JSON behind byte %d", p.dec.InputOffset())}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &pageError{fmt.Sprintf("cut short after %d bytes", p.in.raw)}
	case errors.As(err, &syntax) && syntax.Err != nil && strings.Contains(syntax.Err.Error(), "max depth"):
		return &pageError{fmt.Sprintf("a value nested deeper than %d levels at byte %d: the metadata of one session, most likely", deepest, syntax.ByteOffset)}
	case errors.As(err, &syntax):
		return &pageError{fmt.Sprintf("not valid JSON at byte %d", syntax.ByteOffset)}
	}
	return err
}

// envelope reads {data: [rows], cursor: token}, in any order, whatever else
// there is.
func (p *page) envelope() (shape, error) {
	if _, err := p.dec.ReadToken(); err != nil {
		return shapeOther, err
	}
	got := shapeOther
	cursors := 0
	for p.allow(); p.dec.PeekKind() == '"'; p.allow() {
		name, err := p.name()
		if err != nil {
			return got, err
		}
		p.allow()
		switch {
		case name == "data" && p.dec.PeekKind() == '[':
			if got == shapeEnvelope {
				return got, &pageError{"two lists of rows in one answer"}
			}
			got = shapeEnvelope
			err = p.array()
		case name == "cursor":
			if cursors++; cursors > 1 {
				return got, &pageError{"two page tokens in one answer"}
			}
			err = p.cursor()
		default:
			err = p.skipValue()
		}
		if err != nil {
			return got, err
		}
	}
	_, err := p.dec.ReadToken() // the end of the object, or what is wrong there
	return got, err
}

// name reads a member name of the envelope. One that is not short is none
// that matters.
func (p *page) name() (string, error) {
	v, err := p.dec.ReadValue()
	if errors.Is(err, errPause) {
		_, err = p.skipToken()
		return "", err
	}
	if err != nil || len(v) > maxID {
		return "", err
	}
	return unquote(v), nil
}

// array reads rows up to the end of the list.
func (p *page) array() error {
	if _, err := p.dec.ReadToken(); err != nil {
		return err
	}
	for {
		p.allow()
		kind := p.dec.PeekKind()
		switch kind {
		case ']':
			_, err := p.dec.ReadToken()
			return err
		case '{':
		case 0:
			_, err := p.dec.ReadToken() // returns what PeekKind has seen
			return err
		}
		p.sum.Rows++
		if err := p.row(kind); err != nil {
			return err
		}
	}
}

// row reads one row and yields it, or notes why it could not be read.
func (p *page) row(kind jsontext.Kind) error {
	r := &p.rows
	r.reset()
	if kind != '{' {
		if err := p.skipValue(); err != nil {
			return err
		}
		return p.skip("", "not an object")
	}
	depth := p.dec.StackDepth()
	if _, err := p.dec.ReadToken(); err != nil {
		return err
	}
	p.in.stop = p.dec.InputOffset() - 1 + p.maxRow
	err := r.members()
	switch {
	case errors.Is(err, errPause):
		if err := p.drop(depth); err != nil {
			return err
		}
		return p.skip(r.knownID(), fmt.Sprintf("longer than %d bytes", p.maxRow))
	case err != nil:
		return err
	}
	if why := r.finish(); why != "" {
		return p.skip(r.knownID(), why)
	}
	p.sum.HasMetadata = p.sum.HasMetadata || r.hasMetadata
	if p.yield == nil {
		return nil
	}
	if err := p.yield(&r.rec); err != nil {
		return &yieldError{err}
	}
	return nil
}

// skip notes a row that is left out.
func (p *page) skip(id, why string) error {
	if len(p.sum.Skipped) >= maxSkips {
		return &pageError{fmt.Sprintf("more than %d rows cannot be read", maxSkips)}
	}
	s := Skip{ID: id, Reason: why}
	if id == "" {
		s.Reason = fmt.Sprintf("row %d: %s", p.sum.Rows, why)
	}
	p.sum.Skipped = append(p.sum.Skipped, s)
	return nil
}

// cursor reads the page token of an envelope.
func (p *page) cursor() error {
	v, err := p.dec.ReadValue()
	if err != nil {
		return err
	}
	token, ok := tokenOf(v)
	if !ok {
		return &pageError{"a page token too long or too deep to be one"}
	}
	p.sum.Next = token
	return nil
}
