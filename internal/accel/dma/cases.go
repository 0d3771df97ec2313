package dma

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// Case is a set of transfers that start together.
type Case struct {
	Name, Text string
	Missing    string // reason why it is impossible on this machine
	easier     string // a case that does not take longer
	apart      bool   // the transfers have no link and no memory in common
	transfers  func(bytes int) []Transfer
}

// Cases returns all cases: single transfers, then several transfers at the same time.
func (m *Machine) Cases() []Case { return slices.Concat(m.idle(), m.together()) }

// Names returns the names of all cases, which are the same on every machine.
func Names() []string {
	return lists.Map(New(topo.Default()).Cases(), func(c Case) string { return c.Name })
}

// Case returns the case of a name, which exists.
func (m *Machine) Case(name string) Case {
	all := m.Cases()
	return all[slices.IndexFunc(all, func(c Case) bool { return c.Name == name })]
}

// at returns the number-th location in the HBM of a PE, divided into blocks of bytes bytes. Numbers wrap around.
func (m *Machine) at(id topo.PEID, number, bytes int) topo.Location {
	size := int64(bytes)
	return topo.Location{PEID: id, Space: topo.HBMSpace, Offset: int64(number) % (m.HBMSlice() / size) * size}
}

// readers returns count concurrent reads. from returns the reading PE and the memory of the i-th one.
func (m *Machine) readers(count int, from func(i int) (by, at topo.PEID)) func(bytes int) []Transfer {
	return func(bytes int) (xs []Transfer) {
		for i := range count {
			by, at := from(i)
			xs = append(xs, Transfer{By: by, At: m.at(at, i, bytes), Bytes: bytes})
		}
		return xs
	}
}

// ends returns the memories with the lowest and the highest fixed latency.
func (m *Machine) ends(from topo.End, to []topo.PEID) (near, far topo.PEID) {
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
func (m *Machine) idle() (all []Case) {
	add := func(name, text, missing, easier string, x Transfer) {
		all = append(all, Case{Name: name, Text: text, Missing: missing, easier: easier,
			transfers: func(bytes int) []Transfer {
				x := x
				x.Bytes, x.At = bytes, m.at(x.At.PEID, 0, bytes)
				return []Transfer{x}
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
		add(op.name+"-near", fmt.Sprintf("host %s %v", op.verb, near), "", "",
			Transfer{Host: true, At: topo.Location{PEID: near}, Write: op.write})
		add(op.name+"-far", fmt.Sprintf("host %s %v", op.verb, far), "", op.name+"-near",
			Transfer{Host: true, At: topo.Location{PEID: far}, Write: op.write})
	}
	for _, op := range []struct {
		suffix, verb string
		write        bool
	}{{"", "reads", false}, {"-write", "writes", true}} {
		for _, place := range m.places() {
			easier := ""
			if place.nearer != "" {
				easier = "pe-" + place.nearer + op.suffix
			}
			add("pe-"+place.name+op.suffix, fmt.Sprintf("pe0 %s %v", op.verb, place.id), place.missing, easier,
				Transfer{At: topo.Location{PEID: place.id}, Write: op.write})
		}
	}
	return all
}

// place is a memory that PE 0 accesses.
type place struct {
	name    string
	id      topo.PEID
	missing string
	nearer  string // a place that is not farther
}

// places returns the memories, the nearest first.
func (m *Machine) places() []place {
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
		{"local-hbm", topo.PEID{}, "", ""},
		{"cube-near", nearPE, reasonIf(len(cube) == 0, "a cube has one PE"), "local-hbm"},
		{"cube-far", farPE, reasonIf(len(cube) == 0, "a cube has one PE"), "cube-near"},
		{"next-cube", nextCube, reasonIf(len(cubes) == 0, "a SIP has one cube"), "cube-far"},
		{"far-cube", farCube, reasonIf(len(cubes) == 0, "a SIP has one cube"), "next-cube"},
		{"other-sip", topo.PEID{SIP: 1}, reasonIf(m.SIPs.Count == 1, "there is one SIP"), "local-hbm"},
	}
}

// reasonIf returns why if the condition holds, otherwise "".
func reasonIf(is bool, why string) string {
	if is {
		return why
	}
	return ""
}

// together returns concurrent transfers: with contention at a memory or a port, and without contention.
func (m *Machine) together() (all []Case) {
	first := topo.PEID{}
	add := func(name, text, missing, easier string, count int, from func(i int) (by, at topo.PEID)) {
		all = append(all, Case{Name: name, Text: text, Missing: missing, easier: easier,
			transfers: m.readers(count, from)})
	}
	tooFew := func(count int) string { return reasonIf(m.PEs() < count, fmt.Sprintf("a cube has %d PEs", m.PEs())) }
	easier := ""
	for _, n := range []int{1, 2, 3, 8} {
		from := func(i int) (by, at topo.PEID) { return topo.PEID{PE: (i + 1) % m.PEs()}, first } // PE 0, the owner, is last
		name := fmt.Sprintf("one-controller-%d", n)
		add(name, fmt.Sprintf("%s of a cube read %v", unit.Plural(n, "PE"), first), tooFew(n), easier, n, from)
		easier = name
	}
	everybody := m.Cubes.Count() * m.PEs()
	add("all-to-one", fmt.Sprintf("all %d PEs of a SIP read %v", everybody, first), "", easier, everybody,
		func(i int) (by, at topo.PEID) { return m.At(i), first })
	missing := tooFew(8)
	if m.Cubes.W == 1 {
		missing = "there is one column of cubes"
	}
	add("one-port-8", "8 PEs of cube 0 read in cube 1 over one UCIe port", missing, "", 8,
		func(i int) (by, at topo.PEID) { return topo.PEID{PE: i}, topo.PEID{Cube: 1, PE: i} })
	add("all-local", fmt.Sprintf("all %d PEs of a SIP read their own memory", everybody), "", "", everybody,
		func(i int) (by, at topo.PEID) { return m.At(i), m.At(i) })
	all[len(all)-1].apart = true
	return all
}
