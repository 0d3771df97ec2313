package fabric

import (
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/must"
)

// BenchmarkFlitHops measures passages of flits over links per second of CPU time for three kinds of traffic:
// messages without contention, which move as trains; many that meet at one memory, flit by flit; and the
// reference without trains.
func BenchmarkFlitHops(b *testing.B) {
	m := topo.Default()
	wiring := topo.NewWiring(m)
	path := func(from, to topo.PEID) topo.Path {
		return must.Get(wiring.Path(topo.End{Kind: topo.AtPE, PEID: from}, topo.End{Kind: topo.AtPE, PEID: to}))(b)
	}
	const bytes = 64 << 10
	apart := func(f *Fabric) { // within each cube, one message after the other
		for cube := range m.Cubes.Count() {
			for i := range 16 {
				f.Send(event.Time(i)*event.Microsecond, path(topo.PEID{Cube: cube}, topo.PEID{Cube: cube, PE: 7}), bytes)
			}
		}
	}
	together := func(f *Fabric) { // from all PEs to one PE at once
		for cube := range m.Cubes.Count() {
			for pe := 1; pe < m.PEs(); pe++ {
				f.Send(0, path(topo.PEID{Cube: cube, PE: pe}, topo.PEID{}), bytes)
			}
		}
	}
	for _, c := range []struct {
		name    string
		traffic func(*Fabric)
		trains  bool
	}{{"trains", apart, true}, {"contended", together, true}, {"flit-by-flit", apart, false}} {
		b.Run(c.name, func(b *testing.B) {
			var hops int64
			before := cpuTime(b)
			for b.Loop() {
				var q event.Queue
				f := New(&q, wiring.Links(), topo.Flits, m.FlitBytes)
				if !c.trains {
					f.FlitByFlit()
				}
				c.traffic(f)
				for e, more := q.Pop(); more; e, more = q.Pop() {
					if e.Kind < Delivered {
						f.Handle(e)
					}
				}
				hops += f.Hops()
			}
			b.ReportMetric(float64(hops)/1e6/(cpuTime(b)-before).Seconds(), "Mhops/cpu-s")
		})
	}
}

// cpuTime returns the CPU time of this process over all cores. It does not depend on other processes.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
