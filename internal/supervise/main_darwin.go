package supervise

import "syscall"

// adoptOrphans does nothing: this system has no such thing, so a process that
// leaves the program's group is out of our reach.
func adoptOrphans() error { return nil }

// keepToOurselves keeps the descriptors from first on from every program that
// is started.
func keepToOurselves(first int) error { return listDescriptors(first) }

// childAttributes puts the program into a process group of its own.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// signalTree sends a signal to the program's process group.
func signalTree(child int, sig syscall.Signal) { _ = syscall.Kill(-child, sig) }

// treeAlive reports whether the program's process group has a member.
func treeAlive(child int) bool { return syscall.Kill(-child, 0) != syscall.ESRCH }
