package supervise

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stage is a place with a program of the test's own.
type stage struct {
	Order
	root   string // in the environment of every process of the stage
	record string // where the program notes things
}

// newStage writes a program: the body of a shell script that may note things
// in $record.
func newStage(t *testing.T, body string) *stage {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{root: root, record: filepath.Join(root, "record")}
	program := filepath.Join(root, "bin/program")
	put(t, program, "#!/bin/sh\nrecord="+s.record+"\nready() { echo ready >> $record; }\n"+body+"\n", 0o700)
	work := filepath.Join(root, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	s.Order = Order{Program: program, Env: []string{"PATH=" + os.Getenv("PATH"), "STAGE=" + root}, Dir: NewDir(work, "test"),
		Dirs: []string{"in"}, Work: "in", Grace: 100 * time.Millisecond}
	t.Cleanup(func() { s.wantNothingLeft(t) })
	return s
}

// start starts the program and makes sure that it is stopped.
func (s *stage) start(t *testing.T) *Process {
	t.Helper()
	p, err := Start(Config{Self: supervisor(), Order: s.Order})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop() })
	return p
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
	eventually(t, "the directory to go", func() bool { files, _ := os.ReadDir(filepath.Dir(s.Dir)); return len(files) == 0 })
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

const runForEver = `ready
while :; do sleep 60 & wait; done`

func TestAProgramRunsAsOrderedAndLeavesNothing(t *testing.T) {
	s := newStage(t, `pwd >> $record
for a in "$@"; do printf '[%s]' "$a" >> $record; done; echo >> $record
env | grep -v -e ^PATH= -e ^STAGE= -e ^PWD= -e ^OLDPWD= -e ^_= -e ^SHLVL= | od -An -c | tr -d ' \n' >> $record; echo >> $record
ls -A | tr '\n' ' ' >> $record; echo >> $record
cat ../note >> $record
read x; echo "stdin: $? $x" >> $record
echo "$(ulimit -c) $(ulimit -Hc)" >> $record
echo out; echo err >&2
mkdir -p a/b; echo x > a/b/c; rm -f ../.annals-*; chmod 500 a/b a . ..
exit 3`)
	s.Args, s.Env = []string{"a b", "", "\xff"}, append(s.Env, "ODD=\xf6")
	s.Files = []File{{"note", "a note\n"}, {"in/there", ""}}
	var outputs [2]*os.File
	for i := range outputs {
		f, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		outputs[i] = f
	}
	p, err := Start(Config{Self: supervisor(), Order: s.Order, Stdout: outputs[0], Stderr: outputs[1]})
	if err != nil {
		t.Fatal(err)
	}
	if result, err := p.Wait(); err != nil || result != (Result{Status: 3}) || result.Code() != 3 {
		t.Errorf("%+v, %v", result, err)
	}
	if files, _ := os.ReadDir(filepath.Dir(s.Dir)); len(files) > 0 { // at once, not eventually
		t.Errorf("files left: %v", files)
	}
	want := []string{s.Dir + "/in", "[a b][][\xff]", `ODD=366\n`, "there ", "a note", "stdin: 1 ", "0 0"}
	if got := s.noted(t, 7); !slices.Equal(got, want) {
		t.Errorf("the program saw %q\nwant %q", got, want)
	}
	for i, want := range []string{"out\n", "err\n"} {
		if got, err := os.ReadFile(outputs[i].Name()); err != nil || string(got) != want {
			t.Errorf("%q, %v", got, err)
		}
	}
	for range 2 {
		if err := errors.Join(p.Stop(), p.Kill()); err != nil {
			t.Error(err)
		}
	}
}

func TestAProgramInheritsNothingOfOurs(t *testing.T) {
	s := newStage(t, `open=$(for f in /proc/$$/fd/*; do readlink $f; done); echo "$open" > $record`)
	secret := filepath.Join(s.root, "secret")
	put(t, secret, "", 0o600)
	f, err := os.Open(secret)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd, err := syscall.Dup(int(f.Fd())) // as one is that a careless parent left open
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if _, err := s.start(t).Wait(); err != nil {
		t.Error(err)
	}
	for _, name := range s.noted(t, 4) { // a shell has its script open
		if name != os.DevNull && name != s.Program && !strings.HasPrefix(name, "pipe:") {
			t.Errorf("open in the program: %s", name)
		}
	}
}

