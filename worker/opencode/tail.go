package opencode

import (
	"regexp"
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

// shown returns the first lines of the tail as the end of an error message,
// without any that may hold a secret or something out of a session.
func (t *tail) shown(password string) string {
	t.mu.Lock()
	text := string(t.kept)
	t.mu.Unlock()
	colours := regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)
	private := regexp.MustCompile(`(?i)password|passwd|secret|token|authorization|bearer|api.?key|credential|params|values|insert |update |://[^/\s]*@`)
	var lines []string
	for line := range strings.Lines(colours.ReplaceAllString(text, "")) {
		line = strings.TrimSpace(strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return ' '
		}, line))
		if line == "" || private.MatchString(line) || password != "" && strings.Contains(line, password) {
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
