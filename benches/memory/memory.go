// Package memory is the bench `memory`: the bandwidth with which one or more processes copy, read
// and update memory, for working sets from the first-level cache to main memory. It uses the plain
// loops of ordinary programs. The limits of other benches come from package probe, which reads with
// the widest instructions.
package memory

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Bench declares the bench.
func Bench() *bench.Bench {
	cfg := bench.DefaultMeasure()
	cfg.Stop.MaxTime = 500 * time.Millisecond
	return bench.New("memory", body,
		bench.Help("memory bandwidth of this host by working-set size, operation and number of processes"),
		bench.Doc(`Measures the memory bandwidth of this host, from the first-level cache to main memory.

Every rank has its own buffers, and size is the working set of one rank. copy copies a
to b, read sums a, update adds one to each element of a. gbps counts the bytes read and
written by all ranks together, without write-allocate traffic.

These are plain loops over one array, as in ordinary programs. kernbench probe reads
four arrays at once with the widest instructions, which is faster from the caches. The
limits of other benches come from probe.`),
		bench.Ranks("1,2"),
		bench.Strings("op", ops...),
		bench.Bytes("size", "16K:256M:x4"),
		bench.Headline("time_us", "gbps"),
		bench.Drop(unknown),
		bench.Measure(cfg),
		bench.Timeout(time.Minute),
		bench.Figures(figures),
		bench.Sections(sections),
	)
}

// ops are the operations.
var ops = []string{"copy", "read", "update"}

// unknown rejects unknown operations before anything starts.
func unknown(p point.Point) error {
	if op := p.At("op"); !slices.Contains(ops, op.String()) {
		return bench.Unknown("op", op.String(), ops)
	}
	return nil
}

func body(ctx context.Context, s *bench.State) error {
	size := s.Int("size")
	op, traffic, err := operation(s.Str("op"), size)
	if err != nil {
		return err
	}
	s.Bytes(int64(traffic) * int64(s.Size()))
	s.Verify(op.check)
	return s.Time(ctx, func() error { op.run(); return nil })
}

// op is a kernel over its buffers, and the check of its result.
type op struct {
	run   func()
	check func() error
}

// word is the size of the elements of the read and update loops, in bytes.
const word = 8

// operation sets up a kernel whose working set is about size bytes. It also returns how many bytes
// one call moves.
func operation(name string, size int) (op, int, error) {
	switch name {
	case "copy":
		n := size / 2
		a, b := make([]byte, n), make([]byte, n)
		for i := range a {
			a[i] = byte(i*7 + 1)
			b[i] = 0xff
		}
		return op{
			run: func() { copy(b, a) },
			check: func() error {
				for i := range b {
					if b[i] != a[i] {
						return &bench.Wrong{Count: 1, Detail: fmt.Sprintf("byte %d is %d, want %d", i, b[i], a[i])}
					}
				}
				return nil
			},
		}, 2 * n, nil
	case "read":
		a := make([]uint64, size/word)
		var want, got uint64
		for i := range a {
			a[i] = uint64(i) * 3
			want += a[i]
		}
		return op{
			run: func() { got = sum(a) },
			check: func() error {
				if got != want {
					return &bench.Wrong{Count: 1, Detail: fmt.Sprintf("the sum is %d, want %d", got, want)}
				}
				return nil
			},
		}, len(a) * word, nil
	case "update":
		a := make([]uint64, size/word)
		calls := uint64(0)
		return op{
			run: func() { increment(a); calls++ },
			check: func() error {
				for i, v := range a {
					if v != calls {
						return &bench.Wrong{Count: 1, Detail: fmt.Sprintf("word %d is %d after %d calls", i, v, calls)}
					}
				}
				return nil
			},
		}, 2 * len(a) * word, nil
	}
	return op{}, 0, fmt.Errorf("operation %q: want copy, read or update", name)
}

// sum reads every word. Four accumulators let the additions overlap.
func sum(a []uint64) uint64 {
	var s0, s1, s2, s3 uint64
	for len(a) >= 8 {
		s0 += a[0] + a[4]
		s1 += a[1] + a[5]
		s2 += a[2] + a[6]
		s3 += a[3] + a[7]
		a = a[8:]
	}
	for _, v := range a {
		s0 += v
	}
	return s0 + s1 + s2 + s3
}

// increment adds one to every word. Eight words per iteration hide the cost of the loop counter.
func increment(a []uint64) {
	for len(a) >= 8 {
		a[0]++
		a[1]++
		a[2]++
		a[3]++
		a[4]++
		a[5]++
		a[6]++
		a[7]++
		a = a[8:]
	}
	for i := range a {
		a[i]++
	}
}

// figures draws bandwidth against working set, one panel per operation.
func figures(rows []journal.Row) []figure.Figure {
	good := dataset.All(rows).MergeTrials().Good().Where(func(r *journal.Row) bool { return r.NumRanks != nil })
	fig := figure.Figure{Name: "memory_bandwidth", Title: "Memory bandwidth by working set"}
	for _, op := range ops {
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

// sections compares the bandwidths of the smallest and the largest working set.
func sections(rows []journal.Row) []bench.Section {
	good := dataset.All(rows).MergeTrials().Good().Where(func(r *journal.Row) bool { return r.NumRanks != nil })
	smallest, largest := math.Inf(1), 0.0
	for _, r := range good {
		size := dataset.Number(r, "size")
		smallest, largest = min(smallest, size), max(largest, size)
	}
	if smallest >= largest {
		return nil
	}
	table := [][]string{{"operation", "ranks", "smallest working set", "largest working set", "ratio"}}
	type config struct {
		op    string
		ranks int
	}
	for _, g := range dataset.GroupBy(good, func(r *journal.Row) config {
		return config{dataset.Text(r, "op"), dataset.Ranks(r)}
	}) {
		var cache, memory float64
		for _, r := range g.Rows {
			switch dataset.Number(r, "size") {
			case smallest:
				cache = r.Metrics["gbps"]
			case largest:
				memory = r.Metrics["gbps"]
			}
		}
		if cache > 0 && memory > 0 {
			table = append(table, []string{g.Key.op, fmt.Sprint(g.Key.ranks), fmt.Sprintf("%.1f GB/s", cache),
				fmt.Sprintf("%.1f GB/s", memory), fmt.Sprintf("%.1f", cache/memory)})
		}
	}
	return []bench.Section{{
		Title: "From cache to memory",
		Text: "The ratio is the speed-up of a kernel whose working set fits the first-level cache, compared with one that " +
			"works from main memory.",
		Table: table,
	}}
}
