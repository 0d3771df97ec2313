package dma

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// The names of the tables.
const (
	idleTable       = "idle"
	sizeTable       = "size"
	congestionTable = "congestion"
	publishedTable  = "published"
)

// The sizes of transfers: for the comparison of cases, for congested and published transfers, and (sweepBytes)
// for the table by size.
const referenceBytes, congestedBytes = 32 << 10, 16 << 10

var sweepBytes = []int{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}

// testCase is a set of transfers that start together.
type testCase struct {
	table, name, text string
	sizes             []int
	transfers         func(bytes int) []transfer
	missing           string // reason why it is impossible on this machine
	published         ns
	within            float64
}

// cases returns all cases in the order of the tables. swept has the sizes of the table by size, together the sizes of
// concurrent transfers.
func (m *machine) cases(swept, together []int) (all []testCase) {
	idle := m.idle()
	for _, table := range []struct {
		name  string
		sizes []int
	}{{idleTable, []int{referenceBytes}}, {sizeTable, swept}} {
		for _, c := range idle {
			c.table, c.sizes = table.name, table.sizes
			if c.missing == "" || table.name == idleTable {
				all = append(all, c)
			}
		}
	}
	for _, c := range m.congested() {
		c.sizes = together
		all = append(all, c)
	}
	for _, c := range m.published() {
		c.sizes = []int{congestedBytes}
		all = append(all, c)
	}
	return all
}

// at returns the number-th location in the HBM of a PE, divided into blocks of bytes bytes. Numbers wrap around.
func (m *machine) at(id topo.PEID, number, bytes int) topo.Location {
	size := int64(bytes)
	return topo.Location{PEID: id, Space: topo.HBMSpace, Offset: int64(number) % (m.HBMSlice() / size) * size}
}

// readers returns count concurrent reads. from returns the reading PE and the memory of the i-th one.
func (m *machine) readers(count int, from func(i int) (by, at topo.PEID)) func(bytes int) []transfer {
	return func(bytes int) (xs []transfer) {
		for i := range count {
			by, at := from(i)
			xs = append(xs, transfer{by: by, at: m.at(at, i, bytes), bytes: bytes})
		}
		return xs
	}
}

// ends returns the memories with the lowest and the highest fixed latency.
func (m *machine) ends(from topo.End, to []topo.PEID) (near, far topo.PEID) {
	var minLatency, maxLatency event.Time
	for i, id := range to {
		way, err := m.wiring.Path(from, topo.End{Kind: topo.AtHBM, PEID: id})
		if err != nil {
			continue // no path leads from an end to itself; callers do not ask for that
		}
		if fixed := way.Fixed(); i == 0 || fixed < minLatency {
			near, minLatency = id, fixed
		}
		if fixed := way.Fixed(); i == 0 || fixed > maxLatency {
			far, maxLatency = id, fixed
		}
	}
	return near, far
}

// idle returns the single transfers: by the host, and by PE 0 of the first cube.
func (m *machine) idle() (all []testCase) {
	add := func(name, text, missing string, x transfer) {
		all = append(all, testCase{name: name, text: text, missing: missing, transfers: func(bytes int) []transfer {
			x := x
			x.bytes, x.at = bytes, m.at(x.at.PEID, 0, bytes)
			return []transfer{x}
		}})
	}
	var sip []topo.PEID
	for i := range m.Cubes.Count() * m.PEs() {
		sip = append(sip, m.At(i))
	}
	near, far := m.ends(topo.End{Kind: topo.AtHost}, sip)
	for _, op := range []struct {
		name, verb string
		write      bool
	}{{"h2d", "writes to", true}, {"d2h", "reads from", false}} {
		for _, to := range []struct {
			name string
			id   topo.PEID
		}{{"near", near}, {"far", far}} {
			add(op.name+"-"+to.name, fmt.Sprintf("host %s %v", op.verb, to.id), "",
				transfer{host: true, at: topo.Location{PEID: to.id}, write: op.write})
		}
	}
	for _, op := range []struct {
		suffix, verb string
		write        bool
	}{{"", "reads", false}, {"-write", "writes", true}} {
		for _, place := range m.places() {
			add("pe-"+place.name+op.suffix, fmt.Sprintf("pe0 %s %v", op.verb, place.id), place.missing,
				transfer{at: topo.Location{PEID: place.id}, write: op.write})
		}
	}
	return all
}

// place is a memory that PE 0 accesses.
type place struct {
	name    string
	id      topo.PEID
	missing string
}

