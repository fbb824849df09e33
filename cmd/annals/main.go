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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
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

func run(ctx context.Context, p process) int {
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
