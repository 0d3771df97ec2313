package sim

import (
	"math"
	"testing"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/must"
)

// The published latencies of DMA reads of 16 KB on an idle machine with whole messages, and the values that
// docs/accelerator-model.md shows next to them.
func TestPublishedReads(t *testing.T) {
	m := topo.Default().Clone()
	m.Fabric = topo.Whole
	reader := func(p *tl.PE) { p.Load(hbmAt(t, m, pe0, int64(p.ID().PE)*16<<10), 8<<10) }
	for _, c := range []struct {
		name            string
		from            []topo.PEID
		published, want float64 // ns, to the nearest
		within          float64
	}{
		{"local", []topo.PEID{pe0}, 77, 77, 0},
		{"another SIP", []topo.PEID{{SIP: 1}}, 409, 409, 0},
		{"one PE", []topo.PEID{pe1}, 82, 77, 0.07},
		{"two PEs", []topo.PEID{pe1, {PE: 2}}, 158, 149, 0.06},
		{"three PEs", []topo.PEID{pe1, {PE: 2}, {PE: 3}}, 230, 221, 0.04},
	} {
		ks := kernels{}
		for _, id := range c.from {
			ks[id] = reader
		}
		r, _ := must.Get2(run(t, config(m), ks))(t)
		got := math.Round(r.Crit.Nanoseconds())
		if got != c.want || math.Abs(got-c.published) > c.within*c.published {
			t.Errorf("%s: %v ns; the documentation says %v, and %v was published", c.name, got, c.want, c.published)
		}
	}
}

// With whole messages a memory controller serves one transfer at a time. PEs near and far that read from one
// memory wait for each other, and that wait counts as queueing.
func TestControllerServesOne(t *testing.T) {
	m := bare(topo.Whole)
	const bytes = 4096
	alone := 8*ns + 16*ns // the first burst, and 4096 bytes at 256 GB/s
	ks := kernels{}
	for pe := range 8 {
		ks[topo.PEID{PE: pe}] = func(p *tl.PE) { p.Load(hbmAt(t, m, pe0, int64(pe)*bytes), bytes/2) }
	}
	r, _ := must.Get2(run(t, config(m), ks))(t)
	if wires := r.Crit - 8*alone; wires < 0 || wires > ns || r.Breakdown.Queueing < 7*alone-ns {
		t.Errorf("8 reads of %d bytes from one memory take %v, want 8 x %v one after the other (%+v)", bytes, r.Crit, alone,
			r.Breakdown)
	}
}
