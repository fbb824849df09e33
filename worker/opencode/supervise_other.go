//go:build !linux && !darwin

package opencode

import (
	"fmt"
	"os"
	"os/exec"
)

// detach does nothing here: Supervise refuses at once.
func detach(*exec.Cmd) {}

// Supervise says that this system has no managed server. Name a server that
// runs instead.
func Supervise(_, _, stderr *os.File) int {
	fmt.Fprintln(stderr, "a managed server needs Linux or macOS; name a running server instead")
	return 1
}

// running cannot tell here, so every process counts as running.
func running(int) bool { return true }
