package opencode

import (
	"bytes"
	"fmt"
	"os"
	"slices"
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
	below, err := descendants()
	if err != nil {
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

// descendants returns the processes below this one, as far as the process
// table shows them.
func descendants() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if parent, ok := parentOf(pid); ok {
				children[parent] = append(children[parent], pid)
			}
		}
	}
	found := slices.Clone(children[os.Getpid()])
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found, nil
}

// parentOf reads /proc/<pid>/stat: "pid (name) state parent …", where the name
// may hold anything, brackets too.
func parentOf(pid int) (int, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
