//go:build !race

package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// command is one command of a page.
type command struct {
	line string   // as the page shows it, without its prompt
	env  []string // variables that are set for it: "RANKS=2"
	args []string // the program and its arguments
}

// programs lists the programs that pages call, and how a test runs each. It returns what went wrong, or "".
var programs map[string]func(c runner, cmd command) string

func init() { // not in the declaration, because the functions use the map
	programs = map[string]func(c runner, cmd command) string{
		"kernbench": runner.kernbench,
		"make":      runner.make,
		"go":        runner.goTool,
		"mpirun":    runner.inside, "mpiexec": runner.inside, "srun": runner.inside, "torchrun": runner.inside,
		"cc": runner.shell, "head": runner.shell, "sed": runner.shell, "seq": runner.shell, "mkdir": runner.shell,
	}
}

// unrunnable lists the commands that no test can run, by their beginning, and why. Each must occur in some page.
var unrunnable = map[string]string{
	"sbatch ":                      "needs a Slurm cluster; the tests of internal/process start real Slurm jobs",
	"srun --kill-on-bad-exit=1":    "the last line of the job for sbatch",
	"head=$(scontrol ":             "a line of the job for sbatch",
	"#!/bin/bash":                  "a line of the job for sbatch",
	"kubectl ":                     "needs Kubernetes; TestJobSetSchema checks the manifest, and TestDist runs it",
	"mpirun -n 16 --hostfile":      "needs the hosts of the reader",
	"mpiexec -f hosts -n 16 ./osu": "needs the hosts of the reader",
	"podman ":                      "needs podman; TestDist runs the image with crun",
	"mpicc ":                       "needs a compiler for MPI, which make bench-collectives calls",
	"pip install ":                 "TestDist installs the wheel",
	"curl ":                        "needs the web server of the line before; the tests of the web page send this header",
	"bin/gemm.test ":               "make gemm-test builds it; it needs AMX",
	"cp /path/to/kernbench":        "TestUsersOwnModule of package bench makes such a module",
	"go mod ":                      "TestUsersOwnModule of package bench makes such a module",
	"go run . list":                "TestUsersOwnModule of package bench makes such a module",
}

// isCommands reports whether a block has commands. Blocks that are only indented have commands, too.
func isCommands(b golden.Block) bool { return b.Kind == "sh" || b.Kind == "console" || b.Kind == "" }

// commandsOf returns the commands of a block, whose long lines may be continued by a backslash.
func commandsOf(b golden.Block) (out []command) {
	text := strings.ReplaceAll(b.Text, "\\\n", " ")
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimPrefix(strings.TrimSpace(line), "$ "); line != "" {
			out = append(out, parseCommand(line))
		}
	}
	return out
}

var assignment = regexp.MustCompile(`^[A-Z_]+=`)

func parseCommand(line string) command {
	c := command{line: line, args: words(line)}
	for len(c.args) > 1 && assignment.MatchString(c.args[0]) {
		c.env, c.args = append(c.env, c.args[0]), c.args[1:]
	}
	for _, timer := range [][]string{{"time"}, {"/usr/bin/time", "-v"}} {
		if len(c.args) > len(timer) && slices.Equal(c.args[:len(timer)], timer) {
			c.args = c.args[len(timer):]
		}
	}
	return c
}

// reasonNotToRun returns why a command cannot be run, or "".
func (c command) reasonNotToRun() (prefix, reason string) {
	for prefix, reason := range unrunnable {
		if strings.HasPrefix(c.line, prefix) {
			return prefix, reason
		}
	}
	return "", ""
}

// known reports whether a test runs the command.
func (c command) known() bool {
	if _, reason := c.reasonNotToRun(); reason != "" {
		return true
	}
	return len(c.args) > 0 && (programs[c.args[0]] != nil || isScript(c.args[0]))
}

func isScript(program string) bool { return strings.HasPrefix(program, "scripts/") }

// runner runs commands in a folder that stage has made.
type runner struct {
	t   *testing.T
	dir string
}

// check runs a command and returns what went wrong, or "".
func (c runner) check(cmd command) string {
	c.t.Helper()
	if _, reason := cmd.reasonNotToRun(); reason != "" {
		return ""
	}
	if !cmd.known() {
		return "no test knows how to run it"
	}
	if isScript(cmd.args[0]) {
		return failure(exec.Command("bash", "-n", filepath.Join("../..", cmd.args[0])))
	}
	return programs[cmd.args[0]](c, cmd)
}

func failure(cmd *exec.Cmd) string {
	if out, err := cmd.CombinedOutput(); err != nil {
		return err.Error() + "\n" + string(out)
	}
	return ""
}

// expectedStatus matches a comment that names the exit status of a command.
var expectedStatus = regexp.MustCompile(`# exit status ([0-9]+)`)

