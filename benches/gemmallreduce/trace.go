package gemmallreduce

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/workload/chakra"
)

// traceOption names the option for execution traces.
const traceOption = "trace-et"

// declareTrace declares the option.
func declareTrace() bench.Clause {
	return bench.OutputFile(traceOption,
		"write an execution trace of each point for the bench workload: PREFIX becomes PREFIX-POINT.RANK.et")
}

// checkTrace refuses a prefix in a folder that does not exist.
func checkTrace(_, options bench.Point) error {
	if prefix := options.At(traceOption).String(); prefix != "" {
		if _, err := os.Stat(filepath.Dir(prefix)); err != nil {
			return fmt.Errorf("--%s %s: %w", traceOption, prefix, err)
		}
	}
	return nil
}

// writeTrace writes the traces of all ranks of a point, if they were asked for.
func writeTrace(s *bench.State, o outcome) error {
	prefix := s.Str(traceOption)
	if prefix == "" || s.Rank() > 0 || !(o.time > 0) {
		return nil
	}
	for _, axis := range []string{shapeAxis, dtypeAxis, splitAxis, partitionsAxis} {
		prefix += "-" + strings.ReplaceAll(s.Str(axis), "/", "_")
	}
	if !o.plan.Overlap {
		prefix += "-sequential"
	}
	prefix += fmt.Sprintf("-%dranks", s.Size())
	if err := chakra.Write(prefix, o.traces(s.Size(), int64(s.DType(dtypeAxis).Size()))); err != nil {
		return fmt.Errorf("--%s: %w", traceOption, err)
	}
	return nil
}

// traces returns the point as a graph of products and all-reduces. Only the times of the product and of the all-reduce
// alone are known, and the time of the whole point. So each partition gets its share of these times, scaled by one
// factor for all, so that the step takes the time of the point.
func (o outcome) traces(ranks int, elemBytes int64) []*chakra.Trace {
	parts, total := max(o.plan.Partitions, 1), o.plan.M*o.plan.N
	gemm, reduce := o.gemm, o.allReduce
	if o.gemmParts > 0 {
		gemm, reduce = o.gemmParts, o.allReduceParts
	}
	step := event.Time(math.Round(o.time * float64(event.Microsecond)))
	var nodes []chakra.Node
	factor := 1.0
	for range 2 { // the first time shows how long the parts take without a factor
		nodes = nodes[:0]
		multiplied, reduced := event.Time(0), event.Time(0)
		for i := range parts {
			_, elements := schedule.Split(total, parts, i)
			share := factor * float64(elements) / float64(max(total, 1)) * float64(event.Microsecond)
			product := chakra.Node{ID: uint64(2*i + 1), Name: fmt.Sprintf("product %d", i), Type: chakra.Comp,
				Start: multiplied, Duration: event.Time(math.Round(gemm * share)), Ops: 2 * int64(elements) * int64(o.plan.K)}
			if i > 0 {
				product.CtrlDeps = []uint64{uint64(2*i - 1)}
				if !o.plan.Overlap {
					product.Start, product.CtrlDeps = reduced, []uint64{uint64(2 * i)}
				}
			}
			multiplied = product.Start + product.Duration
			sum := chakra.Node{ID: uint64(2*i + 2), Name: fmt.Sprintf("all-reduce %d", i), Type: chakra.Coll,
				Collective: chakra.AllReduce, Bytes: max(int64(elements)*elemBytes, 1), DataDeps: []uint64{product.ID},
				Start: max(multiplied, reduced), Duration: event.Time(math.Round(reduce * share))}
			reduced = sum.Start + sum.Duration
			nodes = append(nodes, product, sum)
		}
		if reduced > 0 {
			factor *= float64(step) / float64(reduced)
		}
	}
	last := &nodes[len(nodes)-1]
	last.Duration = max(step-last.Start, 1) // without the rounding of the others
	traces := make([]*chakra.Trace, ranks)
	for rank := range traces {
		traces[rank] = &chakra.Trace{Rank: rank, Nodes: nodes}
	}
	return traces
}
