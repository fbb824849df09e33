// Package supervise runs a program so that nothing of it outlives it, or us.
// A small process of ours, the supervisor, stands between:
//
//	this process ══ pipe ══ supervisor ──► program ──► whatever it starts
//
// The supervisor makes a private directory, runs the program, and when the
// program ends, when it is told to, or when the pipe closes because this
// process is gone in any way, it ends everything below it and removes the
// directory. Start is the one side, Main the body of the other.
//
// On Linux nothing gets away: the supervisor adopts what loses its parent. On
// macOS a process that leaves the program's process group does. Other systems
// refuse.
package supervise

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"time"
)

// Order says what a supervisor runs.
type Order struct {
	Program string   // absolute path
	Args    []string // without the program
	Env     []string // "NAME=value", the whole environment
	// Dir is the private directory, a name that NewDir made up: the supervisor
	// makes it, 0700, and removes it with all that is in it then.
	Dir   string
	Dirs  []string // directories made below Dir, with those above them
	Files []File   // made below Dir after the directories, 0600
	Work  string   // where below Dir the program runs; "" is Dir itself
	// Grace is how long what is asked to end may take before it is killed.
	Grace time.Duration
}

// File is a file that is made in the private directory.
type File struct {
	Path string // below the directory
	Text string
}

// maxOrder bounds an order as it is sent, in bytes: more than any system lets
// a program have of arguments and environment.
const maxOrder = 16 << 20

// wire is an order as it is sent, one line. JSON holds Unicode only, while a
// path or a variable may be any bytes, so these go as such.
type wire struct {
	Program, Dir, Work []byte
	Args, Env          [][]byte
	Dirs               [][]byte
	Files              [][2][]byte
	Grace              time.Duration
}

func (o *Order) encode() ([]byte, error) {
	w := wire{Program: []byte(o.Program), Dir: []byte(o.Dir), Work: []byte(o.Work), Grace: o.Grace,
		Args: octets(o.Args), Env: octets(o.Env), Dirs: octets(o.Dirs)}
	for _, f := range o.Files {
		w.Files = append(w.Files, [2][]byte{[]byte(f.Path), []byte(f.Text)})
	}
	line, err := json.Marshal(w)
	if err == nil && len(line) >= maxOrder {
		return nil, errors.New("the order is too long")
	}
	return append(line, '\n'), err
}

// readOrder reads the one line of an order. io.EOF says that the other side
// went away before it was whole.
func readOrder(in *bufio.Reader) (*Order, error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, io.EOF
	}
	var w wire
	if err := json.Unmarshal(line, &w); err != nil {
		return nil, errors.New("this is not an order")
	}
	o := &Order{Program: string(w.Program), Dir: string(w.Dir), Work: string(w.Work), Grace: w.Grace,
		Args: texts(w.Args), Env: texts(w.Env), Dirs: texts(w.Dirs)}
	for _, f := range w.Files {
		o.Files = append(o.Files, File{Path: string(f[0]), Text: string(f[1])})
	}
	return o, o.check()
}

func octets(in []string) [][]byte {
	out := make([][]byte, 0, len(in))
	for _, s := range in {
		out = append(out, []byte(s))
	}
	return out
}

func texts(in [][]byte) []string {
	out := make([]string, 0, len(in)) // never nil: no environment is not ours
	for _, b := range in {
		out = append(out, string(b))
	}
	return out
}

// check refuses an order that would reach beyond its directory.
func (o *Order) check() error {
	if !filepath.IsAbs(o.Program) {
		return errors.New("the program is not an absolute path")
	}
	if !isPrivateName(filepath.Base(o.Dir)) || !filepath.IsAbs(o.Dir) {
		return errors.New("this is not the name of a private directory")
	}
	local := o.Work == "" || filepath.IsLocal(o.Work)
	for _, d := range o.Dirs {
		local = local && filepath.IsLocal(d)
	}
	for _, f := range o.Files {
		local = local && filepath.IsLocal(f.Path)
	}
	if !local {
		return errors.New("something would lie outside of the private directory")
	}
	return nil
}

// report is what the supervisor says when it has done its work, one line of
// JSON.
type report struct {
	Status int    `json:"status"`           // of the program; -1 without one
	Signal int    `json:"signal,omitempty"` // that ended the program
	Asked  bool   `json:"asked,omitempty"`  // it was still there when it was asked to end
	Full   bool   `json:"full,omitempty"`   // nothing more could be written beside the directory then
	Errno  int    `json:"errno,omitempty"`  // why the program was not started, in the system's words
	Error  string `json:"error,omitempty"`  // why there is no status
	Left   string `json:"left,omitempty"`   // what is left behind, and why
}
