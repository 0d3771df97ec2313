// Package accuracy compares replayed workloads with published times: collectives that others measured with NCCL, and
// training steps. Nothing is fitted to these times. The networks follow from cluster files, whose rates and latencies
// are constants of NCCL, and computation from the data sheets of GPUs.
package accuracy

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/accel/loggp"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/result/predict"
	"github.com/kernbench/kernbench/internal/workload/chakra"
	"github.com/kernbench/kernbench/internal/workload/replay"
)

// Comparison is a published time and the time of a replay, in microseconds.
type Comparison struct {
	System, What         string
	Bytes                int64
	Published, Simulated float64
	Remark               string
}

// Difference returns how much longer the replay takes, relative to the published time.
func (c Comparison) Difference() float64 { return c.Simulated/c.Published - 1 }

// kinds maps the collectives of measured times to collectives of traces.
var kinds = map[string]chakra.Collective{predict.AllReduce: chakra.AllReduce, predict.AllGather: chakra.AllGather,
	predict.ReduceScatter: chakra.ReduceScatter, predict.AllToAll: chakra.AllToAll}

// Collectives replays every measured collective on the network of its cluster.
func Collectives() ([]Comparison, error) {
	networks := map[string]loggp.Network{}
	var list []Comparison
	for _, p := range predict.Points() {
		name := fmt.Sprintf("%s-%dx%d", p.GPU, p.Ranks/p.Nodes, p.Nodes)
		n, ok := networks[name]
		if !ok {
			c, err := predict.Find(name)
			if err != nil {
				return nil, err
			}
			if n, err = c.Simulated(); err != nil {
				return nil, err
			}
			networks[name] = n
		}
		us, err := callTime(n, p)
		if err != nil {
			return nil, fmt.Errorf("%s, %s of %d bytes: %w", name, p.Op, p.Bytes, err)
		}
		system := fmt.Sprintf("%s, %d nodes", p.GPU, p.Nodes)
		if p.Nodes == 1 {
			system = p.GPU + ", 1 node"
		}
		list = append(list, Comparison{System: system, What: p.Op, Bytes: p.Bytes, Published: p.US, Simulated: us})
	}
	return addAstra(list)
}

// astra is the network of a node of H100 with which ASTRA-sim was validated.
const astra = "topology: [Switch]\nnpus_count: [8]\nbandwidth: [400.0]\nlatency: [936.25]\n"

// addAstra adds the measured all-reduces of 8 H100 on that network.
func addAstra(list []Comparison) ([]Comparison, error) {
	n, err := loggp.Parse("astra-sim.yaml", []byte(astra))
	if err != nil {
		return nil, err
	}
	for _, p := range predict.Points() {
		if p.GPU != "h100" || p.Nodes > 1 || p.Ranks != n.MaxRanks() || p.Op != predict.AllReduce {
			continue
		}
		us, err := callTime(n, p)
		if err != nil {
			return nil, err
		}
		list = append(list, Comparison{System: "h100, 8 GPUs, file of ASTRA-sim", What: p.Op, Bytes: p.Bytes, Published: p.US,
			Simulated: us})
	}
	return list, nil
}

// callTime returns the time of a collective whose ranks all start at the same time. A trace counts the input of one
// rank, while the sizes of measured all-gathers count the parts of all ranks.
func callTime(n loggp.Network, p predict.Point) (float64, error) {
	kind := kinds[p.Op]
	bytes := p.Bytes
	if kind == chakra.AllGather {
		bytes = max(1, bytes/int64(p.Ranks))
	}
	traces := make([]*chakra.Trace, p.Ranks)
	for rank := range traces {
		traces[rank] = &chakra.Trace{Rank: rank, Nodes: []chakra.Node{
			{ID: 1, Name: p.Op, Type: chakra.Coll, Collective: kind, Bytes: bytes}}}
	}
	return replayed(n, traces, replay.Options{})
}

// replayed returns the time of traces on a network, in microseconds.
func replayed(n loggp.Network, traces []*chakra.Trace, o replay.Options) (float64, error) {
	w, err := replay.New(traces, o)
	if err != nil {
		return 0, err
	}
	m, err := loggp.NewMachine(n, len(traces))
	if err != nil {
		return 0, err
	}
	r, err := w.Run(replay.OnNetwork(m, replay.Choice(replay.Auto)))
	if err != nil {
		return 0, err
	}
	return replay.Micros(r.Time), nil
}

// classes are ranges of sizes: up to 64 KiB latency dominates the time, and above 8 MiB bandwidth.
var classes = []struct {
	title string
	most  int64
}{{"to 64 KiB", 64 << 10}, {"to 8 MiB", 8 << 20}, {"above", math.MaxInt64}}

// Table returns the differences of collectives as a Markdown table, a line for each system and collective: the median
// differences by range of sizes, and the median and 90th percentile of their absolute values.
func Table(list []Comparison) string {
	var out strings.Builder
	out.WriteString("| measured on | collective | times |")
	for _, c := range classes {
		fmt.Fprintf(&out, " %s |", c.title)
	}
	out.WriteString(" median error | 90th percentile |\n|---|---|---|---|---|---|---|---|\n")
	key := func(c Comparison) [2]string { return [2]string{c.System, c.What} }
	for _, g := range lists.GroupBy(list, key) {
		fmt.Fprintf(&out, "| %s | %s | %d |", g.Key[0], g.Key[1], len(g.Items))
		lower := int64(0)
		for _, class := range classes {
			in := lists.Filter(g.Items, func(c Comparison) bool { return c.Bytes > lower && c.Bytes <= class.most })
			lower = class.most
			fmt.Fprintf(&out, " %s |", percent(stats.Median(sorted(in, Comparison.Difference))))
		}
		errors := sorted(g.Items, func(c Comparison) float64 { return math.Abs(c.Difference()) })
		fmt.Fprintf(&out, " %.0f %% | %.0f %% |\n", 100*stats.Median(errors), 100*errors[len(errors)*9/10])
	}
	return out.String()
}

func sorted(list []Comparison, value func(Comparison) float64) []float64 {
	return slices.Sorted(slices.Values(lists.Map(list, value)))
}

func percent(x float64) string { return fmt.Sprintf("%+.0f %%", 100*x) }
