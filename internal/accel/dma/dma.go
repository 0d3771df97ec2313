// Package dma simulates transfers between the host, the DMA engines of PEs and the HBM, on an idle machine and with
// contention. Package sim simulates their times. This package computes the breakdown of the times independently, from
// the paths and the rules of the model alone, so every row is also a check of the simulator. Further checks compare the
// rates of links, and the order of sizes and distances.
package dma

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// Row holds the times of transfers that started together. Time and Parts describe the slowest one.
type Row struct {
	Transfers     int
	Bytes         int // per transfer
	Time, Fastest event.Time
	Parts         Parts      // of Time
	Limit         event.Time // the least time that the bytes need at the bottleneck
	Bottleneck    string     // the link or memory with the largest limit

	busy, due event.Time // how long the links were sending, and how long the bytes should take on them
}

// Cause is a cause of time in a transfer.
type Cause int

// The causes.
const (
	Command Cause = iota
	Nodes
	Wires
	Drain
	Memory
	Queueing
	causes
)

// Causes holds the name and the meaning of each cause.
var Causes = [causes]struct{ Name, Help string }{
	{"command", "issuing it: PE_CPU, dispatch, scheduler, TLB; 0 for the host"},
	{"nodes", "overheads of UCIe ports, PCIe endpoints, switch and controllers on the path"},
	{"wires", "propagation"},
	{"drain", "links sending: the bytes at the slowest link, and filling the links"},
	{"memory", "bursts of the HBM that are not hidden by a link"},
	{"queueing", "waiting for other transfers"},
}

// Parts splits the time of a transfer by cause. Each picosecond has exactly one cause.
type Parts [causes]event.Time

// GBps returns the rate of all transfers together.
func (r *Row) GBps() float64 {
	return float64(r.Transfers) * float64(r.Bytes) / r.Time.Nanoseconds()
}

// Transfer is one read or write of HBM, by a PE or by the host of a SIP.
type Transfer struct {
	By    topo.PEID
	Host  bool
	At    topo.Location
	Bytes int
	Write bool
}

// end returns the end of paths at the reader or writer.
func (x Transfer) end() topo.End {
	if x.Host {
		return topo.End{Kind: topo.AtHost, PEID: topo.PEID{SIP: x.By.SIP}}
	}
	return topo.End{Kind: topo.AtPE, PEID: x.By}
}

// memory returns the end of paths at the memory controller.
func (x Transfer) memory() topo.End { return topo.End{Kind: topo.AtHBM, PEID: x.At.PEID} }

// Machine simulates transfers and explains them.
type Machine struct {
	*topo.Topology
	wiring *topo.Wiring
}

// New returns the machine of a topology.
func New(t *topo.Topology) *Machine { return &Machine{t, topo.NewWiring(t)} }

// CheckBytes returns an error for a size that transfers cannot have.
func (m *Machine) CheckBytes(bytes int64) error {
	if bytes < program.ElemSize || bytes%program.ElemSize != 0 || bytes > m.HBMSlice() {
		return fmt.Errorf("transfers of %d bytes: want an even number up to %d, the memory of a PE", bytes, m.HBMSlice())
	}
	return nil
}

// Run simulates a case and checks the row. A row that fails a check is returned with the error.
func (m *Machine) Run(c Case, bytes int) (Row, error) {
	row, err := m.measure(c.transfers(bytes))
	if err == nil {
		err = row.check(c)
	}
	if err == nil {
		err = m.checkOrder(&row, c)
	}
	return row, err
}

// measure simulates transfers that start together, and the slowest of them alone: the difference is queueing.
func (m *Machine) measure(xs []Transfer) (Row, error) {
	r, err := m.Simulate(xs)
	if err != nil {
		return Row{}, err
	}
	slowest := xs[r.Slowest]
	idle := r
	if len(xs) > 1 {
		if idle, err = m.Simulate([]Transfer{slowest}); err != nil {
			return Row{}, err
		}
	}
	row := Row{Transfers: len(xs), Bytes: slowest.Bytes, Time: r.Crit, Fastest: slices.Min(r.Exec)}
	if row.Parts, err = m.explain(slowest); err != nil {
		return Row{}, err
	}
	row.Parts[Queueing] = r.Crit - idle.Crit
	for _, busy := range r.Busy.All() {
		row.busy += busy
	}
	return row, m.bound(&row, xs)
}

