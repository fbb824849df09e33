package opencode

import (
	"strings"
	"sync"
	"unicode"
)

// Bounds of what is kept and shown of a managed server's standard error.
const (
	tailBytes = 4 << 10
	tailLines = 3
	tailWidth = 160
)

// tail keeps the end of what a program prints.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// Write implements io.Writer. It never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - tailBytes; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// own begins the lines that our supervisor prints.
const own = "the supervisor"

// shown returns the supervisor's own first lines as the end of an error
// message. What the server prints is not shown: it may be out of a session, or
// hold a secret, and errors are logged and kept in the ledger.
func (t *tail) shown() string {
	t.mu.Lock()
	text := string(t.kept)
	t.mu.Unlock()
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return ' '
		}, line))
		if !strings.HasPrefix(line, own) {
			continue
		}
		if len(line) > tailWidth {
			line = strings.ToValidUTF8(line[:tailWidth], "") + "…"
		}
		if lines = append(lines, line); len(lines) == tailLines {
			break
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return ": " + strings.Join(lines, " / ")
}
