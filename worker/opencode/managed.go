package opencode

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"annals/internal/fault"
)

// Bounds of a managed server's life.
const (
	defaultStartTimeout = 60 * time.Second
	defaultStopGrace    = 2 * time.Second
	stopLimit           = 15 * time.Second // for the supervisor to do all of its work, beside the grace
	portTries           = 3
)

// readyLine is what OpenCode prints when it answers. Its port is never polled:
// a request that arrives while it is being bound is never answered.
const readyLine = "opencode server listening on "

// ManagedConfig says how to run a server of our own.
type ManagedConfig struct {
	Program string   // path or name of the opencode command; "opencode" when empty
	Self    []string // the argv that runs Supervise in another process of this program
	Env     []string // the user's environment, in the form of os.Environ
	// WorkDir is made when it is needed, and is where the server's private
	// directory is made and removed.
	WorkDir      string
	StartTimeout time.Duration // until it is ready; 60s when 0
	StopGrace    time.Duration // between asking it to end and ending it; 2s when 0
	Log          *slog.Logger  // may be nil
}

// Managed is a running server of our own. It ends with Stop, and when this
// process ends in any way.
type Managed struct {
	URL      string
	Password string // for the user DefaultUsername

	log    *slog.Logger
	cmd    *exec.Cmd
	order  order
	stdin  *os.File // the supervisor stops when this is closed
	output [2]*os.File
	ready  chan string
	exited chan struct{} // closed when the supervisor has ended
	drain  sync.WaitGroup
	tail   tail
	stop   sync.Once
	err    error // of Stop
}

// StartManaged starts `opencode serve` on a free loopback port over the user's
// store, under a supervisor, and returns when it is ready. It starts nothing
// and creates nothing when the user has no store (fault.NoStore) or no program
// (fault.NotFound). ctx bounds the start only.
func StartManaged(ctx context.Context, c ManagedConfig) (*Managed, error) {
	env := parseEnvironment(c.Env)
	if err := env.findStore(); err != nil {
		return nil, err
	}
	program, err := env.findProgram(c.Program)
	if err != nil {
		return nil, err
	}
	if len(c.Self) == 0 {
		return nil, fault.New(fault.Internal, "no command to supervise the managed server with", "")
	}
	if c.StartTimeout <= 0 {
		c.StartTimeout = defaultStartTimeout
	}
	if c.StopGrace <= 0 {
		c.StopGrace = defaultStopGrace
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if ctx.Err() != nil {
		return nil, fault.Wrap(ctx.Err(), fault.Cancelled, "", "stopped before the managed server was started").Again()
	}
	for try := 1; ; try++ {
		m, taken, err := startOnce(ctx, &c, env, program)
		if err == nil || !taken || try == portTries {
			return m, err
		}
		c.Log.Debug("the port of the managed server was taken; trying another")
	}
}

// startOnce starts the server on one port. taken reports that the port was
// somebody else's by the time the server wanted it.
func startOnce(ctx context.Context, c *ManagedConfig, env environment, program string) (m *Managed, taken bool, err error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, false, fault.Wrap(plainCause(err), fault.Unreachable, "", "no free port for the managed server")
	}
	m, err = launch(c, env, program, port)
	if err != nil {
		return nil, false, err
	}
	timer := time.NewTimer(c.StartTimeout)
	defer timer.Stop()
	select {
	case m.URL = <-m.ready:
		c.Log.Debug("the managed server is ready", "url", m.URL)
		return m, false, nil
	case <-m.exited:
		_ = m.Stop() // collects what it printed
		return nil, !portFree(ctx, port), fault.New(fault.Unreachable,
			fmt.Sprintf("the managed server ended with status %d before it was ready%s", m.cmd.ProcessState.ExitCode(), m.tail.shown()),
			"run `opencode serve` by hand to see why").Again()
	case <-timer.C:
		_ = m.Stop()
		return nil, false, fault.New(fault.Unreachable,
			fmt.Sprintf("the managed server was not ready within %s%s", c.StartTimeout, m.tail.shown()),
			"run `opencode serve` by hand to see why").Again()
	case <-ctx.Done():
		_ = m.Stop()
		return nil, false, fault.Wrap(ctx.Err(), fault.Cancelled, "", "stopped while the managed server was starting").Again()
	}
}