// Simulate runs a program for each transfer.
func (m *Machine) Simulate(xs []Transfer) (*sim.Result, error) {
	var programs []*program.Program
	for _, x := range xs {
		addr, err := m.Address(x.At)
		if err != nil {
			return nil, err
		}
		op := program.Op{Kind: program.Load, N: x.Bytes / program.ElemSize, Addr: addr}
		if x.Write {
			op.Kind = program.Store
		}
		programs = append(programs, &program.Program{ID: x.By, Host: x.Host, Ops: []program.Op{op}})
	}
	return sim.Run(sim.Config{Topo: m.Topology, Buffer: topo.TCMSpace, Slots: 1, SlotBytes: program.ElemSize}, programs)
}

// bound finds the bottleneck: the link or memory that needs the most time for its bytes at its rate.
func (m *Machine) bound(row *Row, xs []Transfer) error {
	bytes := map[int32]int{}
	rate := map[int32]topo.Bandwidth{}
	channels := map[topo.PEID][]event.Time{}
	var links []int32 // in order, so that the first of several bottlenecks is named
	for _, x := range xs {
		from, to := x.memory(), x.end()
		if x.Write {
			from, to = to, from
		}
		way, err := m.wiring.Path(from, to)
		if err != nil {
			return err
		}
		for _, h := range way {
			if _, known := rate[h.Link]; !known {
				links = append(links, h.Link)
			}
			rate[h.Link] = h.BW
			bytes[h.Link] += x.Bytes
			row.due += m.sending(h.BW, x.Bytes)
		}
		c := channels[x.At.PEID]
		if c == nil {
			c = make([]event.Time, m.Cube.HBM.Channels)
			channels[x.At.PEID] = c
		}
		for off := 0; off < x.Bytes; off += m.piece() {
			m.bursts(x, off, x.Write, func(ch int) { c[ch] += m.burst() })
		}
	}
	for _, link := range links {
		if need := rate[link].Time(bytes[link]); need > row.Limit {
			row.Limit, row.Bottleneck = need, m.wiring.LinkName(int(link))
		}
	}
	for _, x := range xs {
		if need := slices.Max(channels[x.At.PEID]); need > row.Limit {
			row.Limit, row.Bottleneck = need, fmt.Sprintf("channels of %v.hbm", x.At.PEID)
		}
	}
	return nil
}

// sending returns how long a link is busy with a message.
func (m *Machine) sending(bw topo.Bandwidth, bytes int) event.Time {
	if m.Fabric == topo.Whole {
		return bw.Time(bytes)
	}
	full := bytes / m.FlitBytes
	return event.Time(full)*bw.Time(m.FlitBytes) + bw.Time(bytes-full*m.FlitBytes)
}

// check checks that the parts of a row add up to its time, that only competing transfers queue, that no transfer is
// faster than its busiest link or memory allows, and that the links carried exactly the requested bytes.
func (r *Row) check(c Case) error {
	sum := event.Time(0)
	for cause, part := range r.Parts {
		if part < 0 {
			return fmt.Errorf("the part %s is %v", Causes[cause].Name, part)
		}
		sum += part
	}
	switch queueing := r.Parts[Queueing]; {
	case queueing != 0 && r.Transfers == 1:
		return fmt.Errorf("%v of queueing, alone on the machine", queueing)
	case queueing != 0 && c.apart:
		return fmt.Errorf("%v of queueing, of transfers with nothing in common", queueing)
	case sum != r.Time:
		return fmt.Errorf("the parts are %v, the time is %v", sum, r.Time)
	case r.Time < r.Limit:
		return fmt.Errorf("%v, but %s needs %v for the bytes", r.Time, r.Bottleneck, r.Limit)
	case r.busy != r.due:
		return fmt.Errorf("the links were sending for %v, the bytes take %v", r.busy, r.due)
	}
	return nil
}

// checkOrder checks that half the bytes take less time, and that an easier case, with a shorter way or with fewer
// transfers at one memory, does not take more.
func (m *Machine) checkOrder(r *Row, c Case) error {
	if half := r.Bytes / 2 / program.ElemSize * program.ElemSize; half > 0 {
		fewer, err := m.Simulate(c.transfers(half))
		if err != nil {
			return err
		}
		if fewer.Crit >= r.Time {
			return fmt.Errorf("%d bytes take %v, %d bytes %v", half, fewer.Crit, r.Bytes, r.Time)
		}
	}
	for c.easier != "" {
		if c = m.Case(c.easier); c.Missing != "" {
			continue
		}
		easier, err := m.Simulate(c.transfers(r.Bytes))
		if err != nil {
			return err
		}
		if easier.Crit > r.Time {
			return fmt.Errorf("%s takes %v, and this only %v", c.Name, easier.Crit, r.Time)
		}
		break
	}
	return nil
}
