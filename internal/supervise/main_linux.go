package supervise

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of every process below it whose
// own parent ends, so that none gets away.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// keepToOurselves keeps the descriptors from first on from every program that
// is started.
func keepToOurselves(first int) error {
	if unix.CloseRange(uint(first), ^uint(0), unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	return listDescriptors(first) // before Linux 5.11
}

// childAttributes puts the program into a process group of its own and has the
// kernel kill it when we are killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// signalTree sends a signal to every process below us that is there now, those
// with a session of their own among them. Groups come first: the kernel
// signals a group as a whole, so one whose members fork and end in turn is
// hit, where a list of processes is always out of date. Without a readable
// process table the signal goes to the program's group.
func signalTree(child int, sig syscall.Signal) {
	below, err := descendants()
	if err != nil {
		_ = syscall.Kill(-child, sig)
		return
	}
	self, done := syscall.Getpgrp(), map[int]bool{}
	for _, p := range below {
		if p.group > 1 && p.group != self && !done[p.group] {
			done[p.group] = true
			_ = syscall.Kill(-p.group, sig)
		}
	}
	for _, p := range below {
		if !done[p.group] {
			_ = syscall.Kill(p.pid, sig) // it may have ended meanwhile
		}
	}
}

// treeAlive reports whether a process below us is left, once the program
// itself has been waited for. It asks the kernel and not the process table,
// which cannot be read at one moment: a process without parents below us is
// our own child, so when we have no child there is nothing left at all.
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

// member is one process of the table.
type member struct{ pid, parent, group int }

// descendants returns the processes below this one, as far as the process
// table shows them.
func descendants() ([]member, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := map[int][]member{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if m, ok := look(pid); ok {
				children[m.parent] = append(children[m.parent], m)
			}
		}
	}
	found := append([]member(nil), children[os.Getpid()]...)
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found, nil
}

// look reads /proc/<pid>/stat: "pid (name) state parent group …", where the
// name may hold anything, brackets too.
func look(pid int) (member, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return member{}, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 3 {
		return member{}, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	group, err2 := strconv.Atoi(string(fields[2]))
	return member{pid, parent, group}, err1 == nil && err2 == nil
}
