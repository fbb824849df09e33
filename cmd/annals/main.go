// Command annals keeps an index of the sessions of coding agents.
//
// Each command is a file of this package. This file and wiring.go are the
// only ones that pair concrete types; flags, environment and configuration
// are read in this package and nowhere else.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"annals/internal/fault"
)

// Exit statuses, the same for every command; docs/reference/json.md lists them.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitPartial = 3 // partial or held; for `status`: not running
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, process{
		args: os.Args[1:], env: os.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
	}))
}

// process is what a command line gets from its surroundings.
type process struct {
	args           []string
	env            []string
	stdin          *os.File
	stdout, stderr io.Writer
}

// exitStatus is how a command ends with a status but without an error to
// print: the result it has printed says why.
type exitStatus int

func (exitStatus) Error() string { return "" }

// checkedWriter remembers that a write failed: a result that nobody could read
// is not a success, whoever wrote it.
type checkedWriter struct {
	io.Writer
	err error
}

func (w *checkedWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}

func run(ctx context.Context, p process) int {
	out := &checkedWriter{Writer: p.stdout}
	p.stdout = out
	status := runCommand(ctx, p)
	if out.err != nil && status == exitOK {
		_, _ = io.WriteString(p.stderr, "annals: the output could not be written: "+out.err.Error()+"\n")
		return exitFailed
	}
	return status
}

func runCommand(ctx context.Context, p process) int {
	a := newApp(p)
	root := rootCommand(a)
	root.SetArgs(p.args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var status exitStatus
	if errors.As(err, &status) {
		return int(status)
	}
	if !a.started && fault.CodeOf(err) == "" {
		err = fault.Wrap(err, fault.Usage, "see `annals help`", "usage")
	}
	a.json = a.json || slices.Contains(p.args, "--json")
	a.printError(err)
	switch fault.CodeOf(err) {
	case fault.Usage, fault.Config:
		return exitUsage
	}
	return exitFailed
}
