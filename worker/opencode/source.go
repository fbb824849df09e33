package opencode

import (
	"bytes"
	"errors"
	"io"
	"strings"
)

// errPause stops the decoder at a byte that it may not have yet. The decoder
// keeps its state and can go on when the limit has been raised.
var errPause = errors.New("the value is longer than allowed")

// errTooLarge ends an answer that is longer than MaxBody.
var errTooLarge = errors.New("the answer is larger than allowed")

// errBadString ends an answer with a string that is none, in the part of it
// that the decoder does not see.
var errBadString = errors.New("not a valid string")

// source is what the decoder reads: the body, with a limit on the whole of it
// and one on how far the decoder may read now, and with a way to leave out
// the rest of a string. The limits bound what the decoder holds in memory,
// which is a whole value otherwise.
type source struct {
	body io.Reader
	max  int64 // raw bytes of the answer
	raw  int64 // raw bytes read so far
	out  int64 // bytes handed out so far: the decoder's own offset of its end
	stop int64 // the decoder's offset behind which nothing is handed out

	elide bool   // leave bytes out up to the quote that ends the string
	pass  int    // bytes that complete an escape sequence first
	open  bool   // the next byte decides how long that sequence is
	rest  []byte // raw bytes behind a string that was cut
	buf   [4 << 10]byte
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	if s.elide {
		if err := s.cut(); err != nil {
			return 0, err
		}
	}
	if room := s.stop - s.out; int64(len(p)) > room {
		p = p[:max(room, 0)]
	}
	if len(p) == 0 {
		return 0, errPause
	}
	if len(s.rest) > 0 {
		n := copy(p, s.rest)
		s.rest = s.rest[n:]
		s.out += int64(n)
		return n, nil
	}
	n, err := s.fill(p)
	s.out += int64(n)
	return n, err
}

// fill reads raw bytes.
func (s *source) fill(p []byte) (int, error) {
	if s.raw > s.max {
		return 0, errTooLarge
	}
	n, err := s.body.Read(p)
	s.raw += int64(n)
	if s.raw > s.max {
		return 0, errTooLarge
	}
	return n, err
}

// cutString tells the source that the decoder waits in the middle of a string
// too long to hold, of which token is what it has: the rest of the string is
// left out, and the decoder sees a shorter one. It reports false when token
// does not begin a string.
func (s *source) cutString(token []byte) bool {
	token = bytes.TrimLeft(token, " \t\r\n,:")
	if len(token) == 0 || token[0] != '"' {
		return false
	}
	s.elide, s.pass, s.open = true, 0, false
	for i := 1; i < len(token); i++ {
		if token[i] != '\\' {
			continue
		}
		i++
		switch {
		case i == len(token):
			s.open = true
		case token[i] == 'u':
			s.pass = max(4-(len(token)-1-i), 0)
			i += 4
		}
	}
	return true
}

// cut reads on to the quote that ends the string. What it keeps goes to rest:
// the bytes that complete an escape sequence, the quote, what follows it. What
// it leaves out is checked all the same.
func (s *source) cut() error {
	var kept []byte
	escaped, hex := false, 0
	for {
		chunk := s.rest
		s.rest = nil
		if len(chunk) == 0 {
			n, err := s.fill(s.buf[:])
			if chunk = s.buf[:n]; n == 0 && err != nil {
				return err
			}
		}
		for i, b := range chunk {
			switch {
			case s.open:
				s.open = false
				if kept = append(kept, b); b == 'u' {
					s.pass = 4
				}
			case s.pass > 0:
				s.pass--
				kept = append(kept, b)
			case hex > 0:
				if hex--; !strings.ContainsRune("0123456789abcdefABCDEF", rune(b)) {
					return errBadString
				}
			case escaped:
				if escaped = false; b == 'u' {
					hex = 4
				} else if !strings.ContainsRune(`"\\/bfnrt`, rune(b)) {
					return errBadString
				}
			case b == '\\':
				escaped = true
			case b < ' ':
				return errBadString
			case b == '"':
				s.elide = false
				kept = append(kept, chunk[i:]...)
				s.rest = kept
				return nil
			}
		}
	}
}
