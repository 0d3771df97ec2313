package sim

import (
	"math"
	"testing"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// What docs/accelerator.md says of plain DMA beside the published latencies: 16 KB read
// on an idle machine whose messages are whole.
func TestPublishedReads(t *testing.T) {
	m := topo.Default().Clone()
	m.Fabric = topo.Whole
	reader := func(p *tl.PE) { p.Load(hbmAt(t, m, pe0, int64(p.ID().PE)*16<<10), 8<<10) }
	for _, c := range []struct {
		name string
		from []topo.PEID
		want float64 // ns, to the nearest
	}{
		{"local", []topo.PEID{pe0}, 81},
		{"another SIP", []topo.PEID{{SIP: 1}}, 871},
		{"one PE", []topo.PEID{pe1}, 81},
		{"two PEs", []topo.PEID{pe1, {PE: 2}}, 145},
		{"three PEs", []topo.PEID{pe1, {PE: 2}, {PE: 3}}, 209},
	} {
		ks := kernels{}
		for _, id := range c.from {
			ks[id] = reader
		}
		r, _, err := run(t, config(m), ks)
		if err != nil {
			t.Fatal(err)
		}
		if got := math.Round(r.Crit.Nanoseconds()); got != c.want {
			t.Errorf("%s: %v ns, the documentation says %v", c.name, got, c.want)
		}
	}
}