// launch starts the supervisor and tells it what to run.
func launch(c *ManagedConfig, env environment, program string, port int) (*Managed, error) {
	password, name := make([]byte, 32), make([]byte, 8)
	_, _ = rand.Read(password) // never fails
	_, _ = rand.Read(name)
	work, err := filepath.Abs(c.WorkDir)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "", "no working directory for the managed server")
	}
	if err := os.MkdirAll(work, 0o700); err != nil {
		return nil, fault.Wrap(err, fault.Config, "it is below the state directory; see `annals config path`", "no directory for the managed server")
	}
	sweep(work)
	m := &Managed{Password: hex.EncodeToString(password), log: c.Log,
		ready: make(chan string, 1), exited: make(chan struct{})}
	m.order = order{Program: program, Dir: filepath.Join(work, privatePrefix+hex.EncodeToString(name)), Grace: c.StopGrace,
		Args: []string{"serve", "--port", strconv.Itoa(port), "--hostname", "127.0.0.1"}}
	if m.order.Env, err = env.serverEnvironment(m.order.Dir, m.Password); err != nil {
		return nil, err
	}
	if err := m.start(c.Self); err != nil {
		return nil, fault.Wrap(plainCause(err), fault.Internal, "", "the supervisor of the managed server cannot be started")
	}
	return m, nil
}

// start runs the supervisor with three pipes: its orders and our being alive
// one way, what the server prints the other.
func (m *Managed) start(self []string) error {
	var files [6]*os.File
	for i := 0; i < len(files); i += 2 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(files[:])
			return err
		}
		files[i], files[i+1] = r, w
	}
	m.cmd = exec.Command(self[0], self[1:]...)
	m.cmd.Stdin, m.cmd.Stdout, m.cmd.Stderr = files[0], files[3], files[5]
	m.cmd.Env = []string{} // it needs nothing; the orders come by the pipe
	detach(m.cmd)
	if err := m.cmd.Start(); err != nil {
		closeAll(files[:])
		return err
	}
	closeAll([]*os.File{files[0], files[3], files[5]})
	m.stdin, m.output = files[1], [2]*os.File{files[2], files[4]}
	go func() {
		_ = m.cmd.Wait() // the status is read from ProcessState
		close(m.exited)
	}()
	m.drain.Go(func() { m.readStdout(m.output[0]) })
	m.drain.Go(func() { _, _ = io.Copy(&m.tail, m.output[1]) })
	line, err := json.Marshal(m.order)
	if err == nil {
		// A supervisor that is gone already shows as exited.
		_, _ = m.stdin.Write(append(line, '\n'))
	}
	return err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// readStdout finds the line that says where the server listens, and goes on
// reading so that the server never waits for us.
func (m *Managed) readStdout(r io.Reader) {
	lines := bufio.NewReaderSize(r, 4<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if _, at, ok := strings.Cut(string(line), readyLine); ok && err == nil {
			if u, bad := parseBase("local", at); bad == nil && isLoopback(u.Hostname()) && slices.Contains(m.order.Args, u.Port()) {
				select {
				case m.ready <- u.String():
				default: // it says so once
				}
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// Stop ends the server and everything below it, and returns when no process
// and no file is left. It may be called more than once.
func (m *Managed) Stop() error {
	m.stop.Do(func() {
		_ = m.stdin.Close()
		limit := time.NewTimer(m.order.Grace + stopLimit)
		defer limit.Stop()
		select {
		case <-m.exited:
		case <-limit.C:
			m.err = fault.New(fault.Internal, fmt.Sprintf("the managed server did not end within %s; its supervisor was killed", m.order.Grace+stopLimit), "")
			_ = m.cmd.Process.Kill()
			<-m.exited
		}
		m.finishReading()
		if err := m.order.removePrivate(); err != nil && m.err == nil {
			m.err = fault.Wrap(err, fault.Internal, "", "the managed server's private directory is left")
		}
		m.log.Debug("the managed server has ended", "status", m.cmd.ProcessState.ExitCode())
	})
	return m.err
}

// finishReading reads what the server has printed to its end. A process that
// escaped may hold the other ends of the pipes for ever, so it is not waited
// for long.
func (m *Managed) finishReading() {
	done := make(chan struct{})
	go func() {
		m.drain.Wait()
		close(done)
	}()
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	closeAll(m.output[:])
	<-done
}

// freePort finds a port that nobody has. `--port 0` would not do: OpenCode
// takes its usual port for it.
func freePort(ctx context.Context) (int, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

func portFree(ctx context.Context, port int) bool {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
