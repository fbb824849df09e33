//go:build !linux && !darwin

package supervise

import (
	"fmt"
	"os"
	"os/exec"
)

// detach does nothing here: Main refuses at once.
func detach(*exec.Cmd) {}

// Main says that programs cannot be supervised on this system.
func Main(_, _, stderr *os.File) int {
	fmt.Fprintln(stderr, "the supervisor: programs can be supervised on Linux and macOS only")
	return 1
}

// running cannot tell here, so every process counts as running.
func running(int) bool { return true }
