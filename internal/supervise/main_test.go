package supervise

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary plays the other processes too: the supervisor, and a program
// that starts one and is then killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "__supervise":
			os.Exit(Main(os.Stdin, os.Stdout, os.Stderr))
		case "__parent":
			os.Exit(parentProcess())
		}
	}
	goleak.VerifyTestMain(m)
}

// supervisor is the command line of the supervisor. A program with the race
// detector in it sleeps for a second before it ends, unless it is told.
func supervisor() []string {
	return []string{"/usr/bin/env", "GORACE=atexit_sleep_ms=0", os.Args[0], "__supervise"}
}

// parentProcess starts what it is told to on standard input, says so, and
// waits for its end.
func parentProcess() int {
	var o Order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return 2
	}
	p, err := Start(Config{Self: supervisor(), Order: o})
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	fmt.Println("started", p.cmd.Process.Pid)
	select {}
}
