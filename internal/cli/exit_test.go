package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/cli/terminal"
)

// execute runs a command line in this process, and returns its exit code and output.
func execute(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	still := bench.New("still", func(context.Context, *bench.State) error { return nil }, bench.Ints("i", "1,2"),
		bench.Profile("small", "i=1"))
	other := bench.New("other", func(context.Context, *bench.State) error { return nil }, bench.Ints("i", "1,2"),
		bench.Option("fast", bench.KindBool, "false", "a switch"))
	a := &app{name: "kernbench", benches: []*bench.Bench{still, other}, args: commandFirst(args),
		stdout: texttab.ForTerminal(&out), stderr: texttab.ForTerminal(&errs), output: terminal.NewOutput(io.Discard),
		streams: [2]io.Writer{&out, &errs}}
	code = a.run(t.Context())
	return code, out.String(), errs.String()
}

// Every exit code is one that the command declares, and that its help lists.
func TestExitCodes(t *testing.T) {
	outputs := must.Get(filepath.Abs("../../cmd/kernbench/testdata/outputs"))(t)
	t.Chdir(t.TempDir())
	for _, run := range []string{"memory", "nightly", "planted", "topologies", "ab/old", "ab/new"} {
		must.Do(t, os.CopyFS(run, os.DirFS(filepath.Join(outputs, run))))
	}
	must.Do(t, os.CopyFS("damaged", os.DirFS("ab/old")))
	path := "damaged/journal.jsonl"
	text := must.Get(os.ReadFile(path))(t)
	must.Do(t, os.WriteFile(path, []byte(strings.Replace(string(text), `"trial":`, `"trial": `, 1)), 0o600))
	must.Do(t, os.WriteFile("empty.log", nil, 0o600))
	root := must.Get((&app{name: "kernbench"}).root(context.Background()))(t)
	for _, c := range []struct {
		args string
		want int
	}{
		{"", 0}, {"version", 0}, {"list", 0}, {"list still", 0}, {"list stil", 2}, {"list --all still", 2}, {"--version", 0},
		{"show memory", 0}, {"show nowhere", 2}, {"show memory --only size==", 2}, {"show memory --sort nothing", 2},
		{"runs memory", 0}, {"runs memory --tag none", 2}, {"samples memory --only size<0", 2},
		{"verify ab/old", 0}, {"verify memory", 1}, {"verify damaged", 1}, {"verify nowhere", 2},
		{"tag memory", 2}, {"tag memory mine", 0}, {"tag memory mine --remove", 0}, {"tag memory mine --remove", 2},
		{"compare ab/old ab/new", 1}, {"compare ab/new ab/new", 3}, {"compare topologies topologies", 0},
		{"compare memory planted", 2},
		{"compare memory memory --floor 0", 2}, {"compare memory --by sise", 2}, {"compare memory memory --by size", 2},
		{"compare memory memory --format tabel", 2}, {"history nightly", 0}, {"history nowhere", 2},
		{"baseline", 2}, {"baseline chek", 2}, {"baseline check memory", 2}, {"baseline check memory --update", 3},
		{"baseline check memory", 2}, {"baseline save memory --last 0", 2}, {"baseline save memory", 0},
		{"speedup ab/old ab/new --least 0", 2}, {"speedup ab/old", 2},
		{"report memory", 0}, {"report memory --all-builds", 2}, {"report memory -o page.txt", 2}, {"why memory none-1", 2},
		{"import --as nccl-tests empty.log --out i", 2}, {"import --as xml empty.log --out i", 2}, {"import empty.log", 2},
		{"predict fit empty.log --out c.yaml", 2}, {"predict fit empty.log --out empty.log", 2},
		{"docs tutorial", 0}, {"docs tutorail", 2}, {"docs --search xyzzyx", 1}, {"man", 2}, {"man man1", 0},
		{"init python --dir first", 0}, {"init python --dir first", 2}, {"init rust", 2}, {"completion bash", 0},
		{"completion bsh", 2}, {"help show", 0}, {"help shwo", 2}, {"doctor --format xml", 2}, {"probe --cores 1", 2},
		{"python", 2}, {"web nowhere", 2}, {"web . --addr nowhere", 2}, {"selftest --launcher mpirun", 2},
		{"launch", 2}, {"launch --nnodes 1:4 -- true", 2}, {"launch --nproc-per-node many -- true", 2},
		{"run still --plan", 0}, {"run --bench still --render-only", 1}, {"run stil --plan", 2}, {"run", 2},
		{"run still --retry-failed", 2}, {"run still --profile big --plan", 2}, {"run still --profile small --plan", 0},
		{"run still --min-time 2s --max-time 1s", 2}, {"run still --heartbeat 1ms", 2}, {"ab a.yaml b.yaml --trials 0", 2},
		{"tune still", 2}, {"tune still --minimise a --maximise b", 2}, {"--max-input lots version", 2},
		{"--max-input 1G run still --plan", 0}, {"run --i 1 still --plan", 0}, {"run --fast other --plan", 0},
		{"run --i 1 -- still", 2}, {"run still other --plan", 2}, {"run -q still --plan", 0}, {"run -f nowhere.yaml", 2},
	} {
		code, out, errs := execute(t, strings.Fields(c.args)...)
		if code != c.want {
			t.Errorf("%s: exit code %d, want %d: %s%s", c.args, code, c.want, out, errs)
		}
		if code == exitUsage && !strings.Contains(errs, "\nSee 'kernbench") {
			t.Errorf("%s: the error names no help: %s", c.args, errs)
		}
		if cmd, _, err := root.Find(commandFirst(strings.Fields(c.args))); err == nil && cmd != root &&
			cmd.Name() != "completion" && cmd.Name() != "help" && cmd.Parent().Name() != "completion" &&
			!slices.Contains(strings.Fields(exitStatus(cmd)), strconv.Itoa(code)) {
			t.Errorf("%s: the exit code %d is not declared: %s", c.args, code, exitStatus(cmd))
		}
	}
}

