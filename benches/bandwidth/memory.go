package bandwidth

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Memory declares the bench `memory`: the bandwidth with which one or more processes copy, read and update memory, for
// working sets from the first-level cache to main memory. It uses the plain loops of ordinary programs. The limits of
// other benches come from package probe, which reads with the widest instructions.
func Memory() *bench.Bench {
	cfg := bench.DefaultMeasure()
	cfg.Stop.MaxTime = 500 * time.Millisecond
	return bench.New("memory", memoryBody,
		bench.Help("memory bandwidth of this host by working-set size, operation and number of processes"),
		bench.Doc(`Measures the memory bandwidth of this host, from the first-level cache to main memory.

Every rank has its own buffers, and size is the working set of one rank. copy copies a
to b, read sums a, update adds one to each element of a. gbps counts the bytes read and
written by all ranks together, without write-allocate traffic.

These are plain loops over one array, as in ordinary programs. kernbench probe reads
four arrays at once with the widest instructions, which is faster from the caches. The
limits of other benches come from probe.`),
		bench.Ranks("1,2"),
		bench.Strings("op", memoryOps...),
		bench.Bytes("size", "16K:256M:x4"),
		bench.Headline("time_us", "gbps"),
		bench.Drop(checkMemoryPoint),
		bench.Measure(cfg),
		bench.Timeout(time.Minute),
		bench.Figures(memoryFigures),
		bench.Sections(memorySections),
	)
}

// memoryOps are the operations of the bench.
var memoryOps = []string{copyLoop, read, update}

// checkMemoryPoint rejects unknown operations before anything starts.
func checkMemoryPoint(p point.Point) error {
	if op := p.At("op").String(); !slices.Contains(memoryOps, op) {
		return bench.Unknown("op", op, memoryOps)
	}
	return nil
}

// levelDetail has the level of memory from which the ranks work: see hostinfo.CPU.Level.
const levelDetail = "level"

// memoryBody times a loop on one core of every rank.
func memoryBody(ctx context.Context, s *bench.State) error {
	op, size := s.Str("op"), s.Value("size").Int()
	if level := hostinfo.Local().CPU.Level(size, s.Size()); level != "" {
		s.Detail(levelDetail, level)
	}
	if op == copyLoop { // the working set is two arrays
		size /= 2
	}
	return loopOnHost(op, size, 1, s.Seed()).time(ctx, s)
}

// memoryFigures draws bandwidth against working set, one panel per operation.
func memoryFigures(rows dataset.Set) []figure.Figure {
	good := rows.MergeTrials().Good()
	fig := figure.Figure{Name: "memory_bandwidth", Title: "Memory bandwidth by working set"}
	for _, op := range memoryOps {
		panel := figure.Panel{
			Title: op,
			X:     figure.Axis{Label: "working set per rank", Scale: figure.Log2, Unit: figure.Bytes},
			Y:     figure.Axis{Label: "bandwidth of all ranks", Scale: figure.Linear, Unit: figure.GBps, Min: new(float64)},
			Series: dataset.Series(good.At("op", op),
				func(r *journal.Row) string { return unit.Plural(dataset.Ranks(r), "rank") },
				func(r *journal.Row) (figure.Point, bool) { return dot(r), true }),
		}
		if len(panel.Series) > 0 {
			fig.Panels = append(fig.Panels, panel)
		}
	}
	if len(fig.Panels) == 0 {
		return nil // every row failed
	}
	return []figure.Figure{fig}
}

// dot returns a row's bandwidth, with an error bar from the confidence interval of its time.
func dot(r *journal.Row) figure.Point {
	p := figure.Point{X: dataset.Number(r, "size"), Y: r.Metrics["gbps"]}
	st := r.Stats.Get("time_us")
	if us := r.Metrics["time_us"]; st.CILow != nil && *st.CILow > 0 && us > 0 {
		p.Low, p.High = p.Y*us / *st.CIHigh, p.Y*us / *st.CILow
	}
	return p
}

// memorySections compares the bandwidths of the smallest and the largest working set.
func memorySections(rows dataset.Set) []bench.Section {
	good := rows.MergeTrials().Good()
	size := func(r *journal.Row) float64 { return dataset.Number(r, "size") }
	table := [][]string{{"operation", "ranks", "smallest working set", "largest working set", "ratio"}}
	for _, g := range dataset.GroupBy(good, func(r *journal.Row) string {
		return dataset.Text(r, "op") + " " + fmt.Sprint(dataset.Ranks(r))
	}) {
		bySize := func(a, b *journal.Row) int { return cmp.Compare(size(a), size(b)) }
		small, large := slices.MinFunc(g.Rows, bySize), slices.MaxFunc(g.Rows, bySize)
		if size(small) == size(large) {
			continue
		}
		ratio := fmt.Sprintf("%.1f", small.Metrics["gbps"]/large.Metrics["gbps"])
		table = append(table, []string{dataset.Text(small, "op"), fmt.Sprint(dataset.Ranks(small)), memoryCell(small),
			memoryCell(large), marked(ratio, small, large)})
	}
	if len(table) == 1 {
		return nil
	}
	return []bench.Section{{Title: "From the smallest to the largest working set",
		Text: "The ratio is the speed-up of a kernel with the smallest working set, compared with one with the largest. " +
			"L1, L2 and L3 name the cache that holds a working set; memory means that the working sets of all ranks together are " +
			"at least twice as large as all their caches. Values in parentheses were disturbed.", Table: table}}
}

// memoryCell returns the bandwidth of a row and the level of memory that its working set is in, if that is known.
func memoryCell(r *journal.Row) string {
	text := fmt.Sprintf("%.1f GB/s", r.Metrics["gbps"])
	if level := r.Details[levelDetail]; level != "" {
		text += ", " + level
	}
	return marked(text, r)
}
