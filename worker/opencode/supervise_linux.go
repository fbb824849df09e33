package opencode

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of every process below it whose
// own parent ends, so that none gets away.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// childAttributes puts the server into a process group of its own and has the
// kernel kill it when we are killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// signalTree sends a signal to every process below us that is there now, those
// with a session of their own among them. Without a readable process table it
// goes to the server's group.
func signalTree(child int, sig syscall.Signal) {
	below := descendants()
	if len(below) == 0 {
		below = []int{-child}
	}
	for _, pid := range below {
		_ = syscall.Kill(pid, sig) // it may have ended meanwhile
	}
}

// treeAlive reports whether a process below us is left, once the server itself
// has been waited for. It asks the kernel and not the process table, which
// cannot be read at one moment: a process without parents below us is our own
// child, so when we have no child there is nothing left at all.
func treeAlive(int) bool {
	for {
		switch pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG|unix.WALL, nil); {
		case err == syscall.EINTR, pid > 0: // an orphan that has ended is buried
		case err != nil:
			return false
		default:
			return true
		}
	}
}

// process is one line of the process table.
type process struct {
	pid, parent int
	dead        bool
}

// descendants returns the processes below this one that have not ended, as
// far as the process table shows them.
func descendants() []int {
	children := map[int][]process{}
	entries, _ := os.ReadDir("/proc") // none without it
	for _, e := range entries {
		if p, ok := readProcess(e.Name()); ok {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	var live []int
	for queue := []int{os.Getpid()}; len(queue) > 0; queue = queue[1:] {
		for _, p := range children[queue[0]] {
			queue = append(queue, p.pid)
			if !p.dead {
				live = append(live, p.pid)
			}
		}
	}
	return live
}

// readProcess reads /proc/<pid>/stat: "pid (name) state parent …", where the
// name may hold anything, brackets too. A process whose first thread has ended
// while others run looks dead and is not.
func readProcess(name string) (process, bool) {
	pid, err := strconv.Atoi(name)
	if err != nil {
		return process{}, false
	}
	stat, err := os.ReadFile("/proc/" + name + "/stat")
	if err != nil {
		return process{}, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 18 {
		return process{}, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return process{}, false
	}
	state, threads := string(fields[0]), string(fields[17])
	return process{pid: pid, parent: parent, dead: state == "X" || state == "Z" && (threads == "1" || threads == "0")}, true
}
