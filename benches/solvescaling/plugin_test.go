package solvescaling

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/partitiontest"
	"github.com/kernbench/kernbench/solve"
)

// The registrations of this file are included in every test of this package that runs all methods, partitioners,
// preconditioners or problems.
func init() {
	solve.RegisterPartitioner(solve.Partitioner{Name: "striped", Help: "rows in turn", Needs: solve.NeedsSize,
		Imbalance: 1,
		Make: func(p solve.Problem, o solve.PartitionOptions) (solve.Layout, error) {
			owners := make([]int32, p.Size())
			for row := range owners {
				owners[row] = int32(row % o.Ranks)
			}
			return solve.NewTable(owners, o.Ranks)
		}})
	all := solve.Methods()
	own := all[slices.IndexFunc(all, func(m solve.Method) bool { return m.Name == "cg-single" })]
	own.Name, own.Help, own.Improves = "own", "a method of this test", ""
	solve.RegisterMethod(own)
	solve.RegisterPreconditioner(solve.Preconditioner{Name: "row-sum",
		Help: "the inverse of the sum of a row's magnitudes",
		New: func(l *solve.Local) (solve.Operator, error) {
			return solve.DiagonalOf(l, func(_ int, r *solve.Row) (float64, error) {
				sum := 0.0
				for _, v := range r.Vals {
					sum += max(v, -v)
				}
				return 1 / sum, nil
			})
		}})
	solve.RegisterProblem(solve.Kind{Name: "chain", Help: "springs in a row",
		New: func(p solve.Params) (solve.Problem, error) {
			return chain(p.Rows), nil
		}})
}

// chain is a tridiagonal matrix with the given number of rows.
type chain int

func (n chain) Size() int            { return int(n) }
func (n chain) Traits() solve.Traits { return solve.Traits{Symmetric: true, Definite: true} }
func (n chain) Row(i int, r *solve.Row) {
	r.Reset()
	if i > 0 {
		r.Add(i-1, -1)
	}
	r.Add(i, 2.1)
	if i < int(n)-1 {
		r.Add(i+1, -1)
	}
}

// One registration suffices: the name is in the help, is checked when planning, runs, passes the conformance suite and
// is in the export.
func TestRegisteredWords(t *testing.T) {
	const axes = "num_ranks=1,3 total-dof=300 mode=strong problem=chain method=own precond=row-sum partitioner=striped"
	for _, word := range []string{"striped", "rows in turn", "own",
		"1 reduction per iteration, needs a symmetric positive definite matrix", "row-sum", "chain", "springs in a row"} {
		if !strings.Contains(Bench().Doc, word) {
			t.Errorf("the help does not say %q", word)
		}
	}
	for _, slip := range []string{"method=ownn", "partitioner=stripd", "precond=rowsum", "problem=chian"} {
		if _, err := plan.Make(Bench(), plan.Request{Axes: assigns(slip), Backend: "cpu"}); err == nil ||
			!strings.Contains(err.Error(), "did you mean") {
			t.Errorf("%s: %v", slip, err)
		}
	}
	for _, refused := range []string{"problem=chain partitioner=block", "problem=advection method=own",
		"partitioner=striped objective=volume"} {
		if _, err := plan.Make(Bench(), plan.Request{Axes: assigns(refused), Backend: "cpu"}); err == nil {
			t.Errorf("%s was planned", refused)
		}
	}
	p := planned(t, axes, "repeat=1")
	var rows []journal.Row
	for _, g := range p.Groups {
		for _, task := range g.Tasks {
			o := perform(t, task, p.Options, "cpu")[0]
			if o.Status != journal.OK || !(o.Metrics["rel_residual"] <= 1e-7) {
				t.Fatalf("%s: %s: %s", task.Point, o.Status, o.Reason)
			}
			rows = append(rows, journal.Row{Point: task.Point, NumRanks: &task.Ranks, Status: o.Status, Metrics: o.Metrics,
				Details: o.Details})
		}
	}
	files, err := exports(derive(dataset.All(rows)))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Rows []map[string]any }
	if err := json.Unmarshal(files[0].Data, &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Rows) != 2 || doc.Rows[1]["method"] != "own" || doc.Rows[1]["partitioner"] != "striped" ||
		doc.Rows[1]["preconditioner"] != "row-sum" || doc.Rows[1]["efficiency"] == nil {
		t.Errorf("the export has %v", doc.Rows)
	}
}

func TestRegisteredPartitionersConform(t *testing.T) {
	for _, p := range solve.Partitioners() {
		if p.Name == "striped" { // the others are tested in their own package
			partitiontest.Run(t, p)
		}
	}
}
