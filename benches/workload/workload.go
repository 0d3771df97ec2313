// Package workload is the bench `workload`. It replays the execution traces of all ranks of a training or serving step
// on a simulated machine, and reports how long the step takes, how much of that is communication that nothing hides,
// and which operations are on the critical path.
package workload

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/result/predict"
	"github.com/kernbench/kernbench/internal/workload/chakra"
	"github.com/kernbench/kernbench/internal/workload/replay"
)

// The names of axes and options.
const (
	traceOption     = "trace"
	algorithmAxis   = "algorithm"
	streamsAxis     = "streams"
	commStreamsAxis = "comm-streams"
	flopsAxis       = "flops"
	memoryOption    = "memory-bandwidth"
	groupsOption    = "groups"
	perfettoOption  = "perfetto"
	writeOption     = "trace-et"
)

// Bench declares the bench.
func Bench() *bench.Bench {
	return bench.New("workload", body, slices.Concat([]bench.Clause{
		bench.Help("the time of a training or serving step from its execution traces, on a simulated machine"),
		bench.Doc(manual),
		bench.Backends(append(dist.Backends(isNetwork), dist.Backends(isAccelerator)...)...),
		bench.Ranks("1"),
		bench.DefaultRanks(ranksOf),
		bench.Sweepable(bench.Option(traceOption, bench.KindString, "",
			"traces PREFIX.RANK.et of all ranks, or several prefixes to compare; empty is a built-in example")),
		bench.Strings(algorithmAxis, replay.Auto),
		bench.Ints(streamsAxis, "1"),
		bench.Ints(commStreamsAxis, "0"),
		bench.Floats(flopsAxis, "0"),
		bench.Quantity(memoryOption, "0", "bytes per second of a rank's memory, for nodes with a tensor size"),
		bench.FileOption(groupsOption, "", `members of process groups as JSON: {"NAME": [RANK, ...]}`),
		bench.OutputFile(perfettoOption, "write a timeline of each point for Perfetto: FILE.json becomes FILE-POINT.json"),
		bench.OutputFile(writeOption, "write the replayed step of each point as traces: PREFIX becomes PREFIX-POINT"),
		bench.Metric(timeMetric, "us", "lower", "the step, until the last node has ended"),
		bench.Metric(computeMetric, "us", "", "time in which a stream computes, mean over ranks"),
		bench.Metric(commMetric, "us", "", "time in which communication is in progress, hidden or not"),
		bench.Metric(exposedMetric, "us", "lower", "time in which communication is in progress and nothing is computed"),
		bench.Metric(hostMetric, "us", "", "time in which only the host works"),
		bench.Metric(idleMetric, "us", "lower", "time in which nothing happens"),
		bench.Metric(exposedShare, "%", "lower", "exposed communication as a share of the step"),
		bench.Metric("messages", "", "", "messages on the network"),
		bench.Metric("bytes", "B", "", "bytes on the network"),
		bench.Reports("exposed_KIND_us", "us", "exposed communication of one kind of operation"),
		bench.Reports("exposed_group_NAME_us", "us", "exposed communication of one process group"),
		bench.Headline(timeMetric+"=step_us", computeMetric, exposedMetric, idleMetric, exposedShare),
		bench.Timeout(10 * time.Minute),
		bench.Refuse(validate),
		bench.Refuse(noteCost),
		bench.Refuse(noteUnused),
		bench.ContentHashes(predict.Digest, clusterOption),
		bench.ContentHashes(traceDigest, traceOption),
	}, declaredViews(), modelOptions(), clusterOptions(), machine.FaultOptions(), machine.FaultMetrics(),
		machine.Options("network or topology file, or several to compare (default: "+bench.BuiltIn+")"))...)
}

// isNetwork reports whether a backend is a simulated network, whose rank 0 stands for all ranks.
func isNetwork(d dist.Description) bool { return d.Simulated && d.Virtual }

func isNetworkName(backend string) bool { return slices.Contains(dist.Backends(isNetwork), backend) }

// The metrics of a row. Times are means over the ranks, except the time of the step.
const (
	timeMetric    = "time_us"
	computeMetric = "compute_us"
	commMetric    = "comm_us"
	exposedMetric = "exposed_us"
	hostMetric    = "host_us"
	idleMetric    = "idle_us"
	exposedShare  = "exposed_pct"
)

