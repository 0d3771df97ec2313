// Package published compares the simulated accelerator with every time that was published for the real one's
// simulator. The published times of transfers, all-reduces and products were made with whole messages; two checks of
// writes with flits. One set of parameters, the built-in topology, serves all of them.
package published

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/kernels"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/texttab"
)

// value is a published time and how to simulate it.
type value struct {
	name      string
	published float64 // ns
	simulate  func(t *topo.Topology) (float64, error)
}

// Variant is a fabric with which the values are simulated.
type Variant struct {
	Name     string
	fabric   topo.Fabric
	queueing topo.Queueing
}

// Variants returns the fabrics that are compared. The first is the one of most published values, the second the
// default of the topology file.
func Variants() []Variant {
	return []Variant{{"whole", topo.Whole, topo.Queueing{}}, {"flits", topo.Flits, topo.Queueing{}},
		{"round-robin", topo.Flits, topo.Queueing{Rule: topo.RoundRobin}}, {"age", topo.Flits, topo.Queueing{Rule: topo.Age}},
		{"buffers of 8", topo.Flits, topo.Queueing{Rule: topo.FIFO, Buffer: 8}}}
}

// values returns all published times.
func values() []value {
	const kib16 = 16 << 10
	all := []value{
		{"read 16 KiB, own memory", 77, transfers(kib16, false, access{})},
		{"read 16 KiB, other SIP", 409, transfers(kib16, false, access{by: topo.PEID{SIP: 1}})},
		{"read 16 KiB, 1 PE at a memory", 82, transfers(kib16, false, neighbours(1)...)},
		{"read 16 KiB, 2 PEs", 158, transfers(kib16, false, neighbours(2)...)},
		{"read 16 KiB, 3 PEs", 230, transfers(kib16, false, neighbours(3)...)},
		{"write 64 KiB, next cube (flits)", 545, transfers(64<<10, true, access{at: topo.PEID{Cube: 1}})},
		{"write 1 MiB, next cube (flits)", 8230, transfers(1<<20, true, access{at: topo.PEID{Cube: 1}})},
	}
	for _, r := range []struct {
		bytes    int
		tcm, hbm float64
	}{{256, 1678.04, 1858.04}, {2048, 1957.04, 2389.04}, {16384, 4225.04, 6673.04}, {65536, 12001.04, 21361.04}} {
		all = append(all,
			value{fmt.Sprintf("all-reduce %d B, slots in TCM", r.bytes), r.tcm, allReduce(r.bytes, topo.TCMSpace)},
			value{fmt.Sprintf("all-reduce %d B, slots in HBM", r.bytes), r.hbm, allReduce(r.bytes, topo.HBMSpace)})
	}
	return append(all, value{"all-reduce 98304 B, slots in TCM", 17_200, allReduce(96<<10, topo.TCMSpace)},
		value{"product 32x3072x32 load_ref, PE window", 1765, product(func(sim.Activity) bool { return true })},
		value{"product 32x3072x32 load_ref, composite", 992, product(sim.Activity.Stage)})
}

// access is a transfer between a PE and a memory.
type access struct{ by, at topo.PEID }

// neighbours returns reads of the first PE's memory by other PEs of its cube.
func neighbours(n int) (all []access) {
	for i := range n {
		all = append(all, access{by: topo.PEID{PE: i + 1}})
	}
	return all
}

// transfers simulates transfers that start together, and returns the time of the slowest.
func transfers(bytes int, write bool, all ...access) func(*topo.Topology) (float64, error) {
	return func(t *topo.Topology) (float64, error) {
		var programs []*program.Program
		for i, x := range all {
			addr, err := t.Address(topo.Location{PEID: x.at, Space: topo.HBMSpace, Offset: int64(i * bytes)})
			if err != nil {
				return 0, err
			}
			op := program.Op{Kind: program.Load, N: bytes / program.ElemSize, Addr: addr}
			if write {
				op.Kind = program.Store
			}
			programs = append(programs, &program.Program{ID: x.by, Ops: []program.Op{op}})
		}
		r, err := sim.Run(sim.Config{Topo: t, Buffer: topo.TCMSpace, Slots: 1, SlotBytes: program.ElemSize}, programs)
		if err != nil {
			return 0, err
		}
		return r.Crit.Nanoseconds(), nil
	}
}

