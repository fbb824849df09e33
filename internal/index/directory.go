package index

import (
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// Canonical returns the lexical canonical form of a directory as an upstream
// wrote it: cleaned, no trailing slash, drive letters in upper case, Unicode
// in NFC. "/" and "C:\" keep their slash, "" stays "". It looks at no file
// system; see Resolver for symbolic links.
func Canonical(dir string) string {
	if dir == "" {
		return ""
	}
	dir = norm.NFC.String(dir)
	if drive, rest, ok := splitDrive(dir); ok {
		clean := path.Clean("/" + strings.ReplaceAll(rest, `\`, "/"))
		return drive + strings.ReplaceAll(clean, "/", `\`)
	}
	return path.Clean(dir)
}

// splitDrive takes "c:\x" or "C:/x" apart into "C:" and the rest.
func splitDrive(dir string) (drive, rest string, ok bool) {
	if len(dir) < 2 || dir[1] != ':' {
		return "", "", false
	}
	c := dir[0] | 0x20
	if c < 'a' || c > 'z' || (len(dir) > 2 && dir[2] != '\\' && dir[2] != '/') {
		return "", "", false
	}
	return strings.ToUpper(dir[:1]) + ":", dir[2:], true
}

// Resolver finds the canonical form of directories on this machine. It
// remembers what it found, so a run asks the file system once a directory.
// The zero value is ready; it is not safe for concurrent use.
type Resolver struct {
	// Lexical leaves the file system alone: the paths belong to another
	// machine.
	Lexical bool

	seen map[string]string
}

// Resolve returns the canonical form of dir: symbolic links resolved where
// the path exists, and the lexical form with resolved = false where it does
// not, or cannot be looked at.
func (r *Resolver) Resolve(dir string) (canonical string, resolved bool) {
	lexical := Canonical(dir)
	if r.Lexical || !filepath.IsAbs(lexical) {
		return lexical, r.Lexical
	}
	if known, ok := r.seen[dir]; ok {
		return known, known != ""
	}
	if r.seen == nil {
		r.seen = map[string]string{}
	}
	// The path is opened as it was given: NFC is for comparing, and a file
	// system that keeps another form would not find it.
	real, err := filepath.EvalSymlinks(path.Clean(dir))
	if err != nil {
		r.seen[dir] = ""
		return lexical, false
	}
	r.seen[dir] = Canonical(real)
	return r.seen[dir], true
}
