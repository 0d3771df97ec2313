package kernbench_test

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/bench"
)

// sorting declares a bench with a figure and a sentence.
func sorting(run bench.Body) *bench.Bench {
	return bench.New("sorting", run,
		bench.Ints("count", "1K:1M:x8"),
		bench.Strings("order", "random", "sorted"),
		bench.Plot("x=count,y=time_us,by=order,xscale=log", bench.Named("sorting_time"), bench.Title("Time to sort"),
			bench.Label("count", "numbers")),
		bench.Sentences(slowestSort, whereSlow),
	)
}

// slowestSort computes what the rules need: the slowest row, or nil.
func slowestSort(rows bench.Rows) *bench.Row {
	timed := rows.Good()
	if len(timed) == 0 {
		return nil
	}
	return slices.MaxFunc(timed, func(a, b *bench.Row) int {
		return cmp.Compare(a.Metrics["time_us"], b.Metrics["time_us"])
	})
}

// whereSlow is a rule for one sentence. Users list its row with `kernbench why RUN slowest-1`.
var whereSlow = bench.Rule[*bench.Row]{
	ID:      "slowest",
	Section: "Sorting",
	When:    func(r *bench.Row) bool { return r != nil },
	Rows:    func(r *bench.Row) bench.Rows { return bench.Rows{r} },
	Text: func(r *bench.Row) string {
		return fmt.Sprintf("Sorting %s numbers in order %s takes longest: %.3g ms.", r.Point.At("count"), r.Point.At("order"),
			r.Metrics["time_us"]/1e3)
	},
}
