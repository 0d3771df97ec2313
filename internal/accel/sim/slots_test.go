package sim

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/must"
)

// Slots in HBM and SRAM compete with other users of those memories and of the path to them. A receive takes
// longer during a load from the PE's HBM, or during another PE's message through the cube's SRAM. Slots in
// the TCM are not affected.
func TestSlotsContend(t *testing.T) {
	const bytes = 64 << 10
	pe4 := topo.PEID{PE: 4} // its UCIe connection differs from the one of PE 0
	for _, f := range []topo.Fabric{topo.Whole, topo.Flits} {
		m := bare(f)
		receive := kernels{cube1: func(p *tl.PE) {
			p.Send(tl.W, p.Scratch(bytes/2))
		}, pe0: func(p *tl.PE) { p.Recv(tl.E, bytes/2) }}
		load := kernels{pe1: func(p *tl.PE) { p.Load(hbmAt(t, m, pe0, 0), 1<<19) }}
		message := kernels{{Cube: 1, PE: 4}: func(p *tl.PE) {
			p.Send(tl.W, p.Scratch(bytes/2))
		}, pe4: func(p *tl.PE) { p.Recv(tl.E, bytes/2) }}
		took := func(space topo.Space, other kernels) event.Time {
			c := config(m)
			c.Buffer = space
			ks := maps.Clone(receive)
			maps.Copy(ks, other)
			done := perPE(t, c, ks)
			return max(done[pe0], done[pe4])
		}
		penalty := func(space topo.Space, other kernels) event.Time { return took(space, other) - took(space, nil) }
		if tcm, hbm := penalty(topo.TCMSpace, load), penalty(topo.HBMSpace, load); tcm != 0 || hbm < 1000*ns {
			t.Errorf("%s: beside a load from the PE's HBM a receive takes %v longer with slots in TCM, %v in HBM", f, tcm, hbm)
		}
		if tcm, sram := penalty(topo.TCMSpace, message), penalty(topo.SRAMSpace, message); sram < tcm+200*ns {
			t.Errorf("%s: beside another PE's receive one takes %v longer with slots in TCM, %v in the SRAM that both use", f,
				tcm, sram)
		}
	}
}

// A composite reads ahead only as far as the TCM has room for its tiles, and is limited by the TCM's bandwidth.
// If there is no room at all, it is an error.
func TestCompositeInTCM(t *testing.T) {
	const tiles = 400
	product := func(change func(*topo.Topology), scratch int) (*Result, error) {
		m := bare(topo.Whole)
		m.PE.TCMBytes = 1 << 20
		change(m)
		x := hbmAt(t, m, pe0, 0)
		r, _, err := run(t, config(m), kernels{pe0: func(p *tl.PE) {
			if scratch > 0 {
				p.Scratch(scratch / tl.ElemSize)
			}
			p.Wait(p.Composite(tl.Gemm{M: 32, K: 64 * tiles, N: 32, A: tl.Ref(x), B: tl.Ref(x),
				Out: x.Plus(64 * tiles * 32)}))
		}})
		return r, err
	}
	slow := func(m *topo.Topology) { m.PE.FetchBW = topo.GBps(8) } // 1024 ns for a tile's 8192 bytes
	large := func(m *topo.Topology) { slow(m); m.PE.TCMBytes = 16 << 20 }
	small := must.Get(product(slow, 0))(t)
	ahead := must.Get(product(large, 0))(t)
	const fit = 1 << 20 / 8192
	if last := small.Usage[0][DMARead].Last - small.Start; last < (tiles-fit-1)*1024*ns || small.Crit != ahead.Crit {
		t.Errorf("the last of %d tiles was read after %v, although %d fit into the TCM (%v, %v with more)", tiles, last, fit,
			small.Crit, ahead.Crit)
	}
	if last := ahead.Usage[0][DMARead].Last - ahead.Start; last > tiles*49*ns {
		t.Errorf("with room for all, the last tile was read after %v", last)
	}
	half, err := product(func(m *topo.Topology) { m.PE.TCMRead = topo.GBps(64) }, 0)
	if err != nil || half.Crit < tiles*128*ns {
		t.Errorf("a TCM of 64 GB/s gives %d tiles in %v (%v)", tiles, half.Crit, err)
	}
	if _, err := product(slow, 1<<20-4096); err == nil ||
		!strings.Contains(err.Error(), "a composite needs 10240 bytes of TCM for its tiles, and 4096 of 1048576 are left") {
		t.Errorf("no room: %v", err)
	}
}

// A receive waits for the TCM's port while operands are fetched, but not for the operands of later tiles.
func TestReceiveDuringFetch(t *testing.T) {
	m := bare(topo.Whole)
	x := hbmAt(t, m, pe0, 0)
	took := perPE(t, config(m), kernels{
		cube1: func(p *tl.PE) { p.Send(tl.W, p.Scratch(128)); p.Recv(tl.W, 128) },
		pe0: func(p *tl.PE) {
			product := p.Composite(tl.Gemm{M: 32, K: 64, N: 3200, A: tl.Loaded(p.Scratch(32 * 64)),
				B: tl.Loaded(p.Scratch(64 * 3200)), Out: x})
			p.Send(tl.E, p.Recv(tl.E, 128))
			p.Wait(product)
		},
	})
	if took[pe0] < 100*16*ns || took[cube1] > 200*ns {
		t.Errorf("100 tiles take %v; a message there and back beside them %v", took[pe0], took[cube1])
	}
}

// Busiest names the links that a message passed, the slowest first.
func TestBusiestLinks(t *testing.T) {
	m := bare(topo.Flits)
	r, _ := must.Get2(run(t, config(m), kernels{
		pe0:   func(p *tl.PE) { p.Send(tl.E, p.Scratch(2048)) },
		cube1: func(p *tl.PE) { p.Recv(tl.W, 2048) },
	}))(t)
	got := r.Busiest(m, 4)
	want := []LinkUse{{"sip0.cube0.r1c5 -> ucie-E.conn0", 32 * ns}, {"sip0.cube0.ucie-E.conn0 -> cube1", 32 * ns},
		{"sip0.cube1.ucie-W.conn0 -> r1c0", 32 * ns}, {"sip0.cube0.r0c0 -> r0c1", 16 * ns}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
