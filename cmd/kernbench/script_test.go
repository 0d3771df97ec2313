package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/cli"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/host/proctest"
)

// all is what the tested kernbench is built with.
func all() []*bench.Bench { return append(benches.All(), faulty()) }

// Agents and workers are this binary started again under other names, so they
// are looked for before the scripts' commands are.
func TestMain(m *testing.M) {
	if code, is := cli.Child(all()); is {
		os.Exit(code)
	}
	// Under the race detector every process would sleep a second at its end.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	testscript.Main(m, map[string]func(){"kernbench": func() {
		run.ClaimName = "@kernbench-" + os.Getenv("WORK")
		request.Remeasure = 0
		os.Exit(cli.Main(all()))
	}})
}

// TestScripts runs the stories of testdata/script. Each has a folder of its own
// ($WORK), sees the project's examples as ./examples, and at its end nothing
// that it started may be left.
func TestScripts(t *testing.T) {
	var files []string
	for _, story := range stories {
		found, err := filepath.Glob("testdata/script/" + story + ".txtar")
		if err != nil || len(found) == 0 {
			t.Fatalf("no story %s: %v", story, err)
		}
		files = append(files, found...)
	}
	testscript.Run(t, testscript.Params{
		Files: files,
		Cmds:  map[string]func(*testscript.TestScript, bool, []string){"code": code},
		Setup: func(e *testscript.Env) error {
			examples, err := filepath.Abs("../../examples")
			if err != nil {
				return err
			}
			// Debian's python3 comes first: it is the one that has torch.
			own := filepath.SplitList(e.Getenv("PATH"))[0]
			e.Setenv("OWN", own)
			e.Setenv("PATH", own+":/usr/bin:"+e.Getenv("PATH"))
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Defer(func() { assertNothingLeft(e) })
			return os.Symlink(examples, filepath.Join(e.WorkDir, "examples"))
		},
	})
}

// code is the script command `code N PROGRAM ARGS`: the program must end with
// exactly this exit code.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N PROGRAM ARGS")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// assertNothingLeft looks for processes that carry the script's folder in their
// environment, and for temporary files.
func assertNothingLeft(e *testscript.Env) {
	var left []string
	for _, p := range (proctest.Mark{Name: "WORK", Value: e.WorkDir}).Gone() {
		left = append(left, fmt.Sprintf("process %d: %s", p.PID, p.Cmdline))
	}
	temp, _ := filepath.Glob(filepath.Join(e.WorkDir, ".tmp", "*"))
	if left = append(left, temp...); len(left) > 0 {
		e.T().Log("left behind: " + strings.Join(left, ", "))
		e.T().FailNow()
	}
}
