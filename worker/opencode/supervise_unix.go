//go:build linux || darwin

package opencode

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// Bounds of the supervisor's own work.
const (
	maxOrder  = 4 << 20
	killLimit = 8 * time.Second      // for the killed processes to be gone
	lookAgain = 5 * time.Millisecond // between two looks at what is left
)

// detach gives the supervisor a session of its own: an interrupt typed at the
// terminal reaches us and not the server, which we are still reading from.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// Supervise is the body of the hidden command that StartManaged runs in
// another process of this program. It reads its orders from stdin, makes the
// private directory, and runs the server with stdout and stderr as its own
// until the server ends, stdin does (whoever started us is gone, however that
// came about), or a signal asks for it. Then it ends every process below it
// and removes the directory. It returns the server's exit status, 128 and the
// signal's number for one that was killed.
func Supervise(stdin, stdout, stderr *os.File) int {
	// Caught before anything is started. SIGPIPE is caught and not ignored:
	// what is ignored would be ignored by the server too.
	signals, pipe := make(chan os.Signal, 4), make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(signals)
	defer signal.Stop(pipe)

	in := bufio.NewReader(io.LimitReader(stdin, maxOrder))
	line, err := in.ReadBytes('\n')
	if err != nil {
		return 0 // whoever started us is gone already
	}
	var o order
	if err := json.Unmarshal(line, &o); err != nil {
		fmt.Fprintln(stderr, "the supervisor cannot read its orders")
		return 1
	}
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		close(gone)
	}()
	status, err := o.run(stdout, stderr, signals, gone)
	if err != nil {
		fmt.Fprintln(stderr, "the supervisor:", err)
	}
	return status
}

// run makes the directory, runs the program, and cleans up after both.
func (o *order) run(stdout, stderr *os.File, signals <-chan os.Signal, gone <-chan struct{}) (status int, err error) {
	if err := o.makePrivate(); err != nil {
		_ = o.removePrivate()
		return 1, err
	}
	defer func() {
		if e := o.removePrivate(); err == nil {
			err = e
		}
	}()
	if err := adoptOrphans(); err != nil {
		return 1, err
	}
	cmd := &exec.Cmd{Path: o.Program, Args: append([]string{o.Program}, o.Args...), Env: o.Env, Dir: o.work(),
		Stdout: stdout, Stderr: stderr, SysProcAttr: childAttributes()}
	started, exited := make(chan error, 1), make(chan struct{})
	go func() {
		// Linux kills the child when the thread that started it ends, so this
		// one is kept until the child has ended.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the status is read from ProcessState
			close(exited)
		}
	}()
	if err := <-started; err != nil {
		return 127, err
	}
	select {
	case <-exited:
	case <-gone:
	case <-signals:
	}
	if !endTree(cmd.Process.Pid, exited, o.Grace) {
		return 1, fmt.Errorf("a process below the server cannot be ended")
	}
	return exitStatus(cmd.ProcessState), nil
}

// endTree asks every process below us to end, waits for as long as grace, and
// then kills what is left until nothing is. It reports false when something
// survives that.
func endTree(child int, exited <-chan struct{}, grace time.Duration) bool {
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	alive := func() bool {
		select {
		case <-exited:
			return treeAlive(child)
		default:
			return true
		}
	}
	if alive() {
		signalTree(child, syscall.SIGTERM)
	}
	for over := time.Now().Add(grace); alive() && time.Now().Before(over); {
		<-look.C
	}
	for over := time.Now().Add(killLimit); alive(); <-look.C {
		if time.Now().After(over) {
			return false
		}
		signalTree(child, syscall.SIGKILL)
	}
	return true
}

func exitStatus(state *os.ProcessState) int {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return state.ExitCode()
}

// running reports whether there is a process with this id.
func running(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }
