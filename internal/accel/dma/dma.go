// Package dma computes the latency tables of a topology: transfers between the host, the DMA engines of PEs and the
// HBM, on an idle machine, by size, and with contention. Package sim simulates their times. This package computes the
// breakdown of the times independently, from the paths and the rules of the model alone, so every row is also a check
// of the simulator. Further checks compare the rates of links, the order of sizes and distances, and published values.
package dma

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
)

// BuiltIn is the name of the built-in topology, for which values have been published.
const BuiltIn = "built-in"

// Report holds the tables and checks of one topology.
type Report struct {
	Topology string      `json:"topology"`
	SHA256   string      `json:"sha256"` // of the file
	Fabric   topo.Fabric `json:"fabric"`
	SIPs     int         `json:"sips"`
	Cubes    int         `json:"cubes_per_sip"`
	PEs      int         `json:"pes_per_cube"`
	Rows     []Row       `json:"rows"`
	Missing  []string    `json:"missing,omitempty"` // cases that are impossible on this machine, with the reason
	Checks   []Check     `json:"checks"`
	// Exceptions explain the numbers of the file that make some transfers slower where they should be faster.
	Exceptions []string `json:"exceptions,omitempty"`
	// Varied is the number of values in the file that were changed to find Exceptions.
	Varied int `json:"varied,omitempty"`

	swept    []int // bytes of the transfers of the size table
	together []int // bytes of each transfer of the congestion table
}

// Row holds the times of transfers that started together. Time and Parts describe the slowest one.
type Row struct {
	Table      string      `json:"table"` // idle, size, congestion or published
	Case       string      `json:"case"`
	Text       string      `json:"text"`
	Fabric     topo.Fabric `json:"fabric"`
	Transfers  int         `json:"transfers"`
	Bytes      int         `json:"bytes"` // per transfer
	Time       ns          `json:"time_ns"`
	Fastest    ns          `json:"fastest_ns"`
	Parts                  // of Time
	Limit      ns          `json:"limit_ns"`   // the least time that the bytes need at the bottleneck
	Bottleneck string      `json:"bottleneck"` // the link or memory with the largest limit
	Published  ns          `json:"published_ns,omitempty"`

	within    float64    // accepted relative difference from the published value
	busy, due event.Time // how long the links were sending, and how long the bytes should take on them
}

// Parts splits the time of a transfer by cause. Each picosecond has exactly one cause.
type Parts struct {
	Command  ns `json:"command_ns"`  // issuing it: PE_CPU, dispatch, scheduler, TLB; 0 for the host
	Nodes    ns `json:"nodes_ns"`    // overheads of UCIe ports, PCIe endpoints, switch and controllers on the path
	Wires    ns `json:"wires_ns"`    // propagation
	Drain    ns `json:"drain_ns"`    // links sending: the bytes at the slowest link, and filling the links
	Memory   ns `json:"memory_ns"`   // bursts of the HBM that are not hidden by a link
	Queueing ns `json:"queueing_ns"` // waiting for other transfers
}

// list returns the parts in the order of their columns.
func (p Parts) list() []ns {
	return []ns{p.Command, p.Nodes, p.Wires, p.Drain, p.Memory, p.Queueing}
}

// partNames holds the column titles of the parts.
var partNames = []string{"command", "nodes", "wires", "drain", "memory", "queueing"}

// Total returns the sum of the parts.
func (p Parts) Total() (sum ns) {
	for _, part := range p.list() {
		sum += part
	}
	return sum
}

// GBps returns the rate of all transfers together.
func (r *Row) GBps() float64 {
	return float64(r.Transfers) * float64(r.Bytes) / event.Time(r.Time).Nanoseconds()
}

// Used returns the used share of the bottleneck's rate.
func (r *Row) Used() float64 { return float64(r.Limit) / float64(r.Time) }

// ns is a time that is printed in nanoseconds, exactly.
type ns event.Time

func (t ns) String() string { return fmt.Sprintf("%.3f", event.Time(t).Nanoseconds()) }

// MarshalJSON implements json.Marshaler: the time is a number.
func (t ns) MarshalJSON() ([]byte, error) { return []byte(t.String()), nil }

// transfer is one read or write of HBM, by a PE or by the host of a SIP.
type transfer struct {
	by    topo.PEID
	host  bool
	at    topo.Location
	bytes int
	write bool
}

// end returns the end of paths at the reader or writer.
func (x transfer) end() topo.End {
	if x.host {
		return topo.End{Kind: topo.AtHost, PEID: topo.PEID{SIP: x.by.SIP}}
	}
	return topo.End{Kind: topo.AtPE, PEID: x.by}
}

