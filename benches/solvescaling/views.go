package solvescaling

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// figureName is the name of the figure and of the export.
const figureName = "distributed_solve_scaling"

// count formats a number of unknowns like 100k or 4M.
func count(v float64) string { return unit.FormatSI(v) }

// declaredViews declares the scaling in each mode, to the solution and by the time of an iteration where the number of
// iterations changes, and the phases of an iteration.
func declaredViews() []bench.Clause {
	words := []bench.ViewText{bench.Named(figureName), bench.Title("Distributed solve scaling"),
		bench.Caption("Markers: the best solve of a launch, and of several launches the median. Error bars of efficiencies " +
			"and speed-ups: all solves of all launches."), func(w *views.Words) { w.Finish = addCommon }}
	var out []bench.Clause
	for _, p := range []struct{ view, y, title string }{
		{`ideal=1,yscale=linear,y=efficiency,where=mode=="weak"`, "efficiency", "weak scaling"},
		{`ideal=1,yscale=linear,y=efficiency_implementation,where=mode=="weak"` + iterated, "efficiency",
			"weak scaling of an iteration"},
		{`ideal=x,y=num_ranks*efficiency,where=mode=="strong"`, "speed-up", "strong scaling"},
		{`ideal=x,y=num_ranks*efficiency_implementation,where=mode=="strong"` + iterated, "speed-up",
			"strong scaling of an iteration"},
		{`ideal=first,yscale=log,y=throughput_dof_s,where=mode!="strong"`, "unknowns solved per second", "throughput"},
	} {
		out = append(out, bench.Plot("x=num_ranks,xscale=log,by=method+partitioner,columns=2,"+p.view+`&&status=="ok"`,
			append(words, bench.Label("y", p.y), bench.Label("panel", p.title))...))
	}
	phases := lists.Map(lists.Range[int](int(krylov.NumPhases)), func(p int) string { return meanOf(krylov.Phase(p)) })
	named := lists.Map(phases, func(metric string) bench.ViewText {
		return bench.Label(metric, strings.ReplaceAll(strings.TrimSuffix(metric, "_us"), "_", " "))
	})
	return append(out,
		bench.Plot("x=point,kind=stack,y="+strings.Join(phases, "+"), slices.Concat(words, named,
			[]bench.ViewText{bench.Label("point", ""), bench.Label("y", "mean over ranks"),
				bench.Label("panel", "time per iteration")})...),
		bench.Pivot("rows=point,show=headline,value=time_us+traced_us+"+strings.Join(phases, "+"), append(named,
			bench.Title("phases of an iteration, mean over the ranks"), bench.Label("time_us", "timed"),
			bench.Label("traced_us", "traced"), bench.Caption(phaseNote))...))
}

// iterated selects the curves whose number of iterations changes with the ranks, with the row of one rank.
const iterated = "&&(num_ranks==1||!(efficiency_algorithmic==1))"

const phaseNote = "On processors, messages, reductions and the preconditioner were counted in the fastest timed " +
	"solve, and its other time is divided into product, scalar products, updates and the rest as in a traced " +
	"iteration. On GPUs, all phases belong to the traced iteration. Where that takes much longer than the timed one, " +
	"the division is a rough guide."

// figures draws what no plot can describe: the comparison of solvers, the roofline and the convergence.
func figures(rows dataset.Set) (out []figure.Figure) {
	for _, f := range []figure.Figure{comparisonFigure(rows), rooflineFigure(rows), convergenceFigure(rows)} {
		if len(f.Panels) > 0 && len(f.Panels[0].Series) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// addCommon adds what the rows of a declared figure have in common: the size to the title of the panel, because other
// modes have other sizes, and the rest to the title of the figure.
func addCommon(f *figure.Figure, rows dataset.Set) {
	f.Title += common(rows, problemOf, stored, hostOf)
	for i := range f.Panels {
		f.Panels[i].Title = strings.TrimPrefix(f.Panels[i].Title+common(rows, sizeOf), ": ")
	}
}

// common returns what all successful rows have in common, for a title.
func common(rows dataset.Set, of ...func(r *journal.Row) string) string {
	var words []string
	for _, text := range of {
		if same := lists.Distinct(lists.Map(rows.Good(), text)); len(same) == 1 {
			words = append(words, same[0])
		}
	}
	if words = lists.NonEmpty(words...); len(words) == 0 {
		return ""
	}
	return ": " + strings.Join(words, ", ")
}

func hostOf(r *journal.Row) string { return r.Host }

// sizeOf describes the size of a row's problem: in all or, in weak scaling, of a rank.
func sizeOf(r *journal.Row) string {
	if size := sizeAxis(dataset.Text(r, modeAxis)); size == perRankAxis {
		return count(dataset.Number(r, size)) + " unknowns per rank"
	}
	return count(r.Metrics["dof_global"]) + " unknowns"
}

// stored returns the storage format of a row's matrix. A constant stencil takes almost no memory if compressed, so such
// a row says little about general matrices.
func stored(r *journal.Row) string {
	form := dataset.Text(r, storageAxis)
	if b, known := r.Metrics["matrix_bytes_per_dof"]; known && b < stencilBytes && form == sparse.Compressed.String() {
		return "stored as a stencil"
	}
	return form
}

// stencilBytes is the memory per unknown below which a matrix can only be a stencil: less than one value or column per
// row.
const stencilBytes = 2

// convergenceFigure draws the residual by iteration, once for each problem and method, for the largest number of ranks.
// The partition makes no difference to it.
func convergenceFigure(rows dataset.Set) figure.Figure {
	p := figure.Panel{X: figure.Axis{Label: "iterations"}, Y: figure.Axis{Label: "relative residual", Scale: figure.Log10}}
	seen := map[string]bool{}
	for _, c := range curves(rows) {
		last, ok := c.last()
		if !ok {
			continue
		}
		name := solverOf(last) + fmt.Sprintf(", %s, %s unknowns", last.Details["problem"], count(last.Metrics["dof_global"]))
		s := figure.Series{Name: name, NoMarker: true,
			Points: lists.Map(factsOf[[]residual](last, historyDetail), func(q residual) figure.Point {
				return figure.Point{X: float64(q[0]), Y: float64(q[1])}
			})}
		if len(s.Points) > 1 && !seen[name] {
			seen[name] = true
			p.Series = append(p.Series, s)
		}
	}
	return figure.Figure{Name: "distributed_solve_convergence", Panels: []figure.Panel{p},
		Title: "Convergence" + common(rows, problemOf, sizeOf, stored, hostOf)}
}