// kernbench runs sweeps and studies with --plan, which checks the file, flags, names and expressions. Launches on
// several nodes only have their flags checked. Other commands run.
func (c runner) kernbench(cmd command) string {
	args := lists.Map(cmd.args, func(arg string) string { return strings.ReplaceAll(arg, "~/", c.dir+"/") })
	if len(args) > 1 && args[1] == "launch" {
		if at := slices.Index(args, "--"); at > 0 && !slices.Contains(args, "--standalone") {
			if code, out := invoke(c.t, c.dir, append(slices.Clone(args[:at]), "--help")...); code != 0 {
				return out
			}
			if args = args[at+1:]; args[0] != "kernbench" || args[1] == "probe" {
				return ""
			}
		}
	}
	code, out := execute(c.t, c.dir, args)
	if m := expectedStatus.FindStringSubmatch(cmd.line); m != nil {
		if fmt.Sprint(code) != m[1] {
			return fmt.Sprintf("exit status %d\n%s", code, out)
		}
		return ""
	}
	switch {
	case code == 0:
		return ""
	case code != 2 && slices.Contains([]string{"ab", "compare", "baseline"}, args[1]): // a verdict about noise
		return ""
	case code == 1 && args[1] == "selftest" && strings.Contains(out, "opening NVIDIA driver"):
		return ""
	case code == 1 && args[1] == "import" && slices.Contains(args, "--claims"): // claims that are refuted
		return ""
	}
	return out
}

// make checks that make knows the target and everything that it depends on.
func (c runner) make(cmd command) string {
	dry := exec.Command("make", append([]string{"-n", "-C", "../.."}, cmd.args[1:]...)...)
	dry.Env = append(os.Environ(), cmd.env...)
	return failure(dry)
}

// goTool runs programs of this module, and checks that the tests and packages of other commands exist.
func (c runner) goTool(cmd command) string {
	switch args := cmd.args[1:]; args[0] {
	case "run":
		if args[1] == "./cmd/kernbench" {
			return c.kernbench(command{line: cmd.line, args: append([]string{"kernbench"}, args[2:]...)})
		}
		if len(args) > 2 && args[2] == "run" && !slices.Contains(args, "--help") {
			args = append(args, "--plan")
		}
		program := filepath.Join(c.dir, filepath.Base(args[1])+".program")
		if fault := failure(exec.Command("go", "build", "-o", program, filepath.Join("../..", args[1]))); fault != "" {
			return fault
		}
		run := exec.Command(program, args[2:]...)
		run.Dir = c.dir
		return failure(run)
	case "test":
		return c.goTest(args[1:])
	case "build":
		if _, err := os.Stat(filepath.Join("../..", args[len(args)-1])); err != nil {
			return err.Error()
		}
		return ""
	}
	return "go " + cmd.args[1] + " is not known"
}

// goTest checks that the packages of a `go test` command exist, and that they have what it names.
func (c runner) goTest(args []string) string {
	var packages []string
	var names []string
	for i, arg := range args {
		switch {
		case strings.HasPrefix(arg, "./") || arg == ".":
			packages = append(packages, arg)
		case i > 0 && slices.Contains([]string{"-run", "-bench", "-fuzz"}, args[i-1]) && !strings.EqualFold(arg, "xxx"):
			names = append(names, arg)
		}
	}
	if len(packages) == 0 {
		return "it names no package"
	}
	var source strings.Builder
	for _, p := range packages {
		found, err := filepath.Glob(filepath.Join("../..", p, "*_test.go"))
		if err != nil || len(found) == 0 {
			return p + " has no tests"
		}
		for _, f := range found {
			text, err := os.ReadFile(f)
			if err != nil {
				return err.Error()
			}
			source.Write(text)
		}
	}
	for _, name := range names {
		name, _, _ = strings.Cut(name, "/")
		if !regexp.MustCompile(`\nfunc (Test|Benchmark|Fuzz)\w*` + strings.TrimPrefix(name, "Test")).MatchString(source.String()) {
			return "there is no test " + name
		}
	}
	return ""
}

// inside runs the kernbench command that a launcher of other programs starts.
func (c runner) inside(cmd command) string {
	at := slices.Index(cmd.args, "kernbench")
	if at < 0 {
		return "it starts another program"
	}
	return c.kernbench(command{line: cmd.line, args: cmd.args[at:]})
}

// shell runs a line as it is, with the folder as its home.
func (c runner) shell(cmd command) string {
	sh := exec.Command("sh", "-ec", cmd.line)
	sh.Dir = c.dir
	sh.Env = append(os.Environ(), "HOME="+c.dir)
	return failure(sh)
}

