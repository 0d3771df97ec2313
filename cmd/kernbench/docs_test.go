//go:build !race

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
)

// flagsOnly lists the commands whose examples in help texts name files of the reader, or take a minute. Only their
// flags are checked. Other pages have runs of them.
var flagsOnly = []string{"launch", "predict", "probe", "selftest", "speedup"}

// TestDocumentedCommands runs every command in the documents, see runner.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	c := runner{t, stage(t)}
	commands := 0
	pages := documents(t)
	for _, name := range slices.Sorted(maps.Keys(pages)) { // a page may see the runs of the pages before it
		text := pages[name]
		if isWalkthrough(name, text) {
			continue // TestGuides runs them
		}
		writeFileBlocks(t, c.dir, text)
		for _, cmd := range commandsIn(name, text) {
			if !cmd.known() {
				continue // TestEveryBlockIsChecked reports it
			}
			commands++
			if name == "docs/commands.md" && slices.Contains(flagsOnly, cmd.args[1]) {
				cmd.args = append(cmd.args[:slices.Index(append(cmd.args, "--"), "--")], "--help")
			}
			if fault := c.check(cmd); fault != "" {
				t.Errorf("%s: %s: %s", name, cmd.line, fault)
			}
		}
	}
	if commands < 200 {
		t.Errorf("only %d commands were found: has the form of the documents changed?", commands)
	}
	assertRotFound(t, c)
}

// TestHelpExamples runs the examples in help texts that docs/commands.md does not have.
func TestHelpExamples(t *testing.T) {
	t.Parallel()
	c := runner{t, stage(t)}
	for _, command := range []string{"", "run --bench memory", "run --bench solve-scaling"} {
		examples := helpExamples(t, c.dir, command)
		if len(examples) == 0 {
			t.Errorf("the help of %q has no example", command)
		}
		for _, line := range examples {
			if fault := c.check(parseCommand(line)); fault != "" {
				t.Errorf("help of %s: %s: %s", command, line, fault)
			}
		}
	}
}

// commandsIn returns the commands of a document: of its blocks of commands, or of the steps of a workflow.
func commandsIn(name, text string) (out []command) {
	if filepath.Ext(name) != ".md" {
		for _, line := range workflowLines(text) {
			out = append(out, parseCommand(line))
		}
		return out
	}
	for _, b := range golden.Blocks(name, text) {
		if sources[b.Page+" "+b.Kind] == "" && isCommands(b) {
			out = append(out, commandsOf(b)...)
		}
	}
	return out
}

// isWalkthrough reports whether TestGuides runs the commands of a document for real: of the tutorial, and of guides
// that lead to a figure.
func isWalkthrough(name, text string) bool {
	return name == "docs/tutorial.md" || strings.HasPrefix(name, "docs/guides/") && figureLink.MatchString(text)
}

var (
	figureLink  = regexp.MustCompile(`!\[[^\]]{20,}\]\(`)
	writtenFile = regexp.MustCompile("`([a-z_./]+\\.(?:png|html|xml|md))`")
	fileBlock   = regexp.MustCompile("(?ms)^```[a-z]+ ([a-z.]+)\n(.*?)^```")
)

// TestGuides runs all commands of the tutorial and of each guide with a figure, one after the other, in an empty
// folder. It checks that they write the files that the text mentions, and that they print its output blocks.
func TestGuides(t *testing.T) {
	t.Parallel()
	guides := 0
	for name, text := range documents(t) {
		if isWalkthrough(name, text) {
			guides++
			walk(t, name, text)
		}
	}
	if guides != 6 {
		t.Errorf("%d documents, want the tutorial and five guides", guides)
	}
}

