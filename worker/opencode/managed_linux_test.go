package opencode

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"annals/internal/fault"
)

// stage is a machine with a store and an opencode program of the test's own.
type stage struct {
	ManagedConfig
	root   string // in the environment of every process of the stage
	record string // where the program notes things
}

// newStage writes a program: the body of a shell script that finds the port
// in $port, may call ready, and may note things in $record.
func newStage(t *testing.T, body string) *stage {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{root: root, record: filepath.Join(root, "record")}
	db := filepath.Join(root, "data/opencode/opencode.db")
	put(t, db, "x", 0o600)
	program := filepath.Join(root, "bin/opencode")
	put(t, program, "#!/bin/sh\nport=$3\nrecord="+s.record+"\nready() { echo \"opencode server listening on http://127.0.0.1:$port\"; }\n"+body+"\n", 0o700)
	work := filepath.Join(root, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	s.ManagedConfig = ManagedConfig{Program: program, Self: supervisor(), WorkDir: work, StartTimeout: 20 * time.Second, StopGrace: 100 * time.Millisecond,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + root, "XDG_DATA_HOME=" + filepath.Join(root, "data"), "OPENCODE_DB=" + db}}
	t.Cleanup(func() { s.wantNothingLeft(t) })
	return s
}

// start starts the managed server and makes sure that it is stopped.
func (s *stage) start(t *testing.T) (*Managed, error) {
	t.Helper()
	m, err := StartManaged(context.Background(), s.ManagedConfig)
	if err == nil {
		t.Cleanup(func() { _ = m.Stop() })
	}
	return m, err
}

// processes returns the command lines of the processes of this stage.
func (s *stage) processes() []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, _ := os.ReadFile(dir + "/environ")
		argv, _ := os.ReadFile(dir + "/cmdline")
		if dir != fmt.Sprintf("/proc/%d", os.Getpid()) && (bytes.Contains(env, []byte(s.root)) || bytes.Contains(argv, []byte(s.root))) {
			found = append(found, string(bytes.ReplaceAll(argv, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for over := time.Now().Add(20 * time.Second); !ok(); <-look.C {
		if time.Now().After(over) {
			t.Errorf("waited in vain for %s", what)
			return
		}
	}
}

func (s *stage) wantNothingLeft(t *testing.T) {
	t.Helper()
	empty := 0 // one look can miss a process that another has just started
	eventually(t, "the processes to end", func() bool {
		if empty++; len(s.processes()) > 0 {
			empty = 0
		}
		return empty == 5
	})
	eventually(t, "the directory to go", func() bool { files, _ := os.ReadDir(s.WorkDir); return len(files) == 0 })
}

// noted waits for what the program writes to its record.
func (s *stage) noted(t *testing.T, lines int) []string {
	t.Helper()
	var got []string
	eventually(t, fmt.Sprintf("%d notes", lines), func() bool {
		text, _ := os.ReadFile(s.record)
		got = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		return len(got) >= lines && strings.HasSuffix(string(text), "\n")
	})
	return got
}

const serveForEver = `ready
while :; do sleep 60 & wait; done`

func TestAManagedServerStartsAndLeavesNothing(t *testing.T) {
	s := newStage(t, `pwd >> $record
echo "$@" >> $record
echo "$HOME|$XDG_DATA_HOME|$TMPDIR|$OPENCODE_SERVER_USERNAME|${#OPENCODE_SERVER_PASSWORD}|$OPENCODE_PURE" >> $record
ls -A "$XDG_CONFIG_HOME/opencode" . | tr '\n' ' ' >> $record
echo >> $record
touch "$HOME/file" "$TMPDIR/file"
`+serveForEver)
	m, err := s.start(t)
	if err != nil {
		t.Fatal(err)
	}
	dirs, _ := os.ReadDir(s.WorkDir)
	if len(dirs) != 1 || !strings.HasPrefix(dirs[0].Name(), "annals-opencode-") {
		t.Fatalf("in the working directory: %v", dirs)
	}
	dir := filepath.Join(s.WorkDir, dirs[0].Name())
	port := m.URL[strings.LastIndex(m.URL, ":")+1:]
	want := []string{dir + "/work", "serve --port " + port + " --hostname 127.0.0.1",
		dir + "/home|" + s.root + "/data|" + dir + "/tmp|opencode|64|1",
		".: .git " + " " + dir + "/config/opencode: node_modules package-lock.json "}
	if got := s.noted(t, 4); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the program saw %q\nwant %q", got, want)
	}
	if len(m.Password) != 64 || m.URL != "http://127.0.0.1:"+port {
		t.Errorf("password of %d, URL %s", len(m.Password), m.URL)
	}
	for range 2 {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	}
	if left := s.processes(); len(left) > 0 { // at once, not eventually
		t.Errorf("processes left: %q", left)
	}
	if files, _ := os.ReadDir(s.WorkDir); len(files) > 0 {
		t.Errorf("files left: %v", files)
	}
}

func TestThePasswordIsInNoCommandLine(t *testing.T) {
	s := newStage(t, serveForEver)
	m, err := s.start(t)
	if err != nil {
		t.Fatal(err)
	}
	argvs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range argvs {
		if argv, _ := os.ReadFile(name); bytes.Contains(argv, []byte(m.Password)) {
			t.Errorf("%s: %q", name, argv)
		}
	}
}

// The ways in which a server and what it starts come up, and resist their end.
var stubborn = map[string]string{
	"noise first": `echo hello; i=0; while [ $i -lt 2000 ]; do echo "noise $i: a plugin prints before the server does"; echo "and here" >&2; i=$((i+1)); done; ` + serveForEver,
	"a launcher that ends": `if [ "$1" = real ]; then port=$4; trap '' TERM; ` + serveForEver + `; fi
"$0" real "$@" & sleep 60`,
	"a grandchild with a session of its own": `setsid sh -c 'trap "" TERM HUP; while :; do sleep 60; done' >/dev/null 2>&1 &
` + serveForEver,
}

func TestStopEndsWhateverTheServerStarted(t *testing.T) {
	for name, body := range stubborn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, body)
			m, err := s.start(t)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Stop(); err != nil {
				t.Error(err)
			}
			if left := s.processes(); len(left) > 0 {
				t.Errorf("processes left: %q", left)
			}
		})
	}
}

