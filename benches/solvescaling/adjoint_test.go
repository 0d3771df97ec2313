package solvescaling

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/solve"
)

// The adjoint solve and its gradients pass their check, for symmetric and other matrices, generated and from a file.
func TestAdjoint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.mtx")
	must.Do(t, os.WriteFile(file, []byte("%%MatrixMarket matrix coordinate real general\n4 4 9\n1 1 4\n1 2 1\n2 2 "+
		"5\n2 3 -2\n"+
		"3 1 1\n3 3 4\n4 4 3\n4 1 -1\n1 4 0.5\n"), 0o600))
	for _, c := range []struct{ axes, options string }{
		{"dof-per-rank=300 problem=advection method=gmres,bicgstab precond=jacobi", "adjoint=true"},
		{"dof-per-rank=300 problem=variable precond=gmg,amg", "adjoint=true"},
		{"dof-per-rank=300 problem=helmholtz method=minres", "adjoint=true"},
		{"dof-per-rank=300 problem=neumann", "adjoint=true"},
		{"mode=strong method=gmres", "adjoint=true matrix=" + file},
	} {
		p := planned(t, "num_ranks=2 "+c.axes, "repeat=1 "+c.options)
		for _, task := range p.Groups[0].Tasks {
			o := perform(t, task, p.Options, "cpu")[0]
			m := o.Metrics
			if _, entries := m["gradient_error_entries"]; o.Status != journal.OK || !(m["adjoint_iterations"] > 0) ||
				!(m["gradient_error_rhs"] < gradientTolerance) || entries == strings.Contains(c.axes, "neumann") {
				t.Errorf("%s: %s: %s, errors %g and %g", task.Point, o.Status, o.Reason, m["gradient_error_rhs"],
					m["gradient_error_entries"])
			}
		}
	}
}

// liar claims to be symmetric, so that its adjoint system is not transposed.
type liar struct{ solve.Problem }

func (l liar) Traits() solve.Traits { return solve.Traits{Symmetric: true} }

// A wrong adjoint system gives wrong gradients, and the check finds them.
func TestWrongAdjointFails(t *testing.T) {
	p := planned(t, "num_ranks=2 dof-per-rank=200 method=gmres problem=advection", "")
	body := bench.Body(func(ctx context.Context, s *bench.State) error {
		b, err := rightHandSides(s)
		if err != nil {
			return err
		}
		spec, _, err := specOf(s, b)
		if err != nil {
			return err
		}
		spec.Problem = liar{must.Get(sparse.New("advection", sparse.Params{Rows: 400}))(t)}
		g, err := join(ctx, s, spec)
		if err != nil {
			return err
		}
		defer g.Close()
		return reportAdjoint(ctx, s, g, spec, false)
	})
	o := benchtest.Perform(t, bench.New("b", body).Parts[0].Body, p.Groups[0].Tasks[0], p.Options,
		decl.Setting{Backend: "cpu"})[0]
	if o.Status != journal.Failed ||
		!strings.Contains(o.Reason, "the gradient with respect to the right-hand side is wrong") {
		t.Errorf("%s: %s", o.Status, o.Reason)
	}
}