// memory returns the end of paths at the memory controller.
func (x transfer) memory() topo.End { return topo.End{Kind: topo.AtHBM, PEID: x.at.PEID} }

// machine simulates transfers and explains them.
type machine struct {
	*topo.Topology
	wiring *topo.Wiring
}

// Plan is a topology and the cases to be measured on it.
type Plan struct {
	report Report
	topo   *topo.Topology
	cases  []testCase
}

// Options select what is measured. The zero value measures everything.
type Options struct {
	Cases  []string    // names or globs; none: all
	Fabric topo.Fabric // "": as the topology says
	Sizes  []int       // of the table by size and of concurrent transfers; none: 4 KiB to 1 MiB, and 16 KiB
}

// New reads a topology file and selects the cases.
func New(name string, file []byte, o Options) (*Plan, error) {
	t, err := topo.Parse(name, file)
	if err != nil {
		return nil, err
	}
	t.Fabric = cmp.Or(o.Fabric, t.Fabric)
	swept, together := sweepBytes, []int{congestedBytes}
	if len(o.Sizes) > 0 {
		swept = slices.Compact(slices.Sorted(slices.Values(o.Sizes)))
		together = swept
	}
	for _, size := range swept {
		if size < program.ElemSize || size%program.ElemSize != 0 || int64(size) > t.HBMSlice() {
			return nil, fmt.Errorf("transfers of %d bytes: want an even number up to %d, the memory of a PE", size,
				t.HBMSlice())
		}
	}
	p := &Plan{topo: t, report: Report{Topology: name, SHA256: fmt.Sprintf("%x", sha256.Sum256(file)), Fabric: t.Fabric,
		SIPs: t.SIPs.Count, Cubes: t.Cubes.Count(), PEs: t.PEs(), swept: swept, together: together}}
	p.cases, err = choose(newMachine(t).cases(swept, together), o.Cases)
	return p, err
}

// Run simulates all cases and checks the rows.
func (p *Plan) Run() (*Report, error) {
	r := p.report
	m, old := newMachine(p.topo), newMachine(p.topo.Clone())
	old.Fabric = topo.Whole
	for _, c := range p.cases {
		at := m
		if c.table == publishedTable {
			if at = old; !isPublished(p.topo) {
				c.missing = "the published values belong to another machine"
			}
		}
		if c.missing != "" {
			r.Missing = append(r.Missing, c.name+": "+c.missing)
			continue
		}
		for _, bytes := range c.sizes {
			row, err := at.measure(c.transfers(bytes))
			if err != nil {
				return nil, fmt.Errorf("case %s of %d bytes: %w", c.name, bytes, err)
			}
			row.Table, row.Case, row.Text, row.Published, row.within = c.table, c.name, c.text, c.published, c.within
			r.Rows = append(r.Rows, row)
		}
	}
	r.check()
	return &r, nil
}

func newMachine(t *topo.Topology) *machine { return &machine{t, topo.NewWiring(t)} }

// isPublished reports whether t is the built-in machine, except for the fabric.
func isPublished(t *topo.Topology) bool {
	built := topo.Default()
	built.Fabric = t.Fabric
	return reflect.DeepEqual(built, t)
}

// choose returns the cases that match wanted, or all if it is empty. Each name or glob must match a case.
func choose(all []testCase, wanted []string) (chosen []testCase, err error) {
	if len(wanted) == 0 {
		return all, nil
	}
	names := lists.Distinct(lists.Map(all, func(c testCase) string { return c.name }))
	for _, w := range wanted {
		matches := func(name string) bool { ok, _ := path.Match(w, name); return ok }
		if !slices.ContainsFunc(names, matches) {
			return nil, suggest.Unknown("case", w, names)
		}
	}
	for _, c := range all {
		if slices.ContainsFunc(wanted, func(w string) bool { ok, _ := path.Match(w, c.name); return ok }) {
			chosen = append(chosen, c)
		}
	}
	return chosen, nil
}

