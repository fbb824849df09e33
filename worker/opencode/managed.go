package opencode

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"annals/internal/fault"
	"annals/internal/supervise"
)

// Bounds of a managed server's life.
const (
	defaultStartTimeout = 60 * time.Second
	defaultStopGrace    = 2 * time.Second
	portTries           = 3
)

// readyLine is what OpenCode prints when it answers. Its port is never polled:
// a request that arrives while it is being bound is never answered.
const readyLine = "opencode server listening on "

// ManagedConfig says how to run a server of our own.
type ManagedConfig struct {
	Program string   // path or name of the opencode command; "opencode" when empty
	Self    []string // the command line whose body is supervise.Main
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

	log     *slog.Logger
	process *supervise.Process
	output  *os.File // what the server prints
	port    string
	ready   chan string
	drained chan struct{}
	stop    sync.Once
	err     error // of Stop
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
	case <-m.process.Done():
		_ = m.Stop()
		return nil, !portFree(ctx, port), endedEarly(m.process)
	case <-timer.C:
		_ = m.Stop()
		return nil, false, fault.New(fault.Unreachable,
			fmt.Sprintf("the managed server was not ready within %s", c.StartTimeout), seeWhy).Again()
	case <-ctx.Done():
		_ = m.Stop()
		return nil, false, fault.Wrap(ctx.Err(), fault.Cancelled, "", "stopped while the managed server was starting").Again()
	}
}

// seeWhy is what to do about a server that does not come up: what it prints is
// not shown, since it may be out of a session, and errors are kept.
const seeWhy = "run `opencode serve` by hand to see why"

func endedEarly(p *supervise.Process) error {
	result, _ := p.Wait()
	if result.Err != nil {
		return fault.Wrap(result.Err, fault.Unreachable, seeWhy, "the managed server").Again()
	}
	return fault.New(fault.Unreachable, fmt.Sprintf("the managed server ended with status %d before it was ready", result.Code()), seeWhy).Again()
}

// launch starts the server under a supervisor.
func launch(c *ManagedConfig, env environment, program string, port int) (*Managed, error) {
	password := make([]byte, 32)
	_, _ = rand.Read(password) // never fails
	work, err := filepath.Abs(c.WorkDir)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "", "no working directory for the managed server")
	}
	if err := os.MkdirAll(work, 0o700); err != nil {
		return nil, fault.Wrap(err, fault.Config, "it is below the state directory; see `annals config path`", "no directory for the managed server")
	}
	supervise.Sweep(work)
	m := &Managed{Password: hex.EncodeToString(password), log: c.Log, port: strconv.Itoa(port),
		ready: make(chan string, 1), drained: make(chan struct{})}
	order := private(supervise.NewDir(work, "opencode"))
	order.Program, order.Grace = program, c.StopGrace
	order.Args = []string{"serve", "--port", m.port, "--hostname", "127.0.0.1"}
	if order.Env, err = env.serverEnvironment(order.Dir, m.Password); err != nil {
		return nil, err
	}
	if err := m.start(c.Self, order); err != nil {
		return nil, fault.Wrap(plainCause(err), fault.Internal, "", "the supervisor of the managed server cannot be started")
	}
	return m, nil
}

// private says what the server finds in its private directory. What OpenCode
// would install into its configuration is made to look installed, and an empty
// .git file stops its search for a repository above: it would write into one
// it finds there.
func private(dir string) supervise.Order {
	return supervise.Order{Dir: dir, Work: "work",
		Dirs: []string{"home", "config/opencode/node_modules", "state", "cache", "tmp", "work"},
		Files: []supervise.File{
			{Path: "config/opencode/package-lock.json",
				Text: `{"lockfileVersion":3,"packages":{"":{"dependencies":{"@opencode-ai/plugin":"*"}}}}` + "\n"},
			{Path: "work/.git"},
		}}
}

// start starts the server and reads what it prints.
func (m *Managed) start(self []string, order supervise.Order) error {
	output, printed, err := os.Pipe()
	if err != nil {
		return err
	}
	m.process, err = supervise.Start(supervise.Config{Self: self, Order: order, Stdout: printed})
	_ = printed.Close()
	if err != nil {
		_ = output.Close()
		return err
	}
	m.output = output
	go func() {
		m.readStdout(output)
		close(m.drained)
	}()
	return nil
}

// readStdout finds the line that says where the server listens, and goes on
// reading so that the server never waits for us.
func (m *Managed) readStdout(r io.Reader) {
	lines := bufio.NewReaderSize(r, 4<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if _, at, ok := strings.Cut(string(line), readyLine); ok && err == nil {
			if u, bad := parseBase("local", at); bad == nil && isLoopback(u.Hostname()) && u.Port() == m.port {
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
		if err := m.process.Stop(); err != nil {
			m.err = fault.Wrap(err, fault.Internal, "", "ending the managed server")
		}
		m.finishReading()
		result, _ := m.process.Wait()
		m.log.Debug("the managed server has ended", "status", result.Code())
	})
	return m.err
}

// finishReading reads what the server has printed to its end. A process that
// escaped may hold the other end of the pipe for ever, so it is not waited for
// long.
func (m *Managed) finishReading() {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-m.drained:
	case <-timer.C:
	}
	_ = m.output.Close()
	<-m.drained
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
