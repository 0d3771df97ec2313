package ahbm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/disttest"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
)

func open(size int, timeout time.Duration) ([]*dist.Group, error) {
	return disttest.Join(size, dist.Config{Backend: Name, Timeout: timeout}, nil)
}

// The conformance suite, as far as the backend supports it: exact results for every count, algorithm and piece, in
// place or not.
func TestConformance(t *testing.T) {
	ran := 0
	for _, c := range (disttest.Suite{Open: open, Sizes: []int{1, 2, 3, 6}, Short: true}).Cases() {
		if strings.HasPrefix(c.Name, "allreduce/") {
			ran++
			t.Run(c.Name, func(t *testing.T) {
				if err := c.Check(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if ran != 4 {
		t.Errorf("%d cases ran", ran)
	}
}

func sum(g *dist.Group, count int) error {
	b := dist.Of(make([]dist.Float16, count))
	return g.AllReduce(b, b, dist.Sum)
}

func each(t *testing.T, timeout time.Duration, body func(g *dist.Group) error) []error {
	t.Helper()
	return disttest.Each(must.Get(open(3, timeout))(t), body)
}

// Ranks that disagree, come late or leave cause a permanent error on all ranks that names the rank.
func TestMistakes(t *testing.T) {
	for _, err := range each(t, time.Minute, func(g *dist.Group) error { return sum(g, 8+g.Rank()/2) }) {
		var misuse *dist.MisuseError
		if !errors.As(err, &misuse) || !strings.Contains(err.Error(), "allreduce of 8 f16") ||
			!strings.Contains(err.Error(), "rank 2 allreduce of 9 f16") {
			t.Errorf("other counts: %v", err)
		}
	}
	for name, instead := range map[string]func(g *dist.Group) error{
		"absent": func(*dist.Group) error { return nil },
		"left":   (*dist.Group).Close,
	} {
		errs := each(t, 3*time.Second, func(g *dist.Group) error {
			if g.Rank() == 1 {
				return instead(g)
			}
			if err := sum(g, 8); err == nil {
				return errors.New("it worked without rank 1")
			}
			return sum(g, 8) // the error is permanent
		})
		for r, err := range errs {
			var peer *dist.PeerError
			if r != 1 && (!errors.As(err, &peer) || peer.Rank != 1) {
				t.Errorf("%s: rank %d got %v", name, r, err)
			}
		}
	}
	for _, err := range each(t, time.Minute, func(g *dist.Group) error {
		in, out := dist.Of(make([]dist.Float16, 8)), dist.Of(make([]dist.Float16, 8-3*(g.Rank()/2)))
		return g.AllReduce(out, in, dist.Sum)
	}) {
		if err == nil || !strings.Contains(err.Error(), "out has 5 elements") {
			t.Errorf("a call that rank 2 cannot make: %v", err)
		}
	}
	for _, err := range each(t, time.Minute, func(g *dist.Group) error {
		return g.Broadcast(dist.Of(make([]dist.Float16, 1)), 0)
	}) {
		if err == nil {
			t.Error("a broadcast, which the accelerator does not have")
		}
	}
}

func TestJoin(t *testing.T) {
	join := func(id string, rank, size int) error {
		_, err := dist.Init(context.Background(),
			dist.Config{Backend: Name, Rank: rank, Size: size, ID: id, Timeout: 50 * time.Millisecond})
		return err
	}
	Use("other-size", Machine{Topo: topo.Default()})
	if err := join("other-size", 0, 3); err == nil || !strings.Contains(err.Error(), "2 SIPs") {
		t.Errorf("%v", err)
	}
	if err := join("alone", 0, 2); err == nil || !strings.Contains(err.Error(), "1 of 2 ranks did not join") {
		t.Errorf("%v", err)
	}
	// All ranks of that attempt have left, so the next may have another size.
	if err := join("alone", 0, 4); err == nil || !strings.Contains(err.Error(), "3 of 4 ranks did not join") {
		t.Errorf("%v", err)
	}
}

// A process group and a direct launch agree to the picosecond, and the clock advances by the time of the launch.
func TestAgreesWithDirectLaunch(t *testing.T) {
	const n = 1000
	m, err := topo.Default().WithSIPs(topo.Torus, 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	system := accel.New(m, ccl.Default())
	var tensors []*accel.Tensor
	for sip := range 6 {
		x := must.Get(system.Zeros(sip, 16, n, accel.PerCube))(t)
		tensors = append(tensors, x)
	}
	direct := must.Get(system.AllReduce(tensors))(t)
	var seen []event.Time
	err = Spawn(context.Background(), Machine{Topo: m, CCL: ccl.Default(), Observe: func(r *sim.Result) {
		seen = append(seen, r.Crit)
	}},
		func(ctx context.Context, g *dist.Group) error {
			b := PerCube(m, n)
			began := g.Clock().Now()
			if err := g.AllReduce(b, b, dist.Sum); err != nil {
				return err
			}
			if took := g.Clock().Now() - began; took != int64(direct.Crit) || !g.Clock().Deterministic() {
				return fmt.Errorf("it took %d ps by the clock, a direct launch %d", took, direct.Crit)
			}
			return nil
		})
	if err != nil || len(seen) != 1 || seen[0] != direct.Crit {
		t.Errorf("%v; launches took %v, a direct one %v", err, seen, direct.Crit)
	}
}

// The PEs of a SIP share the work: a long vector uses all of them, each element once, and is several times as fast
// as with one PE. A short vector uses the PEs next to the IO chiplet.
func TestPEsShare(t *testing.T) {
	m, err := topo.Default().WithSIPs(topo.Ring, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2, 127, 128, 129, 1000, 16384, 16385, 1 << 19} {
		at, next := map[[2]int]bool{}, 0
		for i, s := range shares(m, n) {
			if s.off != next || s.n < 1 || at[[2]int{s.cube, s.pe}] || i < 4 && s.cube != i {
				t.Errorf("%d elements: share %d is %+v, want one from %d on of a PE that has none", n, i, s, next)
			}
			at[[2]int{s.cube, s.pe}], next = true, s.off+s.n
		}
		if want := min(128, (n+127)/128); next != n || len(at) != want {
			t.Errorf("%d elements: shares of %d on %d PEs, want %d", n, next, len(at), want)
		}
	}
	const n = 1 << 17
	system := accel.New(m, ccl.Default())
	var tiles []*accel.Tensor
	for sip := range 2 {
		x := must.Get(system.Zeros(sip, 1, n, accel.OnCube(0)))(t)
		tiles = append(tiles, x)
	}
	wide := must.Get(ccl.Default().With(ccl.LRAB, func(s *ccl.Settings) { s.SlotBytes = lrabSlot }))(t)
	system.CCL = wide
	alone := must.Get(system.AllReduce(tiles))(t)
	var all *sim.Result
	err = Spawn(t.Context(), Machine{Topo: m, Observe: func(r *sim.Result) {
		all = r
	}}, func(ctx context.Context, g *dist.Group) error {
		x := make([]dist.Float16, n)
		for call := range 2 { // the second call has other data but takes the same time
			for i := range x {
				x[i] = dtype.Float16From(float32((i + g.Rank() + call) % 1000))
			}
			began := g.Clock().Now()
			if err := g.AllReduce(dist.Of(x), dist.Of(x), dist.Sum); err != nil {
				return err
			}
			if took := g.Clock().Now() - began; took != int64(all.Crit) {
				return fmt.Errorf("call %d took %d ps by the clock, %v by its launch", call, took, all.Crit)
			}
			for i := range x {
				if want := float32((i+call)%1000 + (i+call+1)%1000); x[i].Float32() != want {
					return fmt.Errorf("call %d: element %d is %v, want %v", call, i, x[i].Float32(), want)
				}
			}
			if err := g.Barrier(); err != nil { // no rank starts the next call before all have read the clock
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Exec) != 2*128 || 2*all.Crit > alone.Crit {
		t.Errorf("%d PEs took %v, one of each SIP %v", len(all.Exec), all.Crit, alone.Crit)
	}
}

// The simulated time does not depend on the order of ranks or the number of cores.
func TestDeterminism(t *testing.T) {
	run := func(procs int) (all []*sim.Result) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		err := Spawn(context.Background(), Machine{CCL: ccl.Default(), Observe: func(r *sim.Result) { all = append(all, r) }},
			func(ctx context.Context, g *dist.Group) error {
				for range 3 {
					b := PerCube(topo.Default(), 777)
					if err := g.AllReduce(b, b, dist.Sum); err != nil {
						return err
					}
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	one := run(1)
	for _, procs := range []int{2, 8} {
		if diff := cmp.Diff(one, run(procs)); diff != "" {
			t.Errorf("on %d cores: %s", procs, diff)
		}
	}
	if len(one) != 3 {
		t.Errorf("%d launches", len(one))
	}
}

// Spawn returns the error of a failed rank, and the other ranks do not wait for it.
func TestSpawnFails(t *testing.T) {
	boom := errors.New("boom")
	err := Spawn(context.Background(), Machine{}, func(ctx context.Context, g *dist.Group) error {
		if g.Rank() == 1 {
			return boom
		}
		return sum(g, 4)
	})
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), "rank 1: boom") ||
		!strings.Contains(err.Error(), "rank 1 has left") {
		t.Errorf("%v", err)
	}
}
