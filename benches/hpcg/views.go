package hpcg

import (
	"fmt"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// rated returns the rows with a rating.
func rated(rows []journal.Row) dataset.Set {
	return dataset.All(rows).MergeTrials().Good().Where(func(r *journal.Row) bool {
		return r.Metrics["rating_gflops"] > 0 && r.NumRanks != nil
	})
}

// figures draws the rating by ranks, one curve for each size and method.
func figures(rows []journal.Row) []figure.Figure {
	good := rated(rows)
	if len(good) == 0 {
		return nil
	}
	p := figure.Panel{X: figure.Axis{Label: "ranks", Scale: figure.Log2},
		Y: figure.Axis{Label: "rating, GFLOP/s", Min: new(float64)},
		Series: dataset.Series(good, func(r *journal.Row) string {
			return fmt.Sprintf("%s, %s^3 points per rank, %s", dataset.Text(r, methodAxis), dataset.Text(r, sideAxis), r.Backend)
		}, func(r *journal.Row) (figure.Point, bool) {
			return figure.Point{X: float64(dataset.Ranks(r)), Y: r.Metrics["rating_gflops"]}, true
		})}
	return []figure.Figure{{Name: "hpcg_like_rating", Title: "By the rules of HPCG: " + disclaimer,
		Panels:  []figure.Panel{p},
		Caption: "Times are measured, operations counted by HPCG's formula. Hollow markers: disturbed while measured."}}
}

// sections returns a table of the ratings.
func sections(rows []journal.Row) []bench.Section {
	table := [][]string{{"ranks", "side", "method", "unknowns", "iterations", "sets", "set", "raw GFLOP/s",
		"rating GFLOP/s", "doubt"}}
	passed := "symmetry, convergence and repeatability"
	for _, r := range rated(rows) {
		m := r.Metrics
		if m["sets"] < 2 {
			passed = "symmetry and convergence. Repeatability was not checked of rows with one set"
		}
		table = append(table, []string{fmt.Sprint(dataset.Ranks(r)), dataset.Text(r, sideAxis), dataset.Text(r, methodAxis),
			unit.FormatSI(m["unknowns"]),
			fmt.Sprint(m["iterations"]), fmt.Sprint(m["sets"]), unit.FormatMicros(m["time_us"]),
			unit.FormatSig(m["raw_gflops"], 3),
			unit.FormatSig(m["rating_gflops"], 3), r.Disturbed()})
	}
	if len(table) == 1 {
		return nil
	}
	return []bench.Section{{Headline: true, Title: "Rated by the rules of HPCG: " + disclaimer, Table: table,
		Text: fmt.Sprintf("Every set reaches the residual that cg reaches in %d iterations. Further iterations of a method "+
			"take time but do not count as work, and a tenth of the set-up is added to the time of every set. "+
			"All rows passed the checks of %s.", referenceIterations, passed)}}
}