// manual is the help text of the bench.
const manual = `Replays the Chakra execution traces of all ranks, PREFIX.0.et, PREFIX.1.et and so
on, on a simulated network. Compute nodes take their duration, or num_ops over
--flops. Collectives become the library's schedules, by --algorithm. On a simulated
accelerator (--backend ahbm) an all-reduce takes the time of its own kernel.

time_us is the step. For each rank it is divided into compute_us, exposed_us (only
communication is under way), host_us and idle_us. Rows have the means over the ranks.

--algorithm applies to all collectives that have it, and the others take the default.
With recorded, no network is simulated and communication takes the durations of the
traces. --streams and --comm-streams limit what a rank runs at a time.

--model generates the step of a model instead of reading traces, and --cluster takes
network and GPUs from a cluster of GPUs. --slow-rank 3:2x, --slow-link NAME:4x,
--dead-link NAME and --start-offset 3:10us make the network faulty.

  kernbench run --bench workload --trace traces/step --algorithm ring,halving-doubling,direct
  kernbench run --bench workload --trace traces/step --topology fast.yaml,slow.yaml --perfetto step.json
  kernbench run --bench workload --trace traces/step --flops 200e12,400e12 --streams 1,2
  kernbench run --bench workload --model llama3-70b --tp 8 --pp 4 --micro-batches 8 --cluster h100-8x4,b200-8x4
  kernbench run --bench workload --model mixtral-8x7b --dp 8 --ep 1,2,4,8 --sequence 2048 --cluster h200-8x1
  kernbench run --bench workload --slow-rank none,1:2x --start-offset none,0:50us
  kernbench run --bench workload --trace traces/step --plan

'kernbench docs workload' explains traces, generated steps, clusters and results.`

// ranksOf returns the number of traces, or 0 after an error, which validate reports.
func ranksOf(p, options bench.Point) int {
	step, generated, err := stepOf(p, options)
	prefix := prefixOf(p, options)
	switch {
	case err != nil:
		return 0
	case generated:
		return step.Ranks()
	case prefix == "":
		return len(example())
	}
	files, err := chakra.Files(prefix)
	if err != nil {
		return 0
	}
	return len(files)
}

// validate refuses a run whose options or traces are wrong.
func validate(p, options bench.Point) error {
	for _, axis := range []string{streamsAxis, commStreamsAxis} {
		minimum := int64(0)
		if axis == streamsAxis {
			minimum = 1
		}
		if v := p.At(axis); v.Int() < minimum || v.Int() > 1<<20 {
			return fmt.Errorf("--%s %v: want %d to %d", axis, v, minimum, 1<<20)
		}
	}
	if v := p.At(flopsAxis); !(v.Float() >= 0 && v.Float() <= 1e21) {
		return fmt.Errorf("--%s %v: want operations per second, at most 1e21, or 0 for the durations of the traces",
			flopsAxis, v)
	}
	for _, option := range []string{perfettoOption, writeOption} {
		if file := options.At(option).String(); file != "" {
			if _, err := os.Stat(filepath.Dir(file)); err != nil {
				return fmt.Errorf("--%s %s: %w", option, file, err)
			}
		}
	}
	w, err := summaryOf(p, options)
	if err != nil {
		return err
	}
	if ranks := p.At(bench.RanksAxis).Int(); int(ranks) != w.ranks {
		return fmt.Errorf("--ranks %d: there are %d traces, one for each rank", ranks, w.ranks)
	}
	backend, algorithm := options.At(bench.BackendName).String(), p.At(algorithmAxis).String()
	if _, ok := dist.As[accelerator](backend); ok {
		err = w.checkAccelerator(backend, algorithm)
	} else if err = w.has(algorithm); err == nil {
		err = w.tooLarge(p)
	}
	if _, option := machine.Faults(p, options); option != "" && p.At(algorithmAxis).String() == replay.Recorded {
		return fmt.Errorf("--%s has no effect on the times of --%s %s", option, algorithmAxis, replay.Recorded)
	}
	if err != nil {
		return err
	}
	c, err := clusterOf(p, options)
	if c == nil || err != nil {
		return cmp.Or(err, machine.Refuse(p, options))
	}
	return checkCluster(c, p, options)
}