// The help of every command ends in its exit codes.
func TestHelpListsExitCodes(t *testing.T) {
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		if c.HasParent() && c.Name() != "completion" && c.Parent().Name() != "completion" && c.Name() != "help" &&
			!strings.HasSuffix(c.Long, "\n\n"+exitStatus(c)) {
			t.Errorf("%s: %s", c.CommandPath(), c.Long)
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(must.Get((&app{name: "kernbench"}).root(context.Background()))(t))
	for name, want := range map[string]string{"selftest": "1 a check failed, 2 wrong usage, 130 interrupted.",
		"compare": "3 ambiguous or not", "tune": "130 interrupted (the best", "version": "0 good, 1 failed, 2 wrong usage"} {
		_, text, _ := execute(t, name, "--help")
		if !strings.Contains(strings.ReplaceAll(text, "\n", " "), want) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// Errors of flags say what was given and what is right, and suggest the nearest name.
func TestFlagErrors(t *testing.T) {
	for args, want := range map[string]string{
		"run still --trails 3":        `unknown flag "--trails", did you mean "--trials"? (the bench has --i)`,
		"run --fats":                  `unknown flag "--fats"`,
		"run --fast":                  `unknown flag "--fast": only other has it, so name the bench: 'run other --fast ...'`,
		"run still --i 1 --i 2":       "given twice: give all values in one list: 1,2",
		"run other --fast=maybe":      "fast",
		"run still --trials 0":        `--trials "0": want a whole number of at least 1`,
		"run still --trials":          "--trials: missing value",
		"run still --retries -1":      "--retries -1: want a whole number of at least 0",
		"run still --timeout 3":       `--timeout "3": want a time such as 90s, 2m or 500ms`,
		"run still --env A":           `--env "A": want NAME=SPEC, such as NCCL_PROTO=LL,Simple,-`,
		"run still --noise 2":         "want a fraction of the median from 0% to below 100%",
		"run still --backend cpus":    `unknown backend "cpus", did you mean "cpu"?`,
		"run still --cache clod":      `unknown cache state "clod", did you mean "cold"?`,
		"run still --launcher mpirum": "--launcher mpirum: no such program",
		"run still --seed x":          `--seed "x": want a whole number, 0 or more`,
		"run --i 1":                   `only some benches have it (still, other), so name one: 'run still --i ...'`,
		"run still --tag a,b":         "--tag",
		"show m --formt csv":          `unknown flag "--formt"`,
		"show m -x":                   `unknown flag "-x"`,
		"compare a b --floor x":       `--floor "x": want a number`,
		"launch --redirects 9 -- x":   "--redirects",
		"launch --tee x:1 -- x":       "--tee",
		"launch --rdzv-conf a -- x":   `--rdzv-conf "a": want KEY=VALUE,KEY=VALUE`,
		"launch --grace 0s -- x":      "--grace 0s: want a time above 0",
		"launch --nnodes 2 -- x":      "2 nodes need an address to meet",
	} {
		if code, _, errs := execute(t, strings.Fields(args)...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d: %s\nwant %s", args, code, errs, want)
		}
	}
}
