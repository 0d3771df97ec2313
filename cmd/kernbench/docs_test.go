//go:build !race

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// TestDocumentedCommands runs every kernbench command in the shell blocks of the documents and in
// the examples of help texts. Sweeps are only planned, which checks the file, flags, names and
// expressions. Other commands run on two small stored runs in each folder that they name.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	dir := stage(t)
	commands := 0
	for name, text := range documents(t) {
		if isWalkthrough(name, text) {
			continue // TestGuides runs them
		}
		writeFileBlocks(t, dir, text)
		for _, line := range shellLines(text) {
			commands++
			try(t, dir, name, line)
		}
	}
	if commands < 5 {
		t.Errorf("only %d commands were found: has the form of the documents changed?", commands)
	}
	for _, command := range []string{"", "list", "run", "run --bench memory", "run --bench solve-scaling", "tune", "show",
		"compare", "baseline", "baseline save", "baseline check", "init", "man", "report", "web", "doctor", "version"} {
		examples := helpExamples(t, dir, command)
		if len(examples) == 0 {
			t.Errorf("the help of %q has no example", command)
		}
		for _, line := range examples {
			try(t, dir, "help of "+command, line)
		}
	}
	assertRotFound(t, dir)
}

// isWalkthrough reports whether TestGuides runs the commands of a document for real: of the tutorial, and of guides
// that lead to a figure.
func isWalkthrough(name, text string) bool {
	return name == "docs/tutorial.md" || strings.HasPrefix(name, "docs/guides/") && figureLink.MatchString(text)
}

var (
	figureLink    = regexp.MustCompile(`!\[[^\]]{20,}\]\(`)
	writtenFile   = regexp.MustCompile("`([a-z_./]+\\.(?:png|html|xml|md))`")
	fileBlock     = regexp.MustCompile("(?ms)^```[a-z]+ ([a-z.]+)\n(.*?)^```")
	outputBlock   = regexp.MustCompile("(?ms)^```output ?([^\n]*)\n(.*?)^```")
	number        = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)
	blanks        = regexp.MustCompile(` +`)
	commandLine   = regexp.MustCompile("(?ms)^```(?:sh|console|bash|shell)\n(.*?)^```")
	expectFailure = "# exit status 1"
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
	for _, line := range scriptLines(text) {
		args := words(line)
		if args[0] != "kernbench" {
			args = []string{"sh", "-c", line}
		} else if args[1] == "web" {
			serveWeb(t, dir, args[2:]...)
			continue
		}
		code, out := invoke(t, dir, args...)
		printed.WriteString(out)
		// The exit codes of compare and check depend on how busy the machine is; 3 means ambiguous.
		judges := len(args) > 1 && (args[1] == "compare" || args[1] == "baseline")
		if want := strings.Count(line, expectFailure); code != want && (code == 2 || !judges) {
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
	for _, line := range unprinted(text, printed.String()) {
		t.Errorf("%s shows a line that its commands do not print: %s", name, line)
	}
}

// writeFileBlocks writes the files that a document shows.
func writeFileBlocks(t *testing.T, dir, text string) {
	t.Helper()
	for _, m := range fileBlock.FindAllStringSubmatch(text, -1) {
		must.Do(t, os.WriteFile(filepath.Join(dir, m[1]), []byte(m[2]), 0o600))
	}
}

// TestOutputs runs the command beside the word "output" at the top of a block, in a folder with the runs of
// testdata/outputs. The command must print every line of the block exactly. Measured times come from the stored runs.
func TestOutputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, os.CopyFS(dir, os.DirFS("testdata/outputs")))
	must.Do(t, os.Symlink(must.Get(filepath.Abs("../../examples"))(t), filepath.Join(dir, "examples")))
	blocks := 0
	for name, text := range documents(t) {
		for _, m := range outputBlock.FindAllStringSubmatch(text, -1) {
			if m[1] == "" {
				continue // the output of the page's own commands, see TestGuides
			}
			blocks++
			_, printed := invoke(t, dir, append([]string{"kernbench"}, words(m[1])...)...)
			for _, line := range missing(m[2], printed, strings.TrimSpace) {
				t.Errorf("%s shows a line that `kernbench %s` does not print: %s\n%s", name, m[1], line, printed)
			}
		}
	}
	if blocks < 10 {
		t.Errorf("only %d blocks were found: has the form of the documents changed?", blocks)
	}
}

