package acceltransfers

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/accel/dma"
	"github.com/kernbench/kernbench/internal/accel/published"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
)

// The parts, as conditions of their views.
const (
	ofTransfers = `part=="` + transferPart + `"`
	ofPublished = `part=="` + publishedPart + `"`
)

const publishedTitle = "Published times"

// views declares the figures, tables and sentences.
func views() []bench.Clause {
	var parts []string
	stack := []bench.ViewText{bench.Named("transfer_causes"), bench.Label("y", "share of the time"),
		bench.Title("What the time of the largest transfers consists of (simulated)")}
	for _, c := range dma.Causes {
		parts = append(parts, c.Name+"_ns")
		stack = append(stack, bench.Label(c.Name+"_ns", c.Name))
	}
	return []bench.Clause{
		bench.Plot("x=case,y="+strings.Join(parts, "+")+",share=time_ns,kind=stack,last=size,where="+ofTransfers, stack...),
		bench.Plot("x=size,y=pct_of_limit,by=case,kind=heat,where="+ofTransfers, bench.Named("transfer_limit"),
			bench.Label("pct_of_limit", "of limit"), bench.Title("Share of the bottleneck's rate (simulated)")),
		bench.Pivot("rows=case,columns=size,value=time_ns,where="+ofTransfers, bench.Title("Time of transfers by size")),
		bench.Pivot("rows=value,columns=model,value=difference_pct,where="+ofPublished, bench.Title(publishedTitle),
			bench.Caption("Difference of the simulated time from the published one, by model of the fabric.")),
		bench.Sentences(wholeMessages, closest),
	}
}

// wholeMessages returns the comparisons with the model that most published times were made with.
func wholeMessages(rows bench.Rows) bench.Rows {
	return rows.Good().Part(publishedPart).At(modelAxis, published.Fabrics[0].Name)
}

// closest says how many published times are met, and which one is missed most.
var closest = bench.Rule[bench.Rows]{ID: "published", Section: publishedTitle,
	When: func(rows bench.Rows) bool { return len(rows) > 0 },
	Rows: slices.Clone[bench.Rows],
	Text: func(rows bench.Rows) string {
		away := func(r *bench.Row) float64 { return math.Abs(r.Metrics["difference_pct"]) }
		met := rows.Where(func(r *bench.Row) bool { return away(r) <= published.Exact })
		worst := slices.MaxFunc(rows, func(a, b *bench.Row) int { return cmp.Compare(away(a), away(b)) })
		return fmt.Sprintf("With whole messages %d of %s are met within %g %%. The largest difference is %+.1f %%, of %s: "+
			"%.2f ns instead of %g.", len(met), unit.Plural(len(rows), "published time"), published.Exact,
			worst.Metrics["difference_pct"], dataset.Text(worst, valueAxis), worst.Metrics["time_ns"],
			worst.Metrics["published_ns"])
	},
}