// measure simulates transfers that start together, and the slowest of them alone: the difference is queueing.
func (m *machine) measure(xs []transfer) (Row, error) {
	r, err := m.simulate(xs)
	if err != nil {
		return Row{}, err
	}
	slowest := xs[r.Slowest]
	idle := r
	if len(xs) > 1 {
		if idle, err = m.simulate([]transfer{slowest}); err != nil {
			return Row{}, err
		}
	}
	row := Row{Fabric: m.Fabric, Transfers: len(xs), Bytes: slowest.bytes, Time: ns(r.Crit),
		Fastest: ns(slices.Min(r.Exec))}
	if row.Parts, err = m.explain(slowest); err != nil {
		return Row{}, err
	}
	row.Queueing = ns(r.Crit - idle.Crit)
	for _, busy := range r.Busy.All() {
		row.busy += busy
	}
	return row, m.bound(&row, xs)
}

// simulate runs a program for each transfer.
func (m *machine) simulate(xs []transfer) (*sim.Result, error) {
	var programs []*program.Program
	for _, x := range xs {
		addr, err := m.Address(x.at)
		if err != nil {
			return nil, err
		}
		op := program.Op{Kind: program.Load, N: x.bytes / program.ElemSize, Addr: addr}
		if x.write {
			op.Kind = program.Store
		}
		programs = append(programs, &program.Program{ID: x.by, Host: x.host, Ops: []program.Op{op}})
	}
	return sim.Run(sim.Config{Topo: m.Topology, Buffer: topo.TCMSpace, Slots: 1, SlotBytes: program.ElemSize}, programs)
}

// bound finds the bottleneck: the link or memory that needs the most time for its bytes at its rate.
func (m *machine) bound(row *Row, xs []transfer) error {
	bytes := map[int32]int{}
	rate := map[int32]topo.Bandwidth{}
	channels := map[topo.PEID][]event.Time{}
	var links []int32 // in order, so that the first of several bottlenecks is named
	for _, x := range xs {
		from, to := x.memory(), x.end()
		if x.write {
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
			bytes[h.Link] += x.bytes
			row.due += m.sending(h.BW, x.bytes)
		}
		c := channels[x.at.PEID]
		if c == nil {
			c = make([]event.Time, m.Cube.HBM.Channels)
			channels[x.at.PEID] = c
		}
		for off := 0; off < x.bytes; off += m.piece() {
			m.bursts(x, off, x.write, func(ch int) { c[ch] += m.burst() })
		}
	}
	for _, link := range links {
		if need := ns(rate[link].Time(bytes[link])); need > row.Limit {
			row.Limit, row.Bottleneck = need, m.wiring.LinkName(int(link))
		}
	}
	for _, x := range xs {
		if need := ns(slices.Max(channels[x.at.PEID])); need > row.Limit {
			row.Limit, row.Bottleneck = need, fmt.Sprintf("channels of %v.hbm", x.at.PEID)
		}
	}
	return nil
}

// sending returns how long a link is busy with a message.
func (m *machine) sending(bw topo.Bandwidth, bytes int) event.Time {
	if m.Fabric == topo.Whole {
		return bw.Time(bytes)
	}
	full := bytes / m.FlitBytes
	return event.Time(full)*bw.Time(m.FlitBytes) + bw.Time(bytes-full*m.FlitBytes)
}

// Check is a property that the rows must have.
type Check struct {
	Name   string   `json:"name"`
	Text   string   `json:"text"`
	Rows   int      `json:"rows"` // number of rows or pairs of rows checked; 0 means that there was nothing to check
	Faults []string `json:"faults,omitempty"`
}

// OK reports whether the check found no fault.
func (c *Check) OK() bool { return len(c.Faults) == 0 }

// expect counts one comparison and, unless it holds, records a fault.
func (c *Check) expect(holds bool, format string, args ...any) {
	c.Rows++
	if !holds {
		c.Faults = append(c.Faults, fmt.Sprintf(format, args...))
	}
}

// Failed returns the number of failed checks.
func (r *Report) Failed() (n int) {
	for i := range r.Checks {
		if !r.Checks[i].OK() {
			n++
		}
	}
	return n
}

