// Package acceltransfers is the bench `accel-transfers`: how long transfers take on the simulated accelerator and why,
// and how close its times are to the published ones.
package acceltransfers

import (
	"cmp"
	"context"
	"slices"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist/ahbm"
	"github.com/kernbench/kernbench/internal/accel/dma"
	"github.com/kernbench/kernbench/internal/accel/published"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/machine"
)

// The parts and their axes.
const (
	transferPart  = "transfer"
	caseAxis      = "case"
	sizeAxis      = "size"
	fabricAxis    = machine.Fabric
	publishedPart = "published"
	valueAxis     = "value"
	modelAxis     = "model"
)

// The details of a row.
const (
	textDetail       = "what"       // the transfers, or the published value
	bottleneckDetail = "bottleneck" // the link or memory that needs the most time
)

// Bench declares accel-transfers.
func Bench() *bench.Bench {
	return bench.Suite("accel-transfers", append(views(),
		bench.Help("how long transfers take on the simulated accelerator, why, and how close it is to published times"),
		bench.Doc(`Simulates reads and writes by the host (h2d, d2h) and by a PE to near and far memories,
and reads of many PEs that meet at a memory or a port. The times of the slowest transfer
are split by cause, to the picosecond. of limit is the shortest possible time of the bytes
at the bottleneck, as a share of the time.

Only the time is simulated. The parts are computed independently from the paths. A row
fails if they do not add up to the time, if a link exceeds its rate or loses bytes, or if
half the bytes or an easier case (a shorter way, fewer PEs at the memory) take longer.

The part published simulates every published time, with several models of how messages
move. difference_pct is the difference from the published time. With whole messages a row
of the built-in machine fails if the model misses the value by more than it is known to.

  kernbench run --bench accel-transfers
  kernbench run --bench accel-transfers --topology my.yaml --only 'part=="transfer"' --case pe-other-sip,h2d-near
  kernbench run --bench accel-transfers --only 'part=="transfer"' --case one-port-8 --size 4K:1M:x4 --fabric flits,whole
  kernbench run --bench accel-transfers --only 'part=="published"'`),
		bench.Version(accel.Version()),
		bench.Backends(ahbm.Name),
		machine.Files(accel.TopologyFile(), "topology file, or several to compare; "+bench.BuiltIn+
			" is the built-in one (default: topology.yaml here, else built in)"),
		bench.Part(transferPart, transfer, transferClauses()...),
		bench.Part(publishedPart, compare,
			bench.Help("every published time and the simulated one"),
			bench.Strings(valueAxis, valueNames()...), decl.OneOf(valueAxis, valueNames()...),
			bench.Strings(modelAxis, fabricNames()...), decl.OneOf(modelAxis, fabricNames()...),
			bench.Metric("time_ns", "ns", "lower", "simulated time"),
			bench.Metric("published_ns", "ns", "", "published time"),
			bench.Metric("difference_pct", "%", "", "difference of the simulated time from the published one"),
			bench.Headline("time_ns", "published_ns", "difference_pct=difference (%)", textDetail)),
	)...)
}

// transferClauses declares the part of the transfers.
func transferClauses() []bench.Clause {
	fabrics := []string{machine.AsTopology, string(topo.Flits), string(topo.Whole)}
	clauses := []bench.Clause{
		bench.Help("single transfers and transfers that meet, with what their time consists of"),
		bench.Strings(caseAxis, dma.Names()...), decl.OneOf(caseAxis, dma.Names()...),
		bench.Bytes(sizeAxis, "4Ki:1Mi:x4"), bench.Refuse(checkSize),
		bench.Strings(fabricAxis, machine.AsTopology), decl.OneOf(fabricAxis, fabrics...),
		bench.Metric("time_ns", "ns", "lower", "time of the slowest transfer"),
		bench.Metric("fastest_ns", "ns", "lower", "time of the fastest transfer that started at the same time"),
	}
	headline := []string{"time_ns"}
	for i, c := range dma.Causes {
		clauses = append(clauses, bench.Metric(c.Name+"_ns", "ns", "lower", c.Help))
		if dma.Cause(i) != dma.Command { // the same for all transfers by PEs
			headline = append(headline, c.Name+"_ns="+c.Name)
		}
	}
	return append(clauses,
		bench.Metric("total_gbps", "GB/s", "higher", "rate of all transfers together"),
		bench.Metric("pct_of_limit", "%", "higher", "least time of the bytes at the bottleneck, as a share of the time"),
		bench.Reports("transfers", "", "transfers that start together"),
		bench.Headline(append(headline, "pct_of_limit=of limit (%)", bottleneckDetail)...))
}

func valueNames() []string {
	return lists.Map(published.Values(), func(v published.Value) string { return v.Name })
}

func fabricNames() []string {
	return lists.Map(published.Fabrics, func(f published.Fabric) string { return f.Name })
}

// checkSize rejects files and sizes that cannot be simulated.
func checkSize(p, options bench.Point) error {
	t, _, err := accel.Load(bench.FilePath(p, options, machine.Option), "")
	if err != nil {
		return err
	}
	return dma.New(t).CheckBytes(p.At(sizeAxis).Int())
}

// read returns the topology of a point and records it in the row.
func read(s *bench.State) (*topo.Topology, error) {
	path, data, err := machine.Note(s, topo.DefaultFile())
	if err != nil {
		return nil, err
	}
	s.Kind(bench.Simulated)
	return topo.Parse(cmp.Or(path, bench.BuiltIn), data)
}

// transfer is the body of the transfers.
func transfer(_ context.Context, s *bench.State) error {
	t, err := read(s)
	if err != nil {
		return err
	}
	if f := s.Str(fabricAxis); f != machine.AsTopology {
		t.Fabric = topo.Fabric(f)
	}
	s.Detail(machine.Fabric, string(t.Fabric))
	m := dma.New(t)
	c := m.Case(s.Str(caseAxis))
	if c.Missing != "" {
		return bench.Skip("%s", c.Missing)
	}
	r, err := m.Run(c, s.Int(sizeAxis))
	if err != nil {
		return err
	}
	s.Record("time_ns", r.Time.Nanoseconds())
	s.Record("fastest_ns", r.Fastest.Nanoseconds())
	for i, part := range r.Parts {
		s.Record(dma.Causes[i].Name+"_ns", part.Nanoseconds())
	}
	s.Record("total_gbps", r.GBps())
	s.Record("pct_of_limit", 100*float64(r.Limit)/float64(r.Time))
	s.Report("transfers", float64(r.Transfers), "", "")
	s.Limit("bandwidth", r.Limit.Nanoseconds()/1e3)
	s.Detail(bottleneckDetail, r.Bottleneck)
	s.Detail(textDetail, c.Text)
	return nil
}

// compare is the body of the published times.
func compare(_ context.Context, s *bench.State) error {
	t, err := read(s)
	if err != nil {
		return err
	}
	all := published.Values()
	v := all[slices.Index(valueNames(), s.Str(valueAxis))]
	f := published.Fabrics[slices.Index(fabricNames(), s.Str(modelAxis))]
	s.Detail(machine.Fabric, f.Name)
	s.Detail(textDetail, v.Text)
	ns, err := v.Simulate(t, f)
	if err != nil {
		return err
	}
	s.Record("time_ns", ns)
	s.Record("published_ns", v.Time)
	s.Record("difference_pct", v.Difference(ns))
	return nil
}