// walk follows a document in an empty folder.
func walk(t *testing.T, name, text string) {
	t.Helper()
	dir := t.TempDir()
	writeFileBlocks(t, dir, text)
	var printed strings.Builder
	for _, cmd := range commandsIn(name, text) {
		line, args := cmd.line, cmd.args
		if args[0] != "kernbench" {
			args = []string{"sh", "-c", line}
		} else if args[1] == "web" {
			serveWeb(t, dir, args[2:]...)
			continue
		}
		code, out := invoke(t, dir, args...)
		printed.WriteString(out)
		// The exit codes of compare and check depend on how busy the machine is; 3 means ambiguous.
		judges := len(args) > 1 && slices.Contains([]string{"ab", "compare", "baseline"}, args[1])
		want := 0
		if m := expectedStatus.FindStringSubmatch(line); m != nil {
			want = must.Get(strconv.Atoi(m[1]))(t)
		}
		if code != want && (code == 2 || !judges) {
			t.Fatalf("%s: %s: exit code %d\n%s", name, line, code, out)
		}
	}
	files := writtenFile.FindAllStringSubmatch(text, -1)
	for _, m := range files {
		if !exists(filepath.Join(dir, m[1])) {
			t.Errorf("%s names %s, which its commands do not write", name, m[1])
		}
	}
	if len(files) == 0 {
		t.Errorf("%s leads to no file", name)
	}
	for _, b := range golden.Blocks(name, text) {
		if b.Kind == "output" && b.Of == "" {
			if fault := b.Differs(printed.String(), golden.Masked); fault != "" {
				t.Errorf("%s: %s", b, fault)
			}
		}
	}
}

// writeFileBlocks writes the files that a document shows.
func writeFileBlocks(t *testing.T, dir, text string) {
	t.Helper()
	for _, m := range fileBlock.FindAllStringSubmatch(text, -1) {
		must.Do(t, os.WriteFile(filepath.Join(dir, m[1]), []byte(m[2]), 0o600))
	}
}

// TestOutputs compares the output blocks of the documents with real outputs. The command stands behind the word
// "output", or in the block before; then numbers may differ. It runs in a folder with the runs of testdata/outputs and
// of docs/results, from which measured times come.
func TestOutputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, os.CopyFS(dir, os.DirFS("testdata/outputs")))
	for _, name := range []string{"examples", "docs", "internal"} {
		must.Do(t, os.Symlink(must.Get(filepath.Abs("../../"+name))(t), filepath.Join(dir, name)))
	}
	blocks := 0
	for name, text := range documents(t) {
		all := golden.Blocks(name, text)
		for i, b := range all {
			if b.Kind != "output" || strings.HasPrefix(b.Of, golden.NamedBy+" ") || b.Of == "" && isWalkthrough(name, text) {
				continue
			}
			blocks++
			if b.Of != "" {
				if fault := b.Differs(printed(t, dir, parseCommand("kernbench "+b.Of)), golden.Exact); fault != "" {
					t.Errorf("%s: kernbench %s: %s", b, b.Of, fault)
				}
				continue
			}
			cmd, _ := printer(all[:i])
			if cmd.args[0] == "kernbench" && cmd.args[1] == "launch" { // the lines of ranks arrive in any order
				b.Text = sorted(b.Text)
			}
			if fault := b.Differs(printed(t, dir, cmd), golden.Masked); fault != "" {
				t.Errorf("%s: %s: %s", b, cmd.line, fault)
			}
		}
	}
	if blocks < 20 {
		t.Errorf("only %d blocks were found: has the form of the documents changed?", blocks)
	}
}

// printer returns the command whose output follows the given blocks: the last one of the last block.
func printer(before []golden.Block) (cmd command, ok bool) {
	if len(before) == 0 || !isCommands(before[len(before)-1]) {
		return command{}, false
	}
	commands := commandsOf(before[len(before)-1])
	if len(commands) > 0 {
		cmd = commands[len(commands)-1]
	}
	return cmd, len(cmd.args) > 1 && slices.Contains([]string{"kernbench", "go"}, cmd.args[0])
}

// printed returns what a command prints. The lines of a job are sorted.
func printed(t *testing.T, dir string, cmd command) string {
	t.Helper()
	args := cmd.args
	if args[0] == "go" {
		args = append([]string{buildProgram(t, dir, args[2])}, args[3:]...)
	}
	_, out := invoke(t, dir, args...)
	if len(args) > 1 && args[1] == "launch" {
		return sorted(out)
	}
	return out
}

