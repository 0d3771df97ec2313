package bandwidth

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/dataset"
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
		decl.OneOf("op", memoryOps...),
		bench.Measure(cfg),
		bench.Timeout(time.Minute),
		bench.Plot("x=size,y=gbps,by=num_ranks,panel=op,xscale=log,yscale=linear", bench.Named("memory_bandwidth"),
			bench.Title("Memory bandwidth by working set"), bench.Label("x", "working set per rank"),
			bench.Label("y", "bandwidth of all ranks")),
		bench.Sections(memorySections),
	)
}

// memoryOps are the operations of the bench.
var memoryOps = []string{copyLoop, read, update}

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

// memorySections compares the bandwidths of the smallest and the largest working set.
func memorySections(rows dataset.Set) []bench.Section {
	table := [][]string{{"operation", "ranks", "smallest working set", "largest working set", "ratio"}}
	for _, g := range lists.GroupBy(rows.MergeTrials().Good(), func(r *journal.Row) string {
		return dataset.Text(r, "op") + " " + fmt.Sprint(dataset.Ranks(r))
	}) {
		small, large := slices.MinFunc(g.Items, bySize), slices.MaxFunc(g.Items, bySize)
		if bySize(small, large) == 0 {
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