func TestAParentThatIsKilledLeavesNothing(t *testing.T) {
	s := newStage(t, stubborn["a launcher that ends"])
	config, err := json.Marshal(s.ManagedConfig)
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(os.Args[0], "__parent")
	parent.Stdin = bytes.NewReader(config)
	out, err := parent.StdoutPipe()
	if err != nil || parent.Start() != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "started http://127.0.0.1:") {
		t.Errorf("%q, %v", line, err)
	}
	if len(s.processes()) == 0 {
		t.Error("no process to end")
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
} // newStage's cleanup waits for nothing to be left

func TestAParentThatIsKilledEarlyLeavesNothing(t *testing.T) {
	s := newStage(t, `echo up >> $record; sleep 60`) // never ready
	config, err := json.Marshal(s.ManagedConfig)
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(os.Args[0], "__parent")
	parent.Stdin = bytes.NewReader(config)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	s.noted(t, 1)
	_ = parent.Process.Kill()
	_ = parent.Wait()
}

func TestAServerThatEndsEarlyIsReportedWithItsStatus(t *testing.T) {
	s := newStage(t, `echo up >> $record; echo "Error: listen failed" >&2; echo "the password is $OPENCODE_SERVER_PASSWORD" >&2; exit 7`)
	_, err := s.start(t)
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.Unreachable || !strings.HasSuffix(f.Message, "ended with status 7 before it was ready") || f.Hint == "" || strings.Contains(err.Error(), "password") {
		t.Error(err)
	}
	if n := len(s.noted(t, 1)); n != 1 {
		t.Errorf("started %d times", n)
	}
}

func TestAServerThatIsKilledEarlyIsReportedWithTheSignal(t *testing.T) {
	s := newStage(t, `kill -SEGV $$; sleep 60`)
	if _, err := s.start(t); !fault.Is(err, fault.Unreachable) || !strings.Contains(err.Error(), "status 139") {
		t.Error(err)
	}
}

func TestAProgramThatCannotRunIsReported(t *testing.T) {
	s := newStage(t, "")
	put(t, s.Program, "#!/nowhere/node\n", 0o700)
	if _, err := s.start(t); !fault.Is(err, fault.Unreachable) || !errors.Is(err, syscall.ENOENT) || !strings.Contains(err.Error(), "the managed server: the program cannot be started") {
		t.Error(err)
	}
}