// The ways in which a program and what it starts resist their end.
var stubborn = map[string]string{
	"a plain program":            runForEver,
	"a program that ignores all": `trap '' TERM INT HUP; ` + runForEver,
	"a launcher": `if [ "$1" = real ]; then ` + runForEver + `; fi
"$0" real "$@" & wait; wait`,
	"a launcher that ends": `if [ "$1" = real ]; then trap '' TERM; ` + runForEver + `; fi
"$0" real "$@" & sleep 60`,
	"a grandchild with a session of its own": `setsid sh -c 'trap "" TERM HUP; while :; do sleep 60; done' >/dev/null 2>&1 &
` + runForEver,
	"an orphan with a session of its own": `(setsid sh -c 'trap "" TERM; echo up >> '$record'; while :; do sleep 60; done' &)
while ! [ -s $record ]; do :; done
` + runForEver,
	"a stopped process": `(kill -STOP $(exec sh -c 'echo $PPID')) & ` + runForEver,
	"fifty children":    `i=0; while [ $i -lt 50 ]; do (trap '' TERM; exec sleep 60) & i=$((i+1)); done; ` + runForEver,
	"children that fork and end for ever": `if [ "$1" = on ]; then "$0" on & exit; fi
"$0" on & ` + runForEver,
}

func TestStopEndsWhateverTheProgramStarted(t *testing.T) {
	for name, body := range stubborn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, body)
			p := s.start(t)
			s.noted(t, 1)
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
			if left := s.processes(); len(left) > 0 { // at once, not eventually
				t.Errorf("processes left: %q", left)
			}
		})
	}
}

func TestWhatAProgramLeavesRunningIsEnded(t *testing.T) {
	s := newStage(t, `(setsid sh -c 'trap "" TERM; echo up >> '$record'; while :; do sleep 60; done' &)
while ! [ -s $record ]; do :; done
exit 5`)
	result, err := s.start(t).Wait()
	if err != nil || result != (Result{Status: 5}) {
		t.Errorf("%+v, %v", result, err)
	}
	if left := s.processes(); len(left) > 0 {
		t.Errorf("processes left: %q", left)
	}
}

func TestKillingTheParentEndsWhateverTheProgramStarted(t *testing.T) {
	for name, body := range stubborn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, body)
			parent, line := s.parent(t)
			if line, err := line(); err != nil || !strings.HasPrefix(line, "started ") {
				t.Errorf("%q, %v", line, err)
			}
			s.noted(t, 1)
			_ = parent.Process.Kill()
			_ = parent.Wait()
		}) // newStage's cleanup waits for nothing to be left
	}
}

// parent starts another process that starts the program.
func (s *stage) parent(t *testing.T) (*exec.Cmd, func() (string, error)) {
	t.Helper()
	order, err := json.Marshal(s.Order)
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(os.Args[0], "__parent")
	parent.Stdin = bytes.NewReader(order)
	out, err := parent.StdoutPipe()
	if err != nil || parent.Start() != nil {
		t.Fatal(err)
	}
	return parent, func() (string, error) { return bufio.NewReader(out).ReadString('\n') }
}

func TestAParentThatIsKilledAtOnceLeavesNothing(t *testing.T) {
	s := newStage(t, runForEver)
	parent, _ := s.parent(t)
	eventually(t, "the supervisor", func() bool { files, _ := os.ReadDir(filepath.Dir(s.Dir)); return len(files) > 0 })
	_ = parent.Process.Kill()
	_ = parent.Wait()
}

func TestASupervisorThatIsAskedToEndCleansUp(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		s := newStage(t, runForEver)
		p := s.start(t)
		s.noted(t, 1)
		if err := p.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		result, err := p.Wait()
		if err != nil || result.Signal != syscall.SIGTERM || result.Code() != 128+15 || !result.Asked || result.Err != nil {
			t.Errorf("%s: %+v, %v", sig, result, err)
		}
		s.wantNothingLeft(t)
	}
}

