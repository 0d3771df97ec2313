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

// asProgram is the environment variable that makes the test binary run main.
const asProgram = "OWNSOLVER_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestConformance runs the suite of partitioners on the one of this program.
func TestConformance(t *testing.T) {
	for _, p := range solve.Partitioners() {
		if p.Name == "striped" {
			partitiontest.Run(t, p)
		}
	}
}

// TestRuns finds the registered variants in the help and runs them. Rows with too large a residual would fail.
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
