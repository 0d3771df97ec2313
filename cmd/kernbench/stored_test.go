//go:build !race

package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/cli"
	"github.com/kernbench/kernbench/internal/result/figure"
)

// TestStored compares what the program shows of every stored run with testdata/stored: its table, a hash of all its
// columns, the table of nccl-tests, and its report in Markdown. -update rewrites the files.
func TestStored(t *testing.T) {
	density := figure.Density
	figure.Density = 24 // the figures are not compared
	defer func() { figure.Density = density }()
	runs := storedRuns(t)
	if len(runs) < 36 {
		t.Errorf("%d stored runs, want at least 36: %v", len(runs), runs)
	}
	goldens := must.Get(filepath.Abs("testdata/stored"))(t)
	t.Chdir(t.TempDir()) // so that no view contains a path
	files := map[string]bool{}
	for name, stored := range runs {
		files[name+".txt"] = true
		journal := must.Get(os.ReadFile(filepath.Join(stored, "journal.jsonl")))(t)
		must.Do(t, os.Mkdir(name, 0o700))
		must.Do(t, os.WriteFile(filepath.Join(name, "journal.jsonl"), journal, 0o600))
		golden.CheckFile(t, filepath.Join(goldens, name+".txt"), views(t, name))
	}
	for _, f := range must.Get(os.ReadDir(goldens))(t) {
		if !files[f.Name()] {
			t.Errorf("testdata/stored/%s belongs to no stored run", f.Name())
		}
	}
}

// storedRuns returns the folders of all stored runs by names that are unique.
func storedRuns(t *testing.T) map[string]string {
	t.Helper()
	runs := map[string]string{}
	for _, root := range []string{"testdata/outputs", "../../docs/results"} {
		must.Do(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && filepath.Base(path) == "journal.jsonl" {
				folder := filepath.Dir(path)
				name := strings.ReplaceAll(filepath.ToSlash(must.Get(filepath.Rel(root, folder))(t)), "/", "-")
				runs[name] = must.Get(filepath.Abs(folder))(t)
			}
			return err
		}))
	}
	return runs
}

var deviceLine = regexp.MustCompile("(?m)^#  Rank.*\n") // of the format nccl-tests, one for each rank

// views returns the views of a run below the working directory.
func views(t *testing.T, run string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(here(t, "show", run))
	fmt.Fprintf(&b, "\nSHA-256 of all columns as CSV: %x\n",
		sha256.Sum256([]byte(here(t, "show", run, "--columns", "all", "--format", "csv"))))
	if nccl := here(t, "show", run, "--format", "nccl-tests"); strings.Contains(nccl, "out-of-place") {
		b.WriteString("\n" + deviceLine.ReplaceAllString(nccl, ""))
	}
	here(t, "report", run)
	b.WriteString("\n" + string(must.Get(os.ReadFile(filepath.Join(run, "report.md")))(t)))
	return b.String()
}

// here runs a command in this process, because a process for each would take long, and returns what it prints.
func here(t *testing.T, args ...string) string {
	t.Helper()
	out := must.Get(os.CreateTemp(t.TempDir(), "stdout"))(t)
	stdout, arguments := os.Stdout, os.Args
	defer func() { os.Stdout, os.Args = stdout, arguments }()
	os.Stdout, os.Args = out, append([]string{"kernbench"}, args...)
	if code := cli.Main(all()); code != 0 {
		t.Errorf("%q: exit code %d", args, code)
	}
	must.Do(t, out.Close())
	return string(must.Get(os.ReadFile(out.Name()))(t))
}
