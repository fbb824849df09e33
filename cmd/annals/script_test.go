package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"annals": main})
}

// TestTheCommandLine runs the scripts of testdata/script: each is one promise
// of the command line, told as a person would try it.
func TestTheCommandLine(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			home := e.WorkDir + "/home"
			for k, v := range map[string]string{
				"HOME": home, "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": "", "XDG_STATE_HOME": "", "XDG_CACHE_HOME": "",
				"OPENCODE_SERVER_URL": "", "OPENCODE_SERVER_PASSWORD": "", "NO_COLOR": "",
			} {
				e.Setenv(k, v)
			}
			return os.Mkdir(home, 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": wantStatus,
			"mode":   wantMode,
		},
	})
}

// wantStatus runs a command and compares its exit status: status 2 annals …
func wantStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N command [args]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		type exitCoder interface{ ExitCode() int }
		e, ok := err.(exitCoder)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = itoa(e.ExitCode())
	}
	if code != args[0] {
		ts.Fatalf("exit status %s, want %s", code, args[0])
	}
}

// wantMode compares a file's permissions: mode 0600 file
func wantMode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode 0600 file")
	}
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := info.Mode().Perm().String(); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}