// unprinted returns the lines of a document's output blocks that its commands have not printed. Numbers may differ.
func unprinted(text, printed string) (lines []string) {
	for _, m := range outputBlock.FindAllStringSubmatch(text, -1) {
		if m[1] == "" {
			lines = append(lines, missing(m[2], printed, masked)...)
		}
	}
	return lines
}

// missing returns the lines of a block that do not occur in the printed text. Both are normalised first.
func missing(block, printed string, normalise func(string) string) (lines []string) {
	printed = normalise(printed)
	for _, line := range strings.Split(strings.TrimSpace(block), "\n") {
		if !strings.Contains(printed, normalise(line)) {
			lines = append(lines, line)
		}
	}
	return lines
}

// masked replaces numbers and runs of blanks, so that outputs of different runs can be compared.
func masked(text string) string {
	return blanks.ReplaceAllString(number.ReplaceAllString(text, "N"), " ")
}

// TestClusterCommands plans every `kernbench run` in docs/clusters.md. The scripts about joining run
// such commands under the real launchers.
func TestClusterCommands(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../docs/clusters.md"))(t)
	dir := stage(t)
	found := regexp.MustCompile(`(?m)^ {4,}(?:[^#\n]* )?(kernbench run .*)$`).FindAllStringSubmatch(string(text), -1)
	if len(found) < 8 {
		t.Errorf("only %d commands were found: has the form of the document changed?", len(found))
	}
	for _, f := range found {
		try(t, dir, "clusters.md", f[1])
	}
}

// documents returns the texts of all documents by name.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md", "../../examples/*.yaml",
		"../../examples/ci/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no documents %s: %v", pattern, err)
		}
		for _, path := range files {
			text := must.Get(os.ReadFile(path))(t)
			name, _ := filepath.Rel("../..", path)
			texts[name] = string(text)
		}
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
func assertRotFound(t *testing.T, dir string) {
	t.Helper()
	for _, line := range []string{
		"kernbench run --bench memroy", "kernbench run --bench memory --seize 1K", "kernbench shwo out/memory",
		"kernbench run -f examples/gone.yaml", "kernbench run --bench memory --only 'sise>1'",
		"kernbench show out/memory --format cvs",
	} {
		if code, _ := execute(t, dir, line); code != 2 {
			t.Errorf("%s: exit code %d", line, code)
		}
	}
	if got := shellLines("```sh\n$ kernbench list # all\nmake x\n```\nkernbench no\n```yaml\nkernbench: no\n```\n"); !slices.Equal(got, []string{"kernbench list # all"}) {
		t.Errorf("lines %q", got)
	}
	if got := unprinted("```output\nring  1.5\ntree 2\n```\n", "ring 12\nmesh 2\n"); !slices.Equal(got, []string{"tree 2"}) {
		t.Errorf("unprinted %q", got)
	}
	if got := words(`kernbench run --only 'a b' --env "X=1" # no > more`); !slices.Equal(got,
		[]string{"kernbench", "run", "--only", "a b", "--env", "X=1"}) {
		t.Errorf("words %q", got)
	}
}

