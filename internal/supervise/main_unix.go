//go:build linux || darwin

package supervise

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of the supervisor's own work.
const (
	killLimit = 8 * time.Second      // for the killed processes to be gone
	lookAgain = 5 * time.Millisecond // between two looks at what is left
)

// firstOutput is the descriptor that is the program's standard output, and
// the one after it is its standard error. The supervisor's own are others, so
// that neither can be taken for the other's.
const firstOutput = 3

// detach gives the supervisor a session of its own: an interrupt typed at the
// terminal reaches us and not the program, which we are still reading from,
// and the program has no terminal to ask a question on.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// Main is the body of the hidden command that Start runs in another process
// of this program. It takes one order from stdin and runs it, with
// descriptors 3 and 4 as the program's outputs, until the program ends, stdin
// does (whoever started us is gone, however that came about), or a signal
// asks for it. Then it ends every process below it, removes the private
// directory and reports on stdout. It returns 0 when it could report.
func Main(stdin, stdout, stderr *os.File) int {
	// Caught before anything is started. SIGPIPE is caught and not ignored:
	// what is ignored would be ignored by the program too.
	signals, pipe := make(chan os.Signal, 4), make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(signals)
	defer signal.Stop(pipe)

	in := bufio.NewReader(io.LimitReader(stdin, maxOrder))
	o, err := readOrder(in)
	switch {
	case errors.Is(err, io.EOF):
		return 0 // whoever started us is gone already
	case err != nil:
		fmt.Fprintln(stderr, "the supervisor:", err)
		return 1
	}
	stop := make(chan bool, 1)
	go func() {
		b, err := in.ReadByte()
		stop <- err == nil && b == killByte
	}()
	line, err := json.Marshal(o.run(signals, stop))
	if err == nil {
		_, err = stdout.Write(append(line, '\n'))
	}
	if err != nil {
		return 1
	}
	return 0
}

// run makes the directory, runs the program, and cleans up after both. stop
// says whether to end at once.
func (o *Order) run(signals <-chan os.Signal, stop <-chan bool) (r report) {
	r.Status = -1
	if err := o.makePrivate(); err != nil {
		_ = removePrivate(o.Dir)
		r.Error = fmt.Sprintf("no private directory: %v", err)
		return r
	}
	defer func() {
		// Whatever the program did to the marker: this one made it.
		if err := removeTree(o.Dir); err != nil && r.Left == "" {
			r.Left = fmt.Sprintf("the private directory is left: %v", err)
		}
	}()
	cmd, err := o.prepare()
	if err != nil {
		r.Error = err.Error()
		return r
	}
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
		var errno syscall.Errno
		if errors.As(err, &errno) {
			r.Errno = int(errno)
		}
		r.Error = "the program cannot be started"
		return r
	}
	grace := o.Grace
	select {
	case <-exited:
	case now := <-stop:
		r.Asked = true
		if now {
			grace = 0
		}
	case <-signals:
		r.Asked = true
	}
	if !endTree(cmd.Process.Pid, exited, grace) {
		r.Left = "a process cannot be ended"
	}
	r.Full = full(o.Dir)
	select {
	case <-exited:
		if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
			r.Signal = int(w.Signal())
		} else {
			r.Status = cmd.ProcessState.ExitCode()
		}
	default:
		r.Error = "the program cannot be ended"
	}
	return r
}

// prepare makes this process one that a program can be started from: it
// inherits two descriptors of ours and no other, and leaves no core, which
// would hold whatever it had read.
func (o *Order) prepare() (*exec.Cmd, error) {
	if err := adoptOrphans(); err != nil {
		return nil, fmt.Errorf("orphans cannot be adopted: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return nil, fmt.Errorf("cores cannot be forbidden: %w", err)
	}
	var outputs [2]*os.File
	for i, name := range []string{"stdout", "stderr"} {
		// Without one, something of the runtime's may have its number.
		flags, err := unix.FcntlInt(uintptr(firstOutput+i), unix.F_GETFL, 0)
		if err != nil || flags&unix.O_ACCMODE == unix.O_RDONLY {
			return nil, fmt.Errorf("no descriptor %d that the program could write to", firstOutput+i)
		}
		outputs[i] = os.NewFile(uintptr(firstOutput+i), name)
	}
	if err := keepToOurselves(firstOutput); err != nil {
		return nil, fmt.Errorf("the descriptors cannot be closed: %w", err)
	}
	work := o.Dir
	if o.Work != "" {
		work += "/" + o.Work
	}
	return &exec.Cmd{Path: o.Program, Args: append([]string{o.Program}, o.Args...), Env: o.Env, Dir: work,
		Stdout: outputs[0], Stderr: outputs[1], SysProcAttr: childAttributes()}, nil
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
	if grace > 0 && alive() {
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

// full reports whether the disk takes nothing more. It is looked at before the
// private directory is removed, which would make room again. Some file systems
// refuse a write when there is still a little, so a little is asked for.
func full(dir string) bool {
	f, err := os.CreateTemp(dir, ".annals-full-")
	if err == nil {
		_, err = f.Write(make([]byte, 64<<10))
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return noSpace(err)
}

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// running reports whether there is a process with this id.
func running(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// listDescriptors marks every open descriptor from first on so that no
// program inherits it.
func listDescriptors(first int) error {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		var fd int
		if _, err := fmt.Sscan(e.Name(), &fd); err == nil && fd >= first {
			unix.CloseOnExec(fd) // it may be closed already
		}
	}
	return nil
}
