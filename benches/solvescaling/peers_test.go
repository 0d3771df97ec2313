package solvescaling

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/bench/sweep"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// The sweep file for PETSc loads, names an existing program, and has the axes that pair its rows with ours.
func TestPETScSweep(t *testing.T) {
	b, err := sweep.Load("../../peers/petsc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Validate(); err != nil {
		t.Error(err)
	}
	for _, axis := range []string{dimAxis, totalAxis} {
		if _, has := b.Parts[0].Axis(axis); !has {
			t.Errorf("no axis %s", axis)
		}
	}
	if _, err := os.Stat("../../peers/petsc_cg.c"); err != nil {
		t.Error(err)
	}
}

// standIn installs a program in place of a peer. It prints says and writes the solution x.
func standIn(t *testing.T, says string, x []float64, status int) {
	t.Helper()
	dir := t.TempDir()
	var solution bytes.Buffer
	if err := writeVector(&solution, len(x), func(i int) float64 { return x[i] }); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "peer")
	text := fmt.Sprintf("#!/bin/sh\ncp %s \"$5\"\ncat <<.\n%s\n.\necho no such library >&2\nexit %d\n",
		filepath.Join(dir, "x"), says, status)
	for name, data := range map[string][]byte{filepath.Join(dir, "x"): solution.Bytes(), program: []byte(text)} {
		if err := os.WriteFile(name, data, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(petscVariable, program)
}

// A peer's row records its output and the true residual of its solution, on every rank. It fails for a wrong solution,
// an unreadable line and a failed program, and is not executed without a program.
func TestPeerRows(t *testing.T) {
	problem, err := sparse.New("poisson", sparse.Params{Rows: 36})
	if err != nil {
		t.Fatal(err)
	}
	n := problem.Size()
	dense, ones := mat.NewDense(n, n, nil), mat.NewVecDense(n, nil)
	var row sparse.Row
	for i := range n {
		problem.Row(i, &row)
		for k, c := range row.Cols {
			dense.Set(i, c, row.Vals[k])
		}
		ones.SetVec(i, 1)
	}
	var x mat.VecDense
	if err := x.SolveVec(dense, ones); err != nil {
		t.Fatal(err)
	}
	right, wrong := x.RawVector().Data, append([]float64{1}, x.RawVector().Data[1:]...)
	sample := func(solve float64, converged int) string {
		return fmt.Sprintf("setup_s=0.5 setup_cpu_s=0.75 solve_s=%g solve_cpu_s=3 iterations=8 converged=%d residual=1e-9 "+
			"major=3 minor=18 patch=5", solve, converged)
	}
	good := sample(4, 1) + "\n" + sample(2, 1)
	for _, c := range []struct {
		name, says string
		x          []float64
		exit       int
		status     journal.Status
		reason     string
	}{
		{"good", "a word of the library\n" + good, right, 0, journal.OK, ""},
		{"wrong solution", good, wrong, 0, journal.Failed, "the solution is wrong"},
		{"not converged", sample(4, 1) + "\n" + sample(2, 0), right, 0, journal.Failed, "did not converge"},
		{"one line too few", sample(4, 1), right, 0, journal.Failed, "1 solves, want 2"},
		{"no number", strings.Replace(good, "setup_s=0.5", "setup_s=nan", 1), right, 0, journal.Failed, "setup_s"},
		{"short solution", good, right[1:], 0, journal.Failed, "want a vector of 36"},
		{"failure", good, right, 1, journal.Failed, "no such library"},
		{"not installed", good, right, unavailable, journal.NotExecuted, "no such library"},
	} {
		standIn(t, c.says, c.x, c.exit)
		p := planned(t, "num_ranks=3 mode=strong total-dof=36 rhs=ones precond=amg peer=petsc:hypre", "repeat=2")
		for rank, o := range perform(t, p.Groups[0].Tasks[0], p.Options, "cpu") {
			if o.Status != c.status || rank == 0 && !strings.Contains(o.Reason, c.reason) {
				t.Errorf("%s, rank %d: %s: %s", c.name, rank, o.Status, o.Reason)
			}
			if m := o.Metrics; c.status == journal.OK &&
				(m["solve_time_s"] != 2 || m["time_us"] != 2e6/8 || m["solve_cpu_s"] != 3 || m["precond_setup_cpu_s"] != 0.75 ||
					m["iterations"] != 8 || m["rel_residual"] > 1e-12 || o.Details["library"] != "PETSc 3.18.5" ||
					o.Details[cpuDetail] == "" || o.Details[versionDetail] == "") {
				t.Errorf("%s, rank %d: %v, %v", c.name, rank, m, o.Details)
			}
		}
	}
	t.Setenv(petscVariable, filepath.Join(t.TempDir(), "nothing"))
	if o := first(t, "num_ranks=1 mode=strong total-dof=36 precond=amg peer=petsc", "repeat=1",
		"cpu"); o.Status != journal.NotExecuted || !strings.Contains(o.Reason, petscVariable) {
		t.Errorf("%s: %s", o.Status, o.Reason)
	}
}

// A peer runs on the cores of all ranks, even if each rank is bound to its own.
func TestPeerCores(t *testing.T) {
	usable := cores.Allowed()
	if len(usable) < 2 {
		t.Fatal("this test needs two cores")
	}
	dir := t.TempDir()
	program, seen := filepath.Join(dir, "peer"), filepath.Join(dir, "cores")
	text := fmt.Sprintf("#!/bin/sh\nsed -n 's/^Cpus_allowed_list:.//p' /proc/self/status >%s\nexit %d\n", seen,
		unavailable)
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	runInto(t, filepath.Join(dir, "run"), "num_ranks=2 mode=strong total-dof=36 rhs=ones precond=amg peer=petsc",
		"repeat=1",
		run.Options{Environ: append(os.Environ(), petscVariable+"="+program)})
	got, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	if list := strings.TrimSpace(string(got)); !strings.ContainsAny(list, ",-") {
		t.Errorf("the peer of two ranks has core %s of %v", list, usable)
	}
}

// Points that a peer does not support are dropped when planning, and unknown peers are refused.
func TestPeerRefuses(t *testing.T) {
	for axes, reason := range map[string]string{
		"method=gmres precond=amg peer=petsc":           "by cg alone",
		"partitioner=coordinate precond=amg peer=petsc": "strips of rows",
		"precond=jacobi peer=petsc:hypre":               "amg, auto, gmg, not jacobi",
		"precond=amg-f32 peer=petsc":                    "not amg-f32",
	} {
		p := planned(t, "num_ranks=1 "+axes+",none", "")
		if len(p.Dropped) != 1 || !strings.Contains(p.Dropped[0].Reason, reason) {
			t.Errorf("%s: dropped %v", axes, p.Dropped)
		}
	}
}

// The matrix reaches a peer in PETSc's binary format.
func TestPeerMatrix(t *testing.T) {
	problem, err := sparse.New("poisson", sparse.Params{Rows: 4})
	if err != nil {
		t.Fatal(err)
	}
	var out, want bytes.Buffer
	if err := writeMatrix(&out, problem); err != nil {
		t.Fatal(err)
	}
	for _, part := range []any{[]int32{1211216, 4, 4, 12}, []int32{3, 3, 3, 3},
		[]int32{0, 1, 2, 0, 1, 3, 0, 2, 3, 1, 2, 3},
		[]float64{4, -1, -1, -1, 4, -1, -1, 4, -1, -1, -1, 4}} {
		if err := binary.Write(&want, binary.BigEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(out.Bytes(), want.Bytes()) {
		t.Errorf("%x, want %x", out.Bytes(), want.Bytes())
	}
}