// shellLines returns the kernbench commands in the shell blocks of a document, or in the steps of a
// workflow.
func shellLines(text string) (lines []string) {
	if strings.Contains(text, "\njobs:\n") {
		for _, m := range regexp.MustCompile(`(?m)^ +(?:run: )?(kernbench .*?)(?: \|\| .*)?$`).FindAllStringSubmatch(text,
			-1) {
			lines = append(lines, m[1])
		}
	}
	for _, line := range scriptLines(text) {
		if strings.HasPrefix(line, "kernbench ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// scriptLines returns the lines of a document's shell blocks, without prompts.
func scriptLines(text string) (lines []string) {
	for _, block := range commandLine.FindAllStringSubmatch(text, -1) {
		for _, line := range strings.Split(block[1], "\n") {
			if line = strings.TrimPrefix(strings.TrimSpace(line), "$ "); line != "" {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// helpExamples returns the commands under "Examples:" in a help text.
func helpExamples(t *testing.T, dir, command string) (lines []string) {
	t.Helper()
	code, out := execute(t, dir, "kernbench "+command+" --help")
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

// stage makes a folder with everything that documented commands refer to: the examples, a
// sweep.yaml, and folders with two runs that set a variable.
func stage(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	examples := must.Get(filepath.Abs("../../examples"))(t)
	must.Do(t, os.Symlink(examples, filepath.Join(dir, "examples")))
	compile := exec.Command("cc", "-O2", "-o", filepath.Join(dir, "copy"), "examples/python/copy.c")
	compile.Dir = dir
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const sweep = "name: sweep\ncommand: [echo, time=1us bw=1]\nranks: [2]\nenv: {A: [1, 2]}\nmetrics: {time_us: {regex: " +
		"'time=([0-9.]+)us'}, busbw: {regex: 'bw=([0-9.]+)'}}\n"
	for _, text := range []string{strings.Replace(sweep, "1us", "2us", 1), sweep} { // out/sweep has two builds
		must.Do(t, os.WriteFile(filepath.Join(dir, "sweep.yaml"), []byte(text), 0o600))
		if code, out := invoke(t, dir, "kernbench", "run", "-q", "-f", "sweep.yaml", "--remeasure", "0", "--trials",
			"1"); code > 1 {
			t.Fatalf("exit code %d: %s", code, out)
		}
	}
	const short = "name: short\ncommand: [echo, time=1us]\nmetrics: {time_us: {regex: 'time=([0-9.]+)us'}}\n"
	for _, side := range []string{"old", "new"} { // for compare --run
		must.Do(t, os.Mkdir(filepath.Join(dir, side), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(dir, side+".yaml"), []byte(short), 0o600))
		must.Do(t, os.WriteFile(filepath.Join(dir, side, "prog"), []byte("#!/bin/sh\n"), 0o700))
	}
	for range 2 {
		if code, out := invoke(t, dir, "kernbench", "run", "-q", "--bench", "memory", "--size", "16K,64K", "--op", "copy",
			"--ranks", "1", "--env", "NCCL_MIN_CTAS=4"); code != 0 {
			t.Fatalf("exit code %d: %s", code, out)
		}
	}
	if code, out := invoke(t, dir, "kernbench", "run", "-q", "--bench", "solve-scaling", "--ranks", "1", "--dof-per-rank",
		"500", "--repeat", "1", "--remeasure", "0"); code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	if code, out := invoke(t, dir, "kernbench", "baseline", "save", "out/memory@-1"); code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	for _, name := range []string{"before", "after", "out/a", "out/b", "out/python_copy", "sim", "cpu", "gpu"} {
		must.Do(t, os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(dir, "out/memory"))))
	}
	return dir
}

// try fails the test if a documented command does not work. compare may find differences, but must
// be able to compare.
func try(t *testing.T, dir, where, line string) {
	t.Helper()
	code, out := execute(t, dir, line)
	if code != 0 && (code == 2 || !slices.Contains([]string{"compare", "baseline"}, words(line)[1])) {
		t.Errorf("%s: %s: exit code %d\n%s", where, line, code, out)
	}
}

// execute runs a command line. Sweeps and studies run with --plan.
func execute(t *testing.T, dir, line string) (code int, out string) {
	t.Helper()
	args := words(line)
	if (args[1] == "run" || args[1] == "tune") && !slices.Contains(args, "--help") {
		args = append(args, "--plan")
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
	for _, m := range regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`).FindAllString(line, -1) {
		if slices.Contains([]string{"#", ">", "|", "&&", ";"}, m) {
			break
		}
		if m[0] == '\'' || m[0] == '"' {
			m = m[1 : len(m)-1]
		}
		out = append(out, m)
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
