package main

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/cli"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/host/proctest"
	"github.com/kernbench/kernbench/internal/result/figure"
)

// all returns the benches of the tested program.
func all() []*bench.Bench { return append(benches.All(), faulty()) }

// Agents and workers are this binary under other names, so TestMain checks for them before the
// commands of scripts.
func TestMain(m *testing.M) {
	if code, is := cli.Child(all()); is {
		os.Exit(code)
	}
	// Otherwise every process sleeps for a second at its end under the race detector.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	testscript.Main(m, map[string]func(){"kernbench": func() {
		run.ClaimName = "@kernbench-" + os.Getenv("WORK")
		run.LoadRoot = fstest.MapFS{}
		request.Remeasure = 0
		figure.Density = 24
		os.Exit(cli.Main(all()))
	}})
}

// TestScripts runs the scripts in testdata/script. Each has its own folder ($WORK) with the
// project's examples in ./examples. At its end, no process that it started may be left.
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
		Cmds:  map[string]func(*testscript.TestScript, bool, []string){"code": code, "seal": seal},
		Setup: func(e *testscript.Env) error {
			examples, err := filepath.Abs("../../examples")
			if err != nil {
				return err
			}
			// The python3 of Debian comes first because it has torch.
			own := filepath.SplitList(e.Getenv("PATH"))[0]
			e.Setenv("OWN", own)
			e.Setenv("PATH", own+":/usr/bin:"+e.Getenv("PATH"))
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Setenv("GOGC", os.Getenv("GOGC"))
			e.Defer(func() { assertNothingLeft(e) })
			return os.Symlink(examples, filepath.Join(e.WorkDir, "examples"))
		},
	})
}

// seal implements the script command `seal FILE`: it gives the edited lines of a journal their chain and checksum again,
// so that only the edited numbers are wrong.
func seal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: seal FILE")
	}
	end := regexp.MustCompile(`(,"chain":"[0-9a-f]{8}")?,"crc":"[0-9a-f]{8}"}$`)
	record := regexp.MustCompile(`^{"type":"(row|end)".*?"run":"([^"]*)"`)
	chains := map[string]string{}
	var b strings.Builder
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		line = end.ReplaceAllString(strings.TrimSpace(line), "")
		m := record.FindStringSubmatch(line)
		if m != nil && chains[m[2]] != "" {
			line += fmt.Sprintf(`,"chain":%q`, chains[m[2]])
		}
		sum := fmt.Sprintf("%08x", crc32.Checksum([]byte(line), crc32.MakeTable(crc32.Castagnoli)))
		if m != nil && m[1] == "row" {
			chains[m[2]] = sum
		}
		fmt.Fprintf(&b, "%s,\"crc\":%q}\n", line, sum)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b.String()), 0o644))
}

// code implements the script command `code N PROGRAM ARGS`: the program must exit with code N.
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

// assertNothingLeft fails the test if processes with the script's folder in their environment, or
// temporary files, are left.
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
