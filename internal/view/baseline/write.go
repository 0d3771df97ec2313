package baseline

import (
	"fmt"
	"io"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/view/compare"
	"github.com/kernbench/kernbench/internal/view/verdict"
)

// Write shows the report; "" is the table. Width is that of the terminal, 0 for no
// limit, and concerns the table only.
func (r Report) Write(w io.Writer, format string, width int) error {
	pairs := lists.Map(r.Points, func(p Point) compare.Pair { return p.Pair })
	table := compare.Report{Metric: r.Metric, Unit: r.Unit, Better: r.Better, Floor: r.Floor, Counts: r.Counts,
		Pairs:    pairs,
		Warnings: r.Warnings}
	v, err := table.Verdicts()
	if err != nil {
		return err
	}
	v.Suite = "kernbench baseline check " + r.Recent[len(r.Recent)-1]
	v.Heading[0] = fmt.Sprintf("%s, latest %s, against a baseline of %s:", unit.Plural(len(r.Recent), "run"),
		r.Recent[len(r.Recent)-1],
		unit.Plural(len(r.Baseline), "run"))
	v.Columns[2].Title, v.Columns[3].Title = "baseline "+table.Value(), "latest"
	const change = 4 // the column that Over explains
	v.Columns = slices.Insert(v.Columns, change+1, verdict.Column{Title: "over"})
	for i := range v.Lines {
		v.Lines[i].Cells = slices.Insert(v.Lines[i].Cells, change+1, r.Points[i].Over)
	}
	v.Data = r
	return v.Write(w, format, width)
}