// places returns the memories, the nearest first.
func (m *machine) places() []place {
	pe0 := topo.End{Kind: topo.AtPE}
	var cube, cubes []topo.PEID
	for pe := 1; pe < m.PEs(); pe++ {
		cube = append(cube, topo.PEID{PE: pe})
	}
	for c := 1; c < m.Cubes.Count(); c++ {
		cubes = append(cubes, topo.PEID{Cube: c})
	}
	nearPE, farPE := m.ends(pe0, cube)
	nextCube, farCube := m.ends(pe0, cubes)
	return []place{
		{"local-hbm", topo.PEID{}, ""},
		{"cube-near", nearPE, reasonIf(len(cube) == 0, "a cube has one PE")},
		{"cube-far", farPE, reasonIf(len(cube) == 0, "a cube has one PE")},
		{"next-cube", nextCube, reasonIf(len(cubes) == 0, "a SIP has one cube")},
		{"far-cube", farCube, reasonIf(len(cubes) == 0, "a SIP has one cube")},
		{"other-sip", topo.PEID{SIP: 1}, reasonIf(m.SIPs.Count == 1, "there is one SIP")},
	}
}

// reasonIf returns why if the condition holds, otherwise "".
func reasonIf(is bool, why string) string {
	if is {
		return why
	}
	return ""
}

// congested returns concurrent transfers: with contention at a memory or a port, and without contention.
func (m *machine) congested() (all []testCase) {
	first := topo.PEID{}
	add := func(name, text, missing string, count int, from func(i int) (by, at topo.PEID)) {
		all = append(all, testCase{table: congestionTable, name: name, text: text, missing: missing,
			transfers: m.readers(count, from)})
	}
	tooFew := func(count int) string { return reasonIf(m.PEs() < count, fmt.Sprintf("a cube has %d PEs", m.PEs())) }
	for _, n := range []int{1, 2, 3, 8} {
		from := func(i int) (by, at topo.PEID) { return topo.PEID{PE: (i + 1) % m.PEs()}, first } // PE 0, the owner, is last
		add(fmt.Sprintf("one-controller-%d", n), fmt.Sprintf("%s of a cube read %v", unit.Plural(n, "PE"), first), tooFew(n),
			n, from)
	}
	missing := tooFew(8)
	if m.Cubes.W == 1 {
		missing = "there is one column of cubes"
	}
	add("one-port-8", "8 PEs of cube 0 read in cube 1 over one UCIe port", missing, 8,
		func(i int) (by, at topo.PEID) { return topo.PEID{PE: i}, topo.PEID{Cube: 1, PE: i} })
	everybody := m.Cubes.Count() * m.PEs()
	add("all-local", fmt.Sprintf("all %d PEs of a SIP read their own memory", everybody), "", everybody,
		func(i int) (by, at topo.PEID) { return m.At(i), m.At(i) })
	add("all-to-one", fmt.Sprintf("all %d PEs of a SIP read %v", everybody, first), "", everybody,
		func(i int) (by, at topo.PEID) { return m.At(i), first })
	return all
}

// published returns the reads of 16 KB whose times were published, with whole messages. docs/accelerator-model.md
// discusses the differences of the last three.
func (m *machine) published() (all []testCase) {
	other := topo.PEID{SIP: 1}
	for _, c := range []struct {
		name, text string
		count      int
		from       func(i int) (by, at topo.PEID)
		ns, within float64
	}{
		{"published-local", "a PE reads its own memory", 1, func(int) (by, at topo.PEID) {
			return topo.PEID{}, topo.PEID{}
		}, 77, 0},
		{"published-other-sip", "a PE reads the memory of another SIP", 1, func(int) (by, at topo.PEID) {
			return other, topo.PEID{}
		}, 409, 0},
		{"published-1", "1 PE reads another's memory", 1, neighbours, 82, 0.07},
		{"published-2", "2 PEs read another's memory", 2, neighbours, 158, 0.06},
		{"published-3", "3 PEs read another's memory", 3, neighbours, 230, 0.04},
	} {
		all = append(all, testCase{table: publishedTable, name: c.name, text: c.text,
			published: ns(c.ns * float64(event.Nanosecond)), within: c.within,
			transfers: m.readers(c.count, c.from)})
	}
	return all
}

// neighbours lets PEs read the memory of the first PE of their cube.
func neighbours(i int) (by, at topo.PEID) { return topo.PEID{PE: i + 1}, topo.PEID{} }