func sorted(text string) string {
	lines := strings.SplitAfter(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// buildProgram builds a program of this module in the folder.
func buildProgram(t *testing.T, dir, pkg string) string {
	t.Helper()
	program := filepath.Join(dir, filepath.Base(pkg)+".program")
	if out, err := exec.Command("go", "build", "-o", program, filepath.Join("../..", pkg)).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// documents returns the texts of all documents by name: of the pages, and of the example sweeps and workflows.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	add := func(path string) {
		name := must.Get(filepath.Rel("../..", path))(t)
		texts[filepath.ToSlash(name)] = string(must.Get(os.ReadFile(path))(t))
	}
	for _, pattern := range []string{"../../examples/*.yaml", "../../examples/ci/*.yaml"} {
		for _, path := range must.Get(filepath.Glob(pattern))(t) {
			add(path)
		}
	}
	for page := range golden.Pages(t) {
		add(filepath.Join("../..", page))
	}
	return texts
}

// TestDocumentedTargets checks that the make targets and files that documents mention exist.
func TestDocumentedTargets(t *testing.T) {
	makefile := must.Get(os.ReadFile("../../Makefile"))(t)
	targets, links := 0, 0
	for name, text := range documents(t) {
		for _, m := range regexp.MustCompile("(?m)(?:^ {4}|`)(?:time )?make ([a-z][a-z-]*)").FindAllStringSubmatch(text, -1) {
			if targets++; !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("%s names make %s, which the Makefile lacks", name, m[1])
			}
		}
		prose := regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(text, "")
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`).FindAllStringSubmatch(prose, -1) {
			if links++; !exists(filepath.Join("../..", filepath.Dir(name), m[1])) {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			}
		}
	}
	if targets < 10 || links < 30 {
		t.Errorf("only %d targets and %d links were found: has the form of the documents changed?", targets, links)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// assertRotFound checks that the test finds planted errors.
func assertRotFound(t *testing.T, c runner) {
	t.Helper()
	for _, line := range []string{
		"kernbench run --bench memroy", "kernbench run --bench memory --seize 1K", "kernbench shwo out/memory",
		"kernbench run -f examples/gone.yaml", "kernbench run --bench memory --only 'sise>1'",
		"kernbench show out/memory --format cvs", "make no-such-target", "go test ./internal/gone", "go test -run NoSuch .",
		"go run ./examples/gone", "scripts/gone.sh", "mpirun -n 2 kernbench run --bench memroy", "cc gone.c", "unknown x",
		"kernbench launch --nnodes 2 --no-such-flag -- x", "kernbench launch --nnodes 2 -- kernbench run --bench memroy",
	} {
		if c.check(parseCommand(line)) == "" {
			t.Errorf("%s: accepted", line)
		}
	}
	text := "```sh\n$ kernbench list # all\nRANKS=2 make \\\n  x\n```\nkernbench no\n```yaml\nkernbench: no\n```\n"
	var lines []string
	for _, cmd := range commandsIn("page.md", text) {
		lines = append(lines, strings.Join(append(cmd.env, cmd.args...), " "))
	}
	if !slices.Equal(lines, []string{"kernbench list", "RANKS=2 make x"}) {
		t.Errorf("lines %q", lines)
	}
	if got := words(`kernbench run --only 'a b' --env "X=1" # no > more`); !slices.Equal(got,
		[]string{"kernbench", "run", "--only", "a b", "--env", "X=1"}) {
		t.Errorf("words %q", got)
	}
}

// workflowLines returns the kernbench commands in the steps of a workflow.
func workflowLines(text string) (lines []string) {
	if strings.Contains(text, "\njobs:\n") {
		for _, m := range regexp.MustCompile(`(?m)^ +(?:run: )?(kernbench .*?)(?: \|\| .*)?$`).FindAllStringSubmatch(text,
			-1) {
			lines = append(lines, m[1])
		}
	}
	return lines
}

// helpExamples returns the commands under "Examples:" in a help text.
func helpExamples(t *testing.T, dir, command string) (lines []string) {
	t.Helper()
	code, out := invoke(t, dir, words("kernbench "+command+" --help")...)
	if code != 0 {
		t.Errorf("%s --help: exit code %d", command, code)
	}
	_, rest, _ := strings.Cut(out, "Examples:\n")
	block, _, _ := strings.Cut(rest, "\n\n")
	for _, line := range strings.Split(block, "\n") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "kernbench ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// execute runs the arguments of a command line: sweeps and studies with --plan, and probe with --quick.
func execute(t *testing.T, dir string, args []string) (code int, out string) {
	t.Helper()
	if (args[1] == "run" || args[1] == "tune") && !slices.Contains(args, "--help") {
		args = append(slices.Clone(args), "--plan")
	}
	if args[1] == "probe" && !slices.Contains(args, "--help") {
		args = append(slices.Clone(args), "--quick")
	}
	if args[1] == "baseline" { // save and check --update change it: restore the staged one
		mark := filepath.Join(dir, "out/memory/baseline.json")
		staged := must.Get(os.ReadFile(mark))(t)
		defer os.WriteFile(mark, staged, 0o600)
	}
	if args[1] == "web" && !slices.Contains(args, "--help") { // it runs until it is stopped
		serveWeb(t, dir, args[2:]...)
		return 0, ""
	}
	return invoke(t, dir, args...)
}

func invoke(t *testing.T, dir string, args ...string) (code int, out string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "WORK="+dir, "KERNBENCH_PYTHON=/usr/bin/python3") // the Python that has torch
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// words splits a command line like a shell, up to a comment, a redirection or the next command.
func words(line string) (out []string) {
	for _, m := range regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`).FindAllString(line, -1) {
		if slices.Contains([]string{"#", ">", "|", "&&", ";"}, m) {
			break
		}
		// A quote of the other kind inside of a quoted text stays.
		out = append(out, regexp.MustCompile(`'([^']*)'|"([^"]*)"`).ReplaceAllString(m, "$1$2"))
	}
	return out
}