// allReduce simulates the hierarchical all-reduce on a torus of 6 SIPs.
func allReduce(bytes int, slots topo.Space) func(*topo.Topology) (float64, error) {
	return func(t *topo.Topology) (float64, error) {
		t, err := t.WithSIPs(topo.Torus, 3, 2)
		if err != nil {
			return 0, err
		}
		c, err := ccl.Default().With(ccl.LRAB, func(s *ccl.Settings) { s.SlotBytes, s.Buffer = bytes, slots })
		if err != nil {
			return 0, err
		}
		s := accel.New(t, c)
		s.TimingOnly = true
		var tensors []*accel.Tensor
		for sip := range t.SIPs.Count {
			x, err := s.Zeros(sip, t.Cubes.Count(), bytes/program.ElemSize, accel.PerCube)
			if err != nil {
				return 0, err
			}
			tensors = append(tensors, x)
		}
		r, err := s.AllReduce(tensors)
		if err != nil {
			return 0, err
		}
		return r.Crit.Nanoseconds(), nil
	}
}

// product simulates the published matrix product, and returns the time from the first to the last of some activities.
func product(of func(sim.Activity) bool) func(*topo.Topology) (float64, error) {
	return func(t *topo.Topology) (float64, error) {
		s := accel.New(t, ccl.Default())
		s.TimingOnly = true
		p, err := kernels.Matmul{M: 32, K: 3072, N: 32, Variant: kernels.LoadRef}.Run(s, kernels.Operands{})
		if err != nil {
			return 0, err
		}
		window := p.Result.Usage[0].Of(of)
		return window.Active().Nanoseconds(), nil
	}
}

// Row is a published time with the simulated times, by variant.
type Row struct {
	Name      string    `json:"name"`
	Published float64   `json:"published_ns"`
	Simulated []float64 `json:"simulated_ns"`
}

// Difference returns how much the i-th simulated time differs from the published one, in percent.
func (r *Row) Difference(i int) float64 { return 100 * (r.Simulated[i] - r.Published) / r.Published }

// Report holds all rows.
type Report struct {
	Variants []string `json:"variants"`
	Rows     []Row    `json:"rows"`
}

// Run simulates every published value with every variant of a topology.
func Run(t *topo.Topology) (*Report, error) {
	r := &Report{}
	for _, v := range Variants() {
		r.Variants = append(r.Variants, v.Name)
	}
	for _, v := range values() {
		row := Row{Name: v.name, Published: v.published}
		for _, variant := range Variants() {
			m := topo.WithQueueing(t, variant.queueing)
			m.Fabric = variant.fabric
			ns, err := v.simulate(m)
			if err != nil {
				return nil, fmt.Errorf("%s with %s: %w", v.name, variant.Name, err)
			}
			row.Simulated = append(row.Simulated, ns)
		}
		r.Rows = append(r.Rows, row)
	}
	return r, nil
}

// Formats are the formats of Write.
var Formats = []string{"table", "json"}

// Write writes the report: ours, theirs and the difference.
func (r *Report) Write(w io.Writer, format string) error {
	switch format {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	case "table":
		return r.table().Write(w, 0)
	}
	return suggest.Unknown("format", format, Formats)
}

func (r *Report) table() *texttab.Table {
	t := &texttab.Table{Columns: []texttab.Column{{Title: "ns"}, {Title: "published", Right: true}}}
	for _, name := range r.Variants {
		t.Columns = append(t.Columns, texttab.Column{Title: name, Right: true}, texttab.Column{Title: "", Right: true})
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		cells := []string{row.Name, fmt.Sprintf("%g", row.Published)}
		for k, ns := range row.Simulated {
			cells = append(cells, fmt.Sprintf("%.2f", ns), fmt.Sprintf("%+.1f%%", row.Difference(k)))
		}
		t.Add(cells...)
	}
	return t
}
