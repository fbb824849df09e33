package opencode

import (
	"encoding/json/jsontext"
	"errors"
)

// skipValue goes past the next value, however long, and holds no more of it
// than a row may be long.
func (p *page) skipValue() error {
	depth := p.dec.StackDepth()
	for {
		if _, err := p.skipToken(); err != nil {
			return err
		}
		if p.dec.StackDepth() <= depth {
			return nil
		}
	}
}

// skipToken goes past the next token and returns it. A string too long to
// hold is cut before the decoder sees the rest of it.
func (p *page) skipToken() (jsontext.Token, error) {
	p.allow()
	tok, err := p.dec.ReadToken()
	if errors.Is(err, errPause) && p.in.cutString(p.dec.UnreadBuffer()) {
		p.in.stop += 16 // room for the end of the string
		tok, err = p.dec.ReadToken()
	}
	return tok, err
}

// drop goes past the rest of a row that is too long to hold, and picks up its
// id on the way if that has not come yet. depth is that of the list.
func (p *page) drop(depth int) error {
	isID := false // the next value is the row's id
	for p.dec.StackDepth() > depth {
		level := p.dec.StackDepth()
		_, n := p.dec.StackIndex(level)
		before := p.dec.InputOffset()
		tok, err := p.skipToken()
		if err != nil {
			return err
		}
		short := p.dec.InputOffset()-before <= 8*maxID
		switch {
		case level != depth+1 || tok.Kind() != '"' || !short:
			isID = false
		case n%2 == 0: // names and values are counted alike
			isID = tok.String() == "id"
		case isID:
			p.rows.setID(tok.String())
			isID = false
		}
	}
	return nil
}