// TestFirstGoBench runs the program that `init go` writes.
func TestFirstGoBench(t *testing.T) {
	dir := t.TempDir()
	if code, out := invoke(t, dir, "kernbench", "init", "go"); code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	program := filepath.Join(dir, "first")
	if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", program,
		filepath.Join(dir, "main.go")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if code, out := invoke(t, dir, program, "run", "-q", "--bench", "first", "--count", "1K", "--ranks", "2", "--format",
		"csv"); code != 0 || !strings.Contains(out, "first,,2,cpu,1000,") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestUserBench checks that the example of a user's bench has the whole command line and starts
// workers.
func TestUserBench(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "userbench")
	build := exec.Command("go", "build", "-o", program, "../../examples/userbench")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if code, out := invoke(t, dir, program, "list"); code != 0 || !strings.Contains(out, "sort") {
		t.Errorf("list: exit code %d\n%s", code, out)
	}
	for ranks := 1; ranks <= 2; ranks++ {
		code, out := invoke(t, dir, program, "run", "-q", "--bench", "sort", "--count", "1K", "--ranks", fmt.Sprint(ranks),
			"--format", "csv")
		if code != 0 || !strings.Contains(out, fmt.Sprintf("sort,,%d,cpu,1000,", ranks)) {
			t.Errorf("run: exit code %d\n%s", code, out)
		}
	}
	if code, out := invoke(t, dir, program, "--help"); code != 0 ||
		!strings.Contains(out, "userbench run --bench sort --plan") || strings.Contains(out, "--bench memory") {
		t.Errorf("the help is about other benches: exit code %d\n%s", code, out)
	}
	code, out := invoke(t, dir, program, "run", "--bench", "sort", "--help")
	if code != 0 || !strings.Contains(out, "userbench run --bench") || !strings.Contains(out, "--count SPEC") {
		t.Errorf("help: exit code %d\n%s", code, out)
	}
	if code, _ := invoke(t, dir, program, "show", "out/sort@-1"); code != 0 {
		t.Errorf("show: exit code %d", code)
	}
}
