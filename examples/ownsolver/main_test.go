package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/solve/partitiontest"
	"github.com/kernbench/kernbench/solve"
)

// asProgram makes the test binary the program itself.
const asProgram = "OWNSOLVER_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// The examples of the guide are these files, to the letter.
func TestGuideShowsTheseFiles(t *testing.T) {
	guide, err := os.ReadFile("../../docs/extending.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"striped.go", "steepest.go", "rowsum.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(text), "package main\n\n")
		if !strings.Contains(string(guide), body) {
			t.Errorf("docs/extending.md does not show %s as it is", name)
		}
	}
}

func TestConformance(t *testing.T) {
	for _, p := range solve.Partitioners() {
		if p.Name == "striped" {
			partitiontest.Run(t, p)
		}
	}
}

// What is registered is listed in the help and runs, with the residual as gate.
func TestRuns(t *testing.T) {
	run := func(args ...string) string {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	help := run("run", "--bench", "solve-scaling", "--help")
	for _, want := range []string{"rows in turn, one by one",
		"steepest descent; 1 reduction per iteration, needs a symmetric positive definite matrix"} {
		if !strings.Contains(help, want) {
			t.Errorf("the help does not say %q", want)
		}
	}
	dir := filepath.Join(t.TempDir(), "run")
	run("run", "--bench", "solve-scaling", "--ranks", "1,3", "--dof-per-rank", "100", "--method", "steepest", "--precond",
		"none,row-sum",
		"--partitioner", "striped,simple", "--repeat", "1", "--out", dir)
	text, err := os.ReadFile(filepath.Join(dir, "results", "distributed_solve_scaling.json"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), `"method": "steepest"`); n != 8 {
		t.Errorf("%d rows of the method, want 8", n)
	}
	if n := strings.Count(string(text), `"partitioner": "striped"`); n != 4 ||
		strings.Contains(string(text), `"status": "failed"`) {
		t.Errorf("%d rows of the partitioner, want 4 good ones", n)
	}
}