func TestAServerThatIsNeverReadyIsEnded(t *testing.T) {
	s := newStage(t, `trap '' TERM
echo "opencode server listening on http://192.0.2.1:5"
echo "opencode server listening on nothing"
printf 'opencode server listening on http://127.0.0.1:1'
while :; do sleep 60; done`)
	s.StartTimeout = 300 * time.Millisecond
	if _, err := s.start(t); !fault.Is(err, fault.Unreachable) || !strings.Contains(err.Error(), "not ready within 300ms") {
		t.Error(err)
	}
	if left := s.processes(); len(left) > 0 {
		t.Errorf("processes left: %q", left)
	}
}

func TestCancellingEndsTheStart(t *testing.T) {
	s := newStage(t, `echo up >> $record; sleep 60`)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := StartManaged(ctx, s.ManagedConfig)
		done <- err
	}()
	s.noted(t, 1)
	cancel()
	if err := <-done; !fault.Is(err, fault.Cancelled) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestACancelledStartStartsNothing(t *testing.T) {
	s := newStage(t, `echo up >> $record; `+serveForEver)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := StartManaged(ctx, s.ManagedConfig); !fault.Is(err, fault.Cancelled) {
		t.Error(err)
	}
	if _, err := os.Stat(s.record); err == nil {
		t.Error("the program was started")
	}
}

func TestATakenPortIsTriedAgainWithAnother(t *testing.T) {
	// The first port is taken between our look and the server's start: the
	// script waits until the test has done so.
	s := newStage(t, `echo $port >> $record
if [ $(wc -l < $record) -lt 2 ]; then while ! [ -e $record.taken ]; do :; done; echo "Failed to start server. Is port $port in use?" >&2; exit 1; fi
`+serveForEver)
	taken := make(chan net.Listener, 1)
	go func() {
		var l net.Listener
		eventually(t, "the first port", func() bool {
			port, _ := os.ReadFile(s.record)
			if !bytes.HasSuffix(port, []byte("\n")) {
				return false
			}
			l, _ = net.Listen("tcp", "127.0.0.1:"+strings.TrimSpace(string(port)))
			return true
		})
		_ = os.WriteFile(s.record+".taken", nil, 0o600)
		taken <- l
	}()
	m, err := s.start(t)
	if l := <-taken; l != nil {
		defer l.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	ports := s.noted(t, 2)
	if len(ports) != 2 || ports[0] == ports[1] || m.URL != "http://127.0.0.1:"+ports[1] {
		t.Errorf("tried %v, got %s", ports, m.URL)
	}
}

func TestWithoutAStoreNothingIsStartedAndNothingMade(t *testing.T) {
	s := newStage(t, `echo up >> $record; `+serveForEver)
	for name, env := range map[string][]string{
		"no store":    {"HOME=" + filepath.Join(s.root, "empty")},
		"in memory":   {"HOME=" + s.root, "OPENCODE_DB=:memory:"},
		"no such one": {"HOME=" + s.root, "OPENCODE_DB=" + filepath.Join(s.root, "no.db")},
	} {
		c := s.ManagedConfig
		c.Env = env
		_, err := StartManaged(context.Background(), c)
		var f *fault.Error
		if !errors.As(err, &f) || f.Code != fault.NoStore || f.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(s.record); err == nil {
		t.Error("the program was started")
	}
	if _, err := os.Stat(filepath.Join(s.root, "empty")); err == nil {
		t.Error("a directory was made")
	}
}

func TestWithoutAProgramTheHintSaysWhatToDo(t *testing.T) {
	s := newStage(t, "")
	s.Program = "opencode-that-is-nowhere"
	_, err := s.start(t)
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.NotFound || !strings.Contains(f.Hint, "install OpenCode") {
		t.Error(err)
	}
}

func TestAWorkDirThatCannotBeMadeIsReported(t *testing.T) {
	s := newStage(t, serveForEver)
	work := s.WorkDir
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.WorkDir = filepath.Join(file, "below")
	if _, err := s.start(t); !fault.Is(err, fault.Config) {
		t.Error(err)
	}
	s.WorkDir = work
}