// TestEveryBlockIsChecked demands of every block of code in the documentation that a test checks it: commands by
// running them, outputs by comparing them with real ones, and sources by the test that uses them.
func TestEveryBlockIsChecked(t *testing.T) {
	tests := testSources(t)
	used := map[string]bool{}
	count := map[string]int{}
	for name, text := range documents(t) {
		if filepath.Ext(name) != ".md" {
			continue
		}
		blocks := golden.Blocks(name, text)
		for i, b := range blocks {
			count[b.Kind]++
			if b.Kind == "output" && b.Of == "" && isWalkthrough(name, text) {
				continue // TestGuides
			}
			if fault := unchecked(b, blocks[:i], tests, used); fault != "" {
				t.Errorf("%s: %s", b, fault)
			}
		}
	}
	for what := range unrunnable {
		if !used[what] {
			t.Errorf("no page has a command that begins with %q: remove it from the list", what)
		}
	}
	for what := range sources {
		if !used[what] {
			t.Errorf("no page has a block %q: remove it from the list", what)
		}
	}
	for _, planted := range []golden.Block{
		{Text: "ring  1.5 us\n"}, {Kind: "text", Text: "ring  1.5 us\n"}, {Kind: "go", Text: "x := 1\n"},
		{Kind: "output", Text: "ring  1.5 us\n"}, {Kind: "output", Of: "by no-such-test"},
		{Kind: "sh", Text: "nccl-tests -b 8\n"},
		{Kind: "formula", Text: "kernbench run --bench x\n"},
	} {
		if unchecked(planted, nil, tests, map[string]bool{}) == "" {
			t.Errorf("the block %+v counts as checked", planted)
		}
	}
	if count["sh"] < 80 || count["output"] < 30 {
		t.Errorf("only %v blocks were found: has the form of the documents changed?", count)
	}
}

// sources lists, by page and kind of block, the tests that check blocks of sources, and the pages on which blocks of
// formulas and diagrams explain something.
var sources = map[string]string{
	"README.md yaml":                                  "TestDocumentedSweeps",
	"docs/accelerator-kernels.md go":                  "TestDocs",
	"docs/accelerator.md go":                          "TestDocumentedSpawn",
	"docs/accelerator.md yaml":                        "TestDocumentedKeys",
	"docs/dist.md go":                                 "TestDistPage",
	"docs/guides/python-and-triton.md python":         "TestPythonPages",
	"docs/guides/sweep-environment-variables.md yaml": "TestDocumentedSweeps",
	"docs/journal-schema.md json":                     "TestSchemaDocExamples",
	"docs/journal-schema.md sh":                       "TestSchemaDocCommands",
	"docs/migrating.md python":                        "TestPythonPages",
	"docs/models.md yaml":                             "TestDocumentedClaims",
	"docs/protocol.md json":                           "TestDocumentedBench",
	"docs/python.md python":                           "TestPythonPages",
	"docs/results/2026-11-16-python.md python":        "TestPythonPages",
	"docs/sweep-format.md yaml":                       "TestDocumentedSweeps",
	"docs/writing-benches.md go":                      "TestGuideShowsTheExample",
}

// unchecked returns why no test checks a block, or "". before are the blocks above it on its page.
func unchecked(b golden.Block, before []golden.Block, tests string, used map[string]bool) string {
	if test := sources[b.Page+" "+b.Kind]; test != "" {
		used[b.Page+" "+b.Kind] = true
		if !strings.Contains(tests, "\nfunc "+test+"(") {
			return "there is no test " + test
		}
		return ""
	}
	switch b.Kind {
	case "sh", "console", "":
		for _, c := range commandsOf(b) {
			if !c.known() {
				return "no test runs this line; an output needs a fence with \"output\": " + c.line
			}
			prefix, _ := c.reasonNotToRun()
			used[prefix] = true
		}
		return ""
	case "output":
		return uncheckedOutput(b, before, tests)
	case "formula", "diagram":
		if strings.Contains(b.Text, "kernbench ") && b.Kind == "formula" || strings.Contains(b.Text, "$ ") {
			return "a " + b.Kind + " that looks like a command"
		}
		return ""
	case "message": // TestQuotedMessages
		return ""
	}
	if b.Of != "" { // a file: written for the commands of its page, or compared with a file of this name
		return ""
	}
	return "no test checks a block of kind " + b.Kind
}

// uncheckedOutput returns why no test compares an output, or "".
func uncheckedOutput(b golden.Block, before []golden.Block, tests string) string {
	by, name, _ := strings.Cut(b.Of, " ")
	switch {
	case b.Of == "":
		if _, ok := printer(before); !ok {
			return "an output needs a command: in its fence, or in the block before it"
		}
	case by == golden.NamedBy:
		if !strings.Contains(tests, "golden.Shown(t, \""+name+"\"") &&
			!strings.Contains(tests, "golden.ShownMasked(t, \""+name+"\"") {
			return "no test calls golden.Shown(t, \"" + name + "\", ...)"
		}
	}
	return "" // TestOutputs runs the command in the fence
}

// testSources returns the text of all tests of the module.
func testSources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.WriteString("\n")
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
