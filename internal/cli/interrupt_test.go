package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// An interrupt immediately ends a command that starts no processes. Here the command waits for a
// reader of its output.
func TestInterrupt(t *testing.T) {
	dir := leftoverDir(t)
	w := must.Get(journal.Open(dir))(t)
	for _, rec := range []any{journal.Header{Schema: journal.Schema, Run: "r", Bench: "still"},
		journal.Row{Schema: journal.Schema, Run: "r", Bench: "still", Status: journal.OK, Key: "k",
			Point: point.Point{{Name: "i", Value: point.IntValue(1)}}, Metrics: map[string]float64{"time_us": 1}}} {
		must.Do(t, w.Append(rec))
	}
	must.Do(t, w.Close())
	still := bench.New("still", func(context.Context, *bench.State) error { return nil }, bench.Ints("i", "1,2"))
	for _, args := range [][]string{{"show", dir}, {"compare", dir, dir}, {"report", dir},
		{"run", "--bench", "still", "--render-only", "--out", dir}} {
		var errs bytes.Buffer
		_, out := io.Pipe()
		a := &app{name: "kernbench", benches: []*bench.Bench{still}, args: args,
			stdout: texttab.ForTerminal(out), stderr: texttab.ForTerminal(&errs)}
		ctx, cancel := context.WithCancel(t.Context())
		code := make(chan int, 1)
		go func() { code <- a.run(ctx) }()
		time.AfterFunc(20*time.Millisecond, cancel)
		select {
		case got := <-code:
			if got != exitInterrupted || errs.String() != "kernbench: interrupted\n" {
				t.Errorf("%v: exit code %d: %s", args, got, errs.String())
			}
		case <-time.After(3 * time.Minute):
			t.Errorf("%v goes on after an interrupt", args)
		}
		cancel()
	}
	// An interrupt also ends planning.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, flag := range []string{"--plan", "--quiet"} {
		var out, errs bytes.Buffer
		a := &app{name: "kernbench", benches: []*bench.Bench{still},
			args:   []string{"run", "--bench", "still", flag, "--out", t.TempDir()},
			stdout: texttab.ForTerminal(&out), stderr: texttab.ForTerminal(&errs)}
		if code := a.run(ctx); code != exitInterrupted || out.Len() > 0 {
			t.Errorf("%s: exit code %d: %s%s", flag, code, out.String(), errs.String())
		}
	}
}

// leftoverDir returns a folder for commands that run on after they were interrupted. In the program they end with the
// process. Here they may still write files while the folder is removed, which t.TempDir reports as a failure.
func leftoverDir(t *testing.T) string {
	dir := must.Get(os.MkdirTemp("", "interrupted"))(t)
	t.Cleanup(func() {
		for range 100 {
			if os.RemoveAll(dir) == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	return filepath.Join(dir, "run")
}

// TestInterruptWhileReading checks that an interrupt ends the reading of a file that takes minutes to parse.
func TestInterruptWhileReading(t *testing.T) {
	sweep := filepath.Join(t.TempDir(), "slow.yaml")
	must.Do(t, os.WriteFile(sweep, []byte("a: >\n"+strings.Repeat(" \n", 4_000)), 0o600))
	for _, args := range [][]string{{"run", "-f", sweep}, {"tune", "-f", sweep}, {"list", "-f", sweep}} {
		var out, errs bytes.Buffer
		a := &app{name: "kernbench", args: args, stdout: texttab.ForTerminal(&out), stderr: texttab.ForTerminal(&errs)}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if code := a.run(ctx); code != exitInterrupted || !strings.Contains(errs.String(), "interrupted") {
			t.Errorf("%v: exit code %d: %s", args, code, errs.String())
		}
	}
}

// TestInterruptedRead checks the exit code if the reading of a pipe is interrupted, in a command that reports every
// error about a file as wrong usage.
func TestInterruptedRead(t *testing.T) {
	for err, want := range map[error]int{
		usage(fmt.Errorf("reading fifo: %w (interrupt)", infile.ErrInterrupted)): exitInterrupted,
		usage(errors.New("reading fifo: too large")):                             exitUsage,
	} {
		if got := exitOf(err).code; got != want {
			t.Errorf("%v: exit code %d, want %d", err, got, want)
		}
	}
}