// check fills in Checks.
func (r *Report) check() {
	r.Checks = []Check{
		r.checkRows("breakdown", "the parts add up to the time, none is negative, and only competing transfers queue",
			breaksDown),
		r.checkRows("rate", "no transfer is faster than its busiest link or memory allows", func(row *Row) string {
			if row.Time >= row.Limit {
				return ""
			}
			return fmt.Sprintf("%v ns, but %s needs %v for the bytes", row.Time, row.Bottleneck, row.Limit)
		}),
		r.checkRows("bytes", "the links were busy for exactly the time that the requested bytes take",
			func(row *Row) string {
				if row.busy == row.due {
					return ""
				}
				return fmt.Sprintf("the links were sending for %v, the bytes take %v", row.busy, row.due)
			}),
		r.checkSizes(),
		r.checkOrder("distance", "a longer distance does not take less time", idleTable,
			[]string{"pe-local-hbm", "pe-cube-near", "pe-cube-far", "pe-next-cube", "pe-far-cube"},
			[]string{"pe-local-hbm", "pe-other-sip"},
			[]string{"pe-local-hbm-write", "pe-cube-near-write", "pe-cube-far-write", "pe-next-cube-write", "pe-far-cube-write"},
			[]string{"pe-local-hbm-write", "pe-other-sip-write"}, []string{"h2d-near", "h2d-far"},
			[]string{"d2h-near", "d2h-far"}),
		r.checkOrder("congestion", "with more PEs at one memory, the last one takes longer", congestionTable,
			[]string{"one-controller-1", "one-controller-2", "one-controller-3", "one-controller-8", "all-to-one"}),
		r.checkMatching("all-local", "PEs that read their own memory do not wait for each other", func(row *Row) string {
			if row.Case != "all-local" || row.Queueing == 0 {
				return ""
			}
			return fmt.Sprintf("%v ns of queueing", row.Queueing)
		}, func(row *Row) bool { return row.Case == "all-local" }),
		r.checkMatching("published", "the published reads match (see 'kernbench docs accelerator-model')", asPublished,
			func(row *Row) bool { return row.Table == publishedTable }),
	}
}

// checkRows checks every row; fault returns the fault of a row, or "".
func (r *Report) checkRows(name, text string, fault func(*Row) string) Check {
	return r.checkMatching(name, text, fault, func(*Row) bool { return true })
}

// checkMatching checks the selected rows; fault returns the fault of a row, or "".
func (r *Report) checkMatching(name, text string, fault func(*Row) string, of func(*Row) bool) Check {
	c := Check{Name: name, Text: text}
	for i := range r.Rows {
		if row := &r.Rows[i]; of(row) {
			what := fault(row)
			c.expect(what == "", "%s, %d bytes: %s", row.Case, row.Bytes, what)
		}
	}
	return c
}

func breaksDown(row *Row) string {
	for i, part := range row.list() {
		if part < 0 {
			return fmt.Sprintf("%s is %v ns", partNames[i], part)
		}
	}
	if row.Transfers == 1 && row.Queueing != 0 {
		return fmt.Sprintf("%v ns of queueing, alone on the machine", row.Queueing)
	}
	if sum := row.Total(); sum != row.Time {
		return fmt.Sprintf("the parts are %v ns, the time is %v", sum, row.Time)
	}
	return ""
}

// asPublished compares a row with its published value, which is rounded to nanoseconds.
func asPublished(row *Row) string {
	have, want := event.Time(row.Time).Nanoseconds(), event.Time(row.Published).Nanoseconds()
	if math.Abs(math.Round(have)-want) <= row.within*want {
		return ""
	}
	return fmt.Sprintf("%v ns, published %g, which may differ by %.0f %%", row.Time, want, 100*row.within)
}

// checkSizes checks that the time of a case increases with the number of bytes.
func (r *Report) checkSizes() Check {
	c := Check{Name: "size", Text: "more bytes take longer"}
	last := map[[2]string]*Row{} // by table and case
	for i := range r.Rows {
		row := &r.Rows[i]
		key := [2]string{row.Table, row.Case}
		if before := last[key]; before != nil {
			c.expect(row.Time > before.Time, "%s: %d bytes take %v ns, %d bytes %v", row.Case, before.Bytes, before.Time,
				row.Bytes, row.Time)
		}
		last[key] = row
	}
	return c
}

// checkOrder checks that times do not decrease along each list of cases.
func (r *Report) checkOrder(name, text, table string, lists ...[]string) Check {
	c := Check{Name: name, Text: text + ": " + strings.Join(lists[0], ", ")}
	type key struct {
		name  string
		bytes int
	}
	times, sizes := map[key]*Row{}, map[int]bool{}
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Table == table {
			times[key{row.Case, row.Bytes}] = row
			sizes[row.Bytes] = true
		}
	}
	for _, bytes := range slices.Sorted(maps.Keys(sizes)) {
		for _, list := range lists {
			var before *Row
			for _, name := range list {
				row := times[key{name, bytes}]
				if row == nil {
					continue
				}
				if before != nil {
					c.expect(row.Time >= before.Time, "%d bytes: %s takes %v ns, %s %v", bytes, before.Case, before.Time, row.Case,
						row.Time)
				}
				before = row
			}
		}
	}
	return c
}
