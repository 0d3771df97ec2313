package sim

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/must"
)

// randomKernel returns a kernel of rounds in which every PE computes, loads or stores, and exchanges tiles with its
// neighbours. It is the same on all SIPs.
func randomKernel(t *rapid.T, m *topo.Topology) tl.Kernel {
	type round struct {
		to    tl.Dir
		n     int
		work  int
		store bool
		some  int // only cubes whose number is a multiple of it compute
		async bool
	}
	var dirs []tl.Dir
	for d := range program.Dirs {
		if _, ok := program.Neighbor(m, topo.PEID{}, d); ok && d >= tl.GlobalN {
			dirs = append(dirs, d)
		}
	}
	dirs = append(dirs, tl.S, tl.E)
	rounds := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) round {
		return round{rapid.SampledFrom(dirs).Draw(t, "to"), rapid.IntRange(1, 1500).Draw(t, "n"),
			rapid.IntRange(0, 4000).Draw(t, "work"), rapid.Bool().Draw(t, "store"), rapid.IntRange(1, 3).Draw(t, "some"),
			rapid.Bool().Draw(t, "async")}
	}), 1, 6).Draw(t, "rounds")
	return func(p *tl.PE) {
		at, err := m.Address(topo.Location{PEID: p.ID(), Space: topo.HBMSpace})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rounds {
			tile := p.Load(tl.Ptr{Addr: at}, r.n)
			if cube := p.ProgramID(1); r.work > 0 && cube%r.some == 0 {
				p.Add(p.Scratch(r.work), p.Scratch(r.work))
			}
			_, sends := program.Neighbor(m, p.ID(), r.to)
			_, receives := program.Neighbor(m, p.ID(), r.to.Opposite())
			var h tl.Handle
			if receives && r.async {
				h = p.RecvAsync(r.to.Opposite(), r.n)
			}
			if sends {
				p.Send(r.to, tile)
			}
			switch {
			case receives && r.async:
				tile = p.Wait(h)
			case receives:
				tile = p.Recv(r.to.Opposite(), r.n)
			}
			if r.store {
				p.Store(tl.Ptr{Addr: at}, tile)
			}
		}
	}
}

// inTime sorts effects by time, program and operation: effects of the same instant may come in any order.
func inTime(order Effects) []Effect {
	return slices.SortedFunc(order.All(), func(a, b Effect) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Program, b.Program), cmp.Compare(a.Op, b.Op))
	})
}

// If all SIPs of a ring or torus run the same kernel, simulating SIP 0 alone gives the same result as a full
// simulation, to the picosecond.
func TestOneSIPStandsForAll(t *testing.T) {
	small := must.Get(topo.Default().WithCubes(2, 1))(t)
	exact, tied := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		kind, w, h := topo.Ring, rapid.IntRange(2, 5).Draw(t, "w"), 1
		if rapid.Bool().Draw(t, "torus") {
			kind, h = topo.Torus, rapid.IntRange(1, 3).Draw(t, "h")
		}
		m := must.Get(small.WithSIPs(kind, w, h))(t)
		m.Fabric = rapid.SampledFrom([]topo.Fabric{topo.Flits, topo.Whole}).Draw(t, "fabric")
		c := config(m)
		c.Buffer = topo.Space(rapid.SampledFrom(topo.Spaces()).Draw(t, "buffer"))
		c.SlotBytes = 8192
		kernel := randomKernel(t, m)
		pes := rapid.IntRange(1, 2).Draw(t, "pes")
		var programs []*program.Program
		for i := range m.SIPs.Count * m.Cubes.Count() * pes {
			id := topo.PEID{SIP: i / pes / m.Cubes.Count(), Cube: i / pes % m.Cubes.Count(), PE: i % pes}
			p, err := tl.Record(program.Env{Topo: m, ID: id, PEs: pes, Cubes: 2, SlotBytes: c.SlotBytes}, kernel)
			if err != nil {
				t.Fatal(err)
			}
			programs = append(programs, p)
		}
		wiring := topo.NewWiring(m)
		if !symmetric(c, wiring, programs) {
			t.Fatal("the launch is not symmetric")
		}
		g, err := newEngine(c, wiring, programs, false)
		if err == nil {
			err = g.run()
		}
		if err != nil {
			t.Fatal(err)
		}
		want, got := g.result(), runOneSIP(c, wiring, programs)
		if got == nil {
			tied++
			return
		}
		exact++
		if diff := gocmp.Diff(inTime(want.Order), inTime(got.Order)); diff != "" {
			t.Fatal(diff)
		}
		want.Order, got.Order = Effects{}, Effects{}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
	t.Logf("%d launches were exact, %d had ties", exact, tied)
	if exact < 5*tied {
		t.Errorf("%d launches were exact, but %d had ties", exact, tied)
	}
}

// Launches that differ between SIPs are simulated in full.
func TestNotSymmetric(t *testing.T) {
	m := must.Get(must.Get(topo.Default().WithCubes(1, 1))(t).WithSIPs(topo.Ring, 3, 1))(t)
	c := config(m)
	each := func(k tl.Kernel, last tl.Kernel) []*program.Program {
		return recordedAs(t, c, kernels{{}: k, {SIP: 1}: k, {SIP: 2}: last})
	}
	load := func(at func(topo.PEID) topo.PEID, offset int64) tl.Kernel {
		return func(p *tl.PE) { p.Load(hbmAt(t, m, at(p.ID()), offset), 64) }
	}
	own := func(id topo.PEID) topo.PEID { return id }
	ring := func(p *tl.PE) { p.Send(tl.GlobalE, p.Scratch(8)); p.Recv(tl.GlobalW, 8) }
	direct := func(p *tl.PE) {
		n := p.SIP()
		p.SendTo(topo.PEID{SIP: (n + 1) % 3}, p.Scratch(8))
		p.RecvFrom(topo.PEID{SIP: (n + 2) % 3}, 8)
	}
	for name, programs := range map[string][]*program.Program{
		"other offset":    each(load(own, 0), load(own, 4096)),
		"memory of SIP 0": each(load(func(topo.PEID) topo.PEID { return topo.PEID{} }, 0), load(own, 0)),
		"memory of next SIP": each(load(func(id topo.PEID) topo.PEID { return topo.PEID{SIP: (id.SIP + 1) % 3} }, 0),
			load(own, 0)),
		"other direction":     each(ring, func(p *tl.PE) { p.Send(tl.GlobalW, p.Scratch(8)); p.Recv(tl.GlobalE, 8) }),
		"other size":          each(ring, func(p *tl.PE) { p.Send(tl.GlobalE, p.Scratch(7)); p.Recv(tl.GlobalW, 8) }),
		"one more operation":  each(ring, func(p *tl.PE) { ring(p); p.Add(p.Scratch(8), p.Scratch(8)) }),
		"any PE":              each(direct, direct),
		"some SIPs":           recordedAs(t, c, kernels{{}: load(own, 0), {SIP: 1}: load(own, 0)}),
		"a SIP does the work": recordedAs(t, c, kernels{{}: load(own, 0), {PE: 1}: load(own, 0), {PE: 2}: load(own, 0)}),
	} {
		if symmetric(c, topo.NewWiring(m), programs) {
			t.Errorf("%s: one SIP stands for all", name)
		}
	}
	if !symmetric(c, topo.NewWiring(m), each(ring, ring)) {
		t.Error("a ring is not symmetric")
	}
}
