package supervise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
)

const (
	orderLimit = 10 * time.Second // for the supervisor to take its order
	stopLimit  = 15 * time.Second // for it to do all of its work, beside the grace
	killByte   = 'k'              // down the pipe: end everything now
)

// Config is what Start needs.
type Config struct {
	Self   []string // the command line whose body is Main
	Order  Order
	Stdout *os.File // the program's; nil discards
	Stderr *os.File // the program's; nil discards
}

// Process is a supervised program. It ends by itself, with Stop or Kill, and
// when this process ends in any way.
type Process struct {
	grace   time.Duration
	dir     string
	cmd     *exec.Cmd
	control *os.File // the supervisor ends everything when this is closed
	said    bounded  // its report
	words   bounded  // what else it had to say
	ask     sync.Once
	done    chan struct{}
	result  Result // once done is closed
	left    error  // once done is closed
}

// Result is how a program ended.
type Result struct {
	Status int            // exit status, 0 to 255; -1 when there is none
	Signal syscall.Signal // the signal that ended it, or 0
	Asked  bool           // it was asked to end; otherwise it had ended by itself
	Full   bool           // the disk of the private directory was full when the program ended: what it wrote may lack its end
	Err    error          // why there is neither: it could not be started (a syscall.Errno is in it), or its supervisor was ended
}

// Code returns the status, and 128 and the signal's number for a program that
// a signal ended, as a shell does.
func (r Result) Code() int {
	if r.Signal != 0 {
		return 128 + int(r.Signal)
	}
	return r.Status
}

// Start starts a supervisor with an order. Stdout and Stderr stay the
// caller's, who may close them at once. An error means that nothing was
// started; that the program itself cannot be started is in its Result.
func Start(c Config) (*Process, error) {
	if len(c.Self) == 0 {
		return nil, errors.New("no command to run the supervisor with")
	}
	if err := c.Order.check(); err != nil {
		return nil, err
	}
	line, err := c.Order.encode()
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	outputs := []*os.File{c.Stdout, c.Stderr}
	for i := range outputs {
		if outputs[i] == nil {
			outputs[i] = null
		}
	}
	in, control, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &Process{grace: c.Order.Grace, dir: c.Order.Dir, control: control, done: make(chan struct{})}
	p.cmd = exec.Command(c.Self[0], c.Self[1:]...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, &p.said, &p.words
	p.cmd.ExtraFiles = outputs
	p.cmd.Env = []string{} // it needs nothing; the order comes by the pipe
	p.cmd.WaitDelay = time.Second
	detach(p.cmd)
	err = p.cmd.Start()
	_ = in.Close()
	if err != nil {
		_ = control.Close()
		return nil, err
	}
	// A supervisor that is gone already, or takes no order, shows as ended.
	_ = control.SetWriteDeadline(time.Now().Add(orderLimit))
	if _, err := control.Write(line); err != nil {
		_ = p.cmd.Process.Kill()
	}
	go p.wait()
	return p, nil
}

// wait collects what the supervisor says when it has done its work, and does
// what it did not come to.
func (p *Process) wait() {
	defer close(p.done)
	_ = p.cmd.Wait() // the report says more
	p.ask.Do(func() { _ = p.control.Close() })
	var r report
	if err := json.Unmarshal(bytes.TrimSpace(p.said.kept), &r); err != nil {
		words := shown(p.words.kept)
		p.result = Result{Status: -1, Err: fmt.Errorf("the supervisor ended before it was done (%s)%s", p.cmd.ProcessState, words)}
	} else {
		p.result = Result{Status: r.Status, Signal: syscall.Signal(r.Signal), Asked: r.Asked, Full: r.Full}
		switch {
		case r.Errno != 0:
			p.result.Err = fmt.Errorf("the program cannot be started: %w", syscall.Errno(r.Errno))
		case r.Error != "":
			p.result.Err = errors.New(r.Error)
		}
		if r.Left != "" {
			p.left = errors.New(r.Left)
		}
	}
	if err := removePrivate(p.dir); err != nil && p.left == nil {
		p.left = fmt.Errorf("the private directory is left: %w", err)
	}
}

// Done is closed when the program, everything that it started and the private
// directory are gone, as far as they can be.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits until Done and returns how the program ended. The error says
// what is left behind.
func (p *Process) Wait() (Result, error) {
	<-p.done
	return p.result, p.left
}

// Stop asks the program and everything below it to end, has what is left
// after the grace killed, and waits until Done. The error says what is left
// behind. It may be called more than once, at any time.
func (p *Process) Stop() error { return p.end(false) }

// Kill is Stop without a grace. After Stop it adds nothing.
func (p *Process) Kill() error { return p.end(true) }

func (p *Process) end(now bool) error {
	p.ask.Do(func() {
		if now {
			_ = p.control.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = p.control.Write([]byte{killByte})
		}
		_ = p.control.Close()
	})
	limit := time.NewTimer(p.grace + stopLimit)
	defer limit.Stop()
	select {
	case <-p.done:
	case <-limit.C:
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("the program did not end within %s; its supervisor was killed", p.grace+stopLimit)
	}
	return p.left
}

// Bounds of what the supervisor may say.
const (
	maxReport = 64 << 10
	maxShown  = 160
)

// bounded keeps the beginning of what is written to it.
type bounded struct{ kept []byte }

// Write implements io.Writer. It never fails.
func (b *bounded) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), maxReport-len(b.kept))]...)
	return len(p), nil
}

// shown returns the first line as the end of an error message.
func shown(words []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(words)), "\n")
	line = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, line)
	if len(line) > maxShown {
		line = strings.ToValidUTF8(line[:maxShown], "") + "…"
	}
	if line == "" {
		return ""
	}
	return ": " + line
}
