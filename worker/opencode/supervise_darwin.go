package opencode

import "syscall"

// adoptOrphans does nothing: this system has no such thing, so a process that
// leaves the server's group is out of our reach.
func adoptOrphans() error { return nil }

// childAttributes puts the server into a process group of its own.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// signalTree sends a signal to the server's process group.
func signalTree(child int, sig syscall.Signal) { _ = syscall.Kill(-child, sig) }

// treeAlive reports whether the server's process group has a member.
func treeAlive(child int) bool { return syscall.Kill(-child, 0) != syscall.ESRCH }