func TestASupervisorThatIsKilledTakesTheProgramWithIt(t *testing.T) {
	s := newStage(t, `ready; exec sleep 60`)
	p := s.start(t)
	s.noted(t, 1)
	_ = p.cmd.Process.Kill()
	result, err := p.Wait() // it removes the directory that the supervisor could not
	if err != nil || result.Err == nil || result.Status != -1 || !strings.Contains(result.Err.Error(), "signal: killed") {
		t.Errorf("%+v, %v", result, err)
	}
	if files, _ := os.ReadDir(filepath.Dir(s.Dir)); len(files) > 0 {
		t.Errorf("files left: %v", files)
	}
}

func TestASupervisorThatHangsIsKilled(t *testing.T) {
	s := newStage(t, `ready; exec sleep 60`)
	p := s.start(t)
	s.noted(t, 1)
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.grace = 100*time.Millisecond - stopLimit
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "its supervisor was killed") {
		t.Error(err)
	}
}

func TestTheProgramIsNotInOurSession(t *testing.T) {
	s := newStage(t, `echo $$ >> $record; exec sleep 60`)
	p := s.start(t)
	stat, err := os.ReadFile("/proc/" + s.noted(t, 1)[0] + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	var state string
	var parent, group, session int
	if _, err := fmt.Sscan(string(stat[bytes.LastIndexByte(stat, ')')+1:]), &state, &parent, &group, &session); err != nil {
		t.Fatal(err)
	}
	if session != p.cmd.Process.Pid || group == session || group == syscall.Getpgrp() {
		t.Errorf("session %d, group %d, supervisor %d, ours %d", session, group, p.cmd.Process.Pid, syscall.Getpgrp())
	}
}

func TestHowAProgramEndedIsReported(t *testing.T) {
	huge := strings.Repeat("x", 64<<10)
	for name, c := range map[string]struct {
		body   string
		change func(*Order)
		want   Result
		errno  syscall.Errno
	}{
		"with zero":                {"exit 0", nil, Result{}, 0},
		"with 255":                 {"exit 255", nil, Result{Status: 255}, 0},
		"with a shell's word":      {"exit 143", nil, Result{Status: 143}, 0},
		"by a signal":              {"kill -SEGV $$; sleep 60", nil, Result{Status: -1, Signal: syscall.SIGSEGV}, 0},
		"without an interpreter":   {"", func(o *Order) { put(t, o.Program, "#!/nowhere/node\n", 0o700) }, Result{Status: -1}, syscall.ENOENT},
		"without a program":        {"", func(o *Order) { o.Program += "-gone" }, Result{Status: -1}, syscall.ENOENT},
		"without a right":          {"", func(o *Order) { _ = os.Chmod(o.Program, 0o600) }, Result{Status: -1}, syscall.EACCES},
		"with too many arguments":  {"", func(o *Order) { o.Args = slices.Repeat([]string{huge}, 64) }, Result{Status: -1}, syscall.E2BIG},
		"with one that is too big": {"", func(o *Order) { o.Args = []string{huge + huge} }, Result{Status: -1}, syscall.E2BIG},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, c.body)
			if c.change != nil {
				c.change(&s.Order)
			}
			got, err := s.start(t).Wait()
			if err != nil || got.Status != c.want.Status || got.Signal != c.want.Signal || (got.Err != nil) != (c.errno != 0) || c.errno != 0 && !errors.Is(got.Err, c.errno) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestKillGivesNoTimeAndStopDoes(t *testing.T) {
	body := `trap 'echo asked >> $record; exit 4' TERM; ready; while :; do sleep 0.05; done`
	s := newStage(t, body)
	s.Grace = time.Minute
	p := s.start(t)
	s.noted(t, 1)
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	if result, _ := p.Wait(); result.Signal != syscall.SIGKILL || !result.Asked || len(s.noted(t, 1)) != 1 {
		t.Errorf("%+v, %q", result, s.noted(t, 1))
	}
	s = newStage(t, body)
	s.Grace = time.Minute
	p = s.start(t)
	s.noted(t, 1)
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if result, _ := p.Wait(); result.Status != 4 || s.noted(t, 2)[1] != "asked" {
		t.Errorf("%+v, %q", result, s.noted(t, 2))
	}
}

func TestAFullDiskIsReported(t *testing.T) {
	for _, err := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		if !noSpace(&os.PathError{Err: err}) || !noSpace(errors.Join(err, syscall.EINVAL)) {
			t.Error(err)
		}
	}
	if noSpace(nil) || noSpace(syscall.EINVAL) || full(t.TempDir()) || full("/nowhere") {
		t.Error("everything is a full disk")
	}
	s := newStage(t, `head -c 3000000 /dev/zero > x; rm -f ../.annals-*; exit 0`)
	work := filepath.Dir(s.Dir)
	if err := syscall.Mount("tmpfs", work, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		t.Logf("not tried on a disk that is full: %v", err)
		return
	}
	if result, err := s.start(t).Wait(); err != nil || !result.Full || result.Status != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if err := syscall.Unmount(work, 0); err != nil {
		t.Error(err)
	}
}

func TestAPrivateDirectoryThatCannotBeMadeIsReported(t *testing.T) {
	s := newStage(t, `ready`)
	work := s.Dir
	s.Dir = filepath.Join(s.root, "nowhere", filepath.Base(work))
	result, err := s.start(t).Wait()
	s.Dir = work
	if err != nil || result.Err == nil || result.Status != -1 || !strings.Contains(result.Err.Error(), "no private directory") {
		t.Errorf("%+v, %v", result, err)
	}
	if _, err := os.Stat(s.record); err == nil {
		t.Error("the program was started")
	}
}

func TestASupervisorThatIsNoneIsReported(t *testing.T) {
	s := newStage(t, "")
	for name, self := range map[string][]string{"false": {"/bin/false"}, "cat": {"/bin/cat", "/dev/null"}, "words": {"/bin/sh", "-c", "read x; echo woe >&2"}} {
		p, err := Start(Config{Self: self, Order: s.Order})
		if err != nil {
			t.Fatal(err)
		}
		result, err := p.Wait()
		if err != nil || result.Err == nil || name == "words" && !strings.HasSuffix(result.Err.Error(), ": woe") {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
	}
	for _, self := range [][]string{nil, {"/nowhere/annals"}} {
		if _, err := Start(Config{Self: self, Order: s.Order}); err == nil {
			t.Errorf("%q was started", self)
		}
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func TestASupervisorWithoutAnOrderEnds(t *testing.T) {
	order := func(o Order) string {
		line, err := o.encode()
		if err != nil {
			t.Fatal(err)
		}
		return string(line)
	}
	fine := Order{Program: "/bin/true", Dir: NewDir(t.TempDir(), "x")}
	bad := fine
	bad.Dir = "/nowhere/else"
	for input, want := range map[string]int{"": 0, "{": 0, "no order\n": 1, "{}\n": 1, order(bad): 1, order(fine): 0} {
		cmd := exec.CommandContext(context.Background(), os.Args[0], "__supervise")
		cmd.Stdin = strings.NewReader(input)
		out, _ := cmd.Output()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%q: status %d, want %d", input, got, want)
		}
		if input == order(fine) && !strings.Contains(string(out), "no descriptor") {
			t.Errorf("run by hand: %q", out)
		}
	}
}

func TestFiftyProgramsLeaveNothing(t *testing.T) {
	s := newStage(t, `(setsid sleep 60 &) ; sleep 60 & exit 1`)
	before := openDescriptors(t)
	for i := range 50 {
		s.Dir = NewDir(filepath.Dir(s.Dir), strconv.Itoa(i))
		p, err := Start(Config{Self: supervisor(), Order: s.Order})
		if err != nil {
			t.Fatal(err)
		}
		if result, err := p.Wait(); err != nil || result != (Result{Status: 1}) {
			t.Fatalf("%+v, %v", result, err)
		}
	}
	if left := s.processes(); len(left) > 0 {
		t.Errorf("processes left: %q", left)
	}
	if after := openDescriptors(t); after != before {
		t.Errorf("%d descriptors open, before %d", after, before)
	}
}

// The same as another user, for whom the rights of files count.
func TestAllOfThisWithoutPrivileges(t *testing.T) {
	if os.Getuid() != 0 {
		return // this is it
	}
	const nobody = 65534
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	self, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	program := filepath.Join(dir, "supervise.test")
	out, err := os.OpenFile(program, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, self)
	if err := errors.Join(err, out.Close(), os.Chown(dir, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.timeout=2m")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
