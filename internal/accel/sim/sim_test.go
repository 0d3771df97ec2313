package sim

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/fabric"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/must"
)

// bare returns the built-in machine without the costs of issuing operations, so that times belong to the
// operations alone.
func bare(f topo.Fabric) *topo.Topology {
	m := topo.Default().Clone()
	m.Fabric = f
	m.PE.CPUCost, m.PE.DispatchCost, m.PE.SchedulerCost = 0, 0, 0
	return m
}

func config(m *topo.Topology) Config {
	return Config{Topo: m, Buffer: topo.TCMSpace, Slots: 4, SlotBytes: 1 << 20, CreditBytes: 16}
}

func hbmAt(t testing.TB, m *topo.Topology, id topo.PEID, offset int64) tl.Ptr {
	t.Helper()
	a := must.Get(m.Address(topo.Location{PEID: id, Space: topo.HBMSpace, Offset: offset}))(t)
	return tl.Ptr{Addr: a}
}

// kernels holds the kernel of each PE.
type kernels map[topo.PEID]tl.Kernel

// recordedAs returns the programs of kernels.
func recordedAs(t testing.TB, c Config, ks kernels) (programs []*program.Program) {
	t.Helper()
	for i := range c.Topo.TotalPEs() { // maps have no order
		id := c.Topo.At(i)
		k, runs := ks[id]
		if !runs {
			continue
		}
		p := must.Get(tl.Record(program.Env{Topo: c.Topo, ID: id, PEs: 8, Cubes: 16, SlotBytes: c.SlotBytes}, k))(t)
		programs = append(programs, p)
	}
	return programs
}

func run(t testing.TB, c Config, ks kernels) (*Result, map[topo.PEID]event.Time, error) {
	t.Helper()
	programs := recordedAs(t, c, ks)
	r, err := Run(c, programs)
	if err != nil {
		return nil, nil, err
	}
	took := map[topo.PEID]event.Time{}
	for i, p := range programs {
		took[p.ID] = r.Exec[i]
	}
	if r.Breakdown.Total() != r.Crit || r.Late != 0 {
		t.Errorf("the parts %+v add up to %v, not %v; %d late", r.Breakdown, r.Breakdown.Total(), r.Crit, r.Late)
	}
	if fault := brokenPath(r); fault != "" {
		t.Errorf("the critical path: %s", fault)
	}
	for _, part := range []event.Time{r.Breakdown.Wire, r.Breakdown.Overhead, r.Breakdown.Queueing, r.Breakdown.Slot,
		r.Breakdown.Compute, r.Breakdown.Memory} {
		if part < 0 {
			t.Errorf("a part of %+v is negative", r.Breakdown)
		}
	}
	return r, took, nil
}

// brokenPath reports a picosecond of the slowest PE that has no cause or two.
func brokenPath(r *Result) string {
	at := r.Start
	for i, s := range r.Path {
		if s.From != at || s.To <= s.From {
			return fmt.Sprintf("step %d (%+v) follows one that ended at %v", i, s, at)
		}
		at = s.To
	}
	if at != r.Start+r.Crit {
		return fmt.Sprintf("it ends at %v, the slowest PE at %v", at, r.Start+r.Crit)
	}
	return ""
}

// perPE runs kernels and returns the time of each PE.
func perPE(t testing.TB, c Config, ks kernels) map[topo.PEID]event.Time {
	t.Helper()
	_, took := must.Get2(run(t, c, ks))(t)
	return took
}

var pe0, pe1, pe7, cube1 = topo.PEID{}, topo.PEID{PE: 1}, topo.PEID{PE: 7}, topo.PEID{Cube: 1}

const ns = event.Nanosecond

// A load of n bytes takes one burst and the time of n bytes at 256 GB/s. So does a store; with flits it also
// fills the pipeline of two links.
func TestLoadAndStore(t *testing.T) {
	for _, f := range []topo.Fabric{topo.Whole, topo.Flits} {
		m := bare(f)
		x := hbmAt(t, m, pe0, 0)
		for _, bytes := range []int{256, 2048, 65536} {
			fill := event.Time(0)
			if f == topo.Flits {
				fill = ns
			}
			want := 8*ns + m.Cube.HBM.BW.Time(bytes) + fill
			if got := perPE(t, config(m), kernels{pe0: func(p *tl.PE) { p.Load(x, bytes/2) }})[pe0]; got != want {
				t.Errorf("%s: a load of %d bytes takes %v, want %v", f, bytes, got, want)
			}
			if got := perPE(t, config(m), kernels{pe0: func(p *tl.PE) { p.Store(x, p.Scratch(bytes/2)) }})[pe0]; got != want {
				t.Errorf("%s: a store of %d bytes takes %v, want %v", f, bytes, got, want)
			}
		}
	}
}

// Nearer memory is faster, and PEs that use their own HBM do not slow each other down.
func TestDistance(t *testing.T) {
	for _, f := range []topo.Fabric{topo.Whole, topo.Flits} {
		m := bare(f)
		last := event.Time(0)
		for _, owner := range []topo.PEID{pe0, pe1, pe7, cube1, {Cube: 15}, {SIP: 1}} {
			x := hbmAt(t, m, owner, 0)
			took := perPE(t, config(m), kernels{pe0: func(p *tl.PE) { p.Load(x, 16384) }})[pe0]
			if took <= last {
				t.Errorf("%s: from %v it takes %v, from the one before %v", f, owner, took, last)
			}
			last = took
		}
		own := perPE(t, config(m), kernels{pe1: load(t, m, pe1, 0)})[pe1]
		together := perPE(t, config(m), kernels{pe0: load(t, m, pe0, 0), pe1: load(t, m, pe1, 0)})[pe1]
		alone := perPE(t, config(m), kernels{pe1: load(t, m, pe0, 0)})[pe1]
		shared := perPE(t, config(m), kernels{pe0: load(t, m, pe0, 0), pe1: load(t, m, pe0, 0)})[pe1]
		if together != own || shared < alone+64*ns {
			t.Errorf("%s: own HBM %v, beside a neighbour %v; the neighbour's HBM alone %v, shared %v", f, own, together, alone,
				shared)
		}
	}
}

func load(t testing.TB, m *topo.Topology, id topo.PEID, offset int64) tl.Kernel {
	x := hbmAt(t, m, id, offset)
	return func(p *tl.PE) { p.Load(x, 16384) }
}

// Bursts on one channel follow each other, bursts on different channels overlap, and a change between reading
// and writing costs the switch penalty.
func TestChannels(t *testing.T) {
	m := bare(topo.Whole)
	m.Cube.HBM.SwitchPenalty = 3 * ns
	g := &engine{Config: Config{Topo: m}, hbm: map[int]*hbm{}}
	at := func(offset int64) topo.Location { return topo.Location{Space: topo.HBMSpace, Offset: offset} }
	for i, c := range []struct {
		offset int64
		bytes  int
		write  bool
		want   event.Time
	}{
		{0, 256, false, 8 * ns},      // channel 0
		{256, 256, false, 8 * ns},    // channel 1, at the same time
		{2048, 256, false, 16 * ns},  // channel 0 again
		{100, 256, false, 24 * ns},   // the rest of channel 0's burst and the begin of 1's
		{512, 1, true, 11 * ns},      // channel 2 turns to writing
		{512, 1, true, 19 * ns},      // and stays there
		{4096, 2048, false, 32 * ns}, // all eight; channel 0 is the busiest
	} {
		if got := g.commit(at(c.offset), c.bytes, c.write, 0); got != c.want {
			t.Errorf("step %d: done at %v, want %v", i, got, c.want)
		}
	}
}

// Every burst that a transfer touches is moved once, for any start address and any size of pieces.
func TestBurstsAreMovedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := bare(topo.Flits)
		g := &engine{Config: Config{Topo: m}, hbm: map[int]*hbm{}}
		x := &transfer{location: topo.Location{Space: topo.HBMSpace, Offset: rapid.Int64Range(0, 5000).Draw(t, "offset")},
			bytes: rapid.IntRange(1, 20000).Draw(t, "bytes")}
		piece, write := rapid.IntRange(1, 700).Draw(t, "piece"), rapid.Bool().Draw(t, "write")
		var last event.Time
		for off := 0; off < x.bytes; off += piece {
			last = max(last, g.commitPiece(x, off, piece, write, 0))
		}
		want := make([]event.Time, m.Cube.HBM.Channels)
		burst := int64(m.Cube.HBM.Burst)
		for b := x.location.Offset / burst; b*burst < x.location.Offset+int64(x.bytes); b++ {
			want[m.Channel(b*burst)] += m.Cube.HBM.ChannelBW.Time(m.Cube.HBM.Burst)
		}
		if got := g.controller(x.location).free; !slices.Equal(got, want) || last != slices.Max(want) {
			t.Fatalf("%d bytes from %d in pieces of %d: channels are busy for %v until %v, want %v", x.bytes, x.location.Offset,
				piece, got, last, want)
		}
	})
}

// A load of 16 KB that begins within a burst takes at most one burst longer, not twice the time.
func TestUnalignedLoad(t *testing.T) {
	for _, fabric := range []topo.Fabric{topo.Flits, topo.Whole} {
		m := bare(fabric)
		times := map[int64]event.Time{}
		for _, offset := range []int64{0, 100} {
			r, _ := must.Get2(run(t, config(m), kernels{pe0: load(t, m, pe0, offset)}))(t)
			times[offset] = r.Crit
		}
		if more := times[100] - times[0]; more < 0 || more > 8*ns {
			t.Errorf("%s: %v from the start of a burst, %v from within one", fabric, times[0], times[100])
		}
	}
}

// The MATH engine processes 256 elements per ns; its time is rounded up to whole ns.
func TestCompute(t *testing.T) {
	m := bare(topo.Whole)
	for n, want := range map[int]event.Time{1: ns, 128: ns, 256: ns, 257: 2 * ns, 8192: 32 * ns} {
		got := perPE(t, config(m), kernels{pe0: func(p *tl.PE) { a := p.Scratch(n); p.Add(a, a) }})[pe0]
		if got != want {
			t.Errorf("%d elements take %v, want %v", n, got, want)
		}
	}
	dot := perPE(t, config(m), kernels{pe0: func(p *tl.PE) { p.Dot(p.Scratch(64*64), p.Scratch(64*33), 64, 64, 33) }})[pe0]
	if dot != 4*16*ns { // 2 x 1 x 2 tiles
		t.Errorf("a product of 4 tiles takes %v", dot)
	}
}

// A composite is a pipeline: its slowest stage determines its time, it is faster than its stages one after
// the other, and loaded operands save reads.
func TestComposite(t *testing.T) {
	m := bare(topo.Whole)
	x := hbmAt(t, m, pe0, 0)
	took := func(k int, resident bool, epilogue ...tl.Epilogue) event.Time {
		loading := event.Time(0)
		if resident {
			loading = perPE(t, config(m), kernels{pe0: func(p *tl.PE) { p.Load(x, 32*k) }})[pe0]
		}
		all := perPE(t, config(m), kernels{pe0: func(p *tl.PE) {
			a := tl.Ref(x)
			if resident {
				a = tl.Loaded(p.Load(x, 32*k))
			}
			p.Wait(p.Composite(tl.Gemm{M: 32, K: k, N: 32, A: a, B: tl.Ref(x),
				Out: x.Plus(64 * 48 * 32), Epilogue: epilogue}))
		}})[pe0]
		return all - loading
	}
	one, many := took(64, false), took(64*48, false)
	// A read occupies the channel until its data has arrived: 8 ns for the first bursts and 16 ns for 4096
	// bytes at 256 GB/s.
	if each := (many - one) / 47; each != 2*24*ns {
		t.Errorf("a tile more takes %v, want what reading its operands takes", each)
	}
	if got := (took(64*48, true) - took(64, true)) / 47; got != 24*ns {
		t.Errorf("with A in the PE a tile more takes %v, want what reading the other takes", got)
	}
	if got := took(64, false, tl.Epilogue{Fn: tl.Exp}) - one; got != 4*ns {
		t.Errorf("an epilogue over 1024 elements takes %v", got)
	}
}

// The time of a message from cube to cube is the sum of fixed latency, drain, slot write, slot read and the
// return of a credit of 16 bytes, to the picosecond.
func TestMessageTime(t *testing.T) {
	const bytes = 4096
	for _, f := range []topo.Fabric{topo.Whole, topo.Flits} {
		for space, access := range map[topo.Space]event.Time{
			topo.TCMSpace: 8 * ns, topo.SRAMSpace: 2*ns + 8*ns + 32*ns + 78, // 7.75 mm
			topo.HBMSpace: 6*ns + 16*ns + 16*ns,
		} {
			if f == topo.Flits { // the first flit passes the links before the last one without the others
				access += map[topo.Space]event.Time{topo.SRAMSpace: 4 * ns, topo.HBMSpace: 1 * ns}[space]
			}
			c := config(bare(f))
			c.Buffer = space
			r, took := must.Get2(run(t, c, kernels{
				pe0:   func(p *tl.PE) { p.Send(tl.E, p.Scratch(bytes/2)) },
				cube1: func(p *tl.PE) { p.Recv(tl.W, bytes/2) },
			}))(t)
			path, _ := topo.NewWiring(c.Topo).Path(atPE(pe0), atPE(cube1))
			back, _ := topo.NewWiring(c.Topo).Path(atPE(cube1), atPE(pe0))
			credit := back.Fixed() + 125
			flight := r.Breakdown.Wire + r.Breakdown.Overhead - credit
			if took[pe0] != 0 || took[cube1] != flight+2*access+credit || r.Breakdown.Slot != 2*access ||
				r.Breakdown.Queueing != 0 {
				t.Errorf("%s, %s: sender %v, receiver %v, parts %+v; want a flight, two accesses of %v and the credit", f, space,
					took[pe0], took[cube1], r.Breakdown, access)
			}
			if f == topo.Whole && flight != path.Fixed()+32*ns {
				t.Errorf("the flight takes %v, want %v and 32 ns", flight, path.Fixed())
			}
		}
	}
}

// If all slots are taken, the sender waits for the receiver. Polling rounds the wait up. Only the rounding is
// queueing; the rest is the receiver's work and the return of the credit.
func TestBackPressure(t *testing.T) {
	c := config(bare(topo.Whole))
	c.Slots = 1
	sender := func(p *tl.PE) {
		for range 3 {
			p.Send(tl.E, p.Scratch(128))
		}
	}
	slow := func(p *tl.PE) {
		p.Dot(p.Scratch(32*64), p.Scratch(64*32*8), 32, 64, 32*8) // 128 ns of other work
		for range 3 {
			p.Recv(tl.W, 128)
		}
	}
	r, slept := must.Get2(run(t, c, kernels{pe0: sender, cube1: slow}))(t)
	if slept[pe0] < 128*ns || r.Breakdown.Queueing != 0 {
		t.Errorf("the sender was done after %v, before the receiver took anything, or the credits' way is queueing (%+v)",
			slept[pe0], r.Breakdown)
	}
	c.Poll = true
	r, polled := must.Get2(run(t, c, kernels{pe0: sender, cube1: slow}))(t)
	if polled[pe0] < slept[pe0] || polled[pe0]%(10*ns) != 0 || r.Breakdown.Queueing == 0 {
		t.Errorf("polling every 10 ns it was done after %v, sleeping after %v (%+v)", polled[pe0], slept[pe0], r.Breakdown)
	}
	c.Poll, c.Slots = false, 3
	if free := perPE(t, c, kernels{pe0: sender, cube1: slow}); free[pe0] != 0 {
		t.Errorf("with enough slots the sender waits %v", free[pe0])
	}
}

// RecvAny serves neighbours in turn; RecvAsync runs concurrently with the program.
func TestAnyAndAsync(t *testing.T) {
	c := config(bare(topo.Flits))
	mid := topo.PEID{Cube: 5}
	send := func(d tl.Dir) tl.Kernel { return func(p *tl.PE) { p.Send(d, p.Scratch(64)); p.Send(d, p.Scratch(64)) } }
	r, _ := must.Get2(run(t, c, kernels{
		{Cube: 4}: send(tl.E), {Cube: 6}: send(tl.W), {Cube: 1}: send(tl.S),
		mid: func(p *tl.PE) {
			for range 6 {
				p.RecvAny(64)
			}
		},
	}))(t)
	from := map[int32]int{}
	var doors []int32
	for e := range r.Order.All() {
		if e.Port.Input != 0 && int(e.Port.To) == c.Topo.Index(mid) && e.Program == 2 {
			from[e.Port.From]++
			doors = append(doors, e.Port.Input)
		}
	}
	if len(from) != 3 || len(doors) != 6 || doors[0] == doors[1] {
		t.Errorf("messages came through the doors %v", doors)
	}
	work := func(p *tl.PE) { p.Dot(p.Scratch(32*64), p.Scratch(64*32*8), 32, 64, 32*8) }
	sender := func(p *tl.PE) { p.Send(tl.E, p.Scratch(512)) }
	one := perPE(t, c, kernels{pe0: sender, cube1: func(p *tl.PE) { p.Recv(tl.W, 512); work(p) }})[cube1]
	concurrent := perPE(t, c, kernels{pe0: sender,
		cube1: func(p *tl.PE) { h := p.RecvAsync(tl.W, 512); work(p); p.Wait(h) }})[cube1]
	if concurrent != 128*ns || one <= concurrent {
		t.Errorf("receive then work %v, beside work %v", one, concurrent)
	}
}

// The deadlock error names the chain of waiting programs, which may be a cycle or lead to one that has ended.
func TestDeadlock(t *testing.T) {
	c := config(bare(topo.Flits))
	for _, k := range []struct {
		ks   kernels
		want []string
		circ bool
	}{
		{kernels{pe0: func(p *tl.PE) { p.Recv(tl.E, 1) }, cube1: func(p *tl.PE) { p.Recv(tl.W, 1) }},
			[]string{"2 programs wait", "sip0.cube0.pe0 waits at sim/sim_test.go:386 (recv) from sip0.cube1.pe0",
				"sip0.cube1.pe0 waits at sim/sim_test.go:386 (recv) from sip0.cube0.pe0", "cycle"}, true},
		{kernels{pe0: func(p *tl.PE) { p.Recv(tl.E, 1) }, cube1: func(p *tl.PE) {}},
			[]string{"1 programs wait", "sip0.cube1.pe0 has ended"}, false},
		{kernels{pe0: func(p *tl.PE) { p.Recv(tl.E, 1) }}, []string{"sip0.cube1.pe0, which runs no program"}, false},
		{kernels{pe0: func(p *tl.PE) {
			for range 5 {
				p.Send(tl.E, p.Scratch(1))
			}
		}, cube1: func(p *tl.PE) {}}, []string{"sip0.cube0.pe0 waits at sim/sim_test.go:394 (send) for a free slot at " +
			"sip0.cube1.pe0",
			"has ended"}, false},
		{kernels{pe0: func(p *tl.PE) {
			p.Wait(p.RecvAsync(tl.E, 1))
		}, cube1: func(p *tl.PE) {}}, []string{"(recv_async) from sip0.cube1.pe0"}, false},
		{kernels{pe0: func(p *tl.PE) { p.RecvAny(1) }}, []string{"waits at sim/sim_test.go:402 (recv) for anyone"}, false},
	} {
		_, _, err := run(t, c, k.ks)
		var d *Deadlock
		if !errors.As(err, &d) || d.Cycle != k.circ {
			t.Errorf("%v, want a deadlock with %q", err, k.want)
			continue
		}
		for _, want := range k.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want it to say %q", err, want)
			}
		}
	}
}

func TestBadConfigs(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"0 slots":                 func(c *Config) { c.Slots = 0 },
		"hold no element":         func(c *Config) { c.SlotBytes = 1 },
		"credits of -1 bytes":     func(c *Config) { c.CreditBytes = -1 },
		`receive slots in "l2"`:   func(c *Config) { c.Buffer = "l2" },
		"bytes of tcm, which has": func(c *Config) { c.Slots = 17 },
	} {
		c := config(bare(topo.Flits))
		change(&c)
		_, err := Run(c, recorded(t, c))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c := config(bare(topo.Flits))
	twice := recorded(t, c)
	if _, err := Run(c, append(twice, twice...)); err == nil || !strings.Contains(err.Error(), "two programs") {
		t.Errorf("%v", err)
	}
}

func recorded(t *testing.T, c Config) []*program.Program {
	p := must.Get(tl.Record(program.Env{Topo: c.Topo, SlotBytes: 1 << 20}, func(p *tl.PE) {
		p.Send(tl.E, p.Scratch(1))
	}))(t)
	return []*program.Program{p}
}

// The same input gives the same result, in full.
func TestDeterminism(t *testing.T) {
	ks := kernels{}
	c := config(topo.Default())
	c.Load = true
	for i := range c.Topo.TotalPEs() {
		id := c.Topo.At(i)
		ks[id] = func(p *tl.PE) {
			x := p.Load(hbmAt(t, c.Topo, topo.PEID{Cube: id.Cube}, 0), 700)
			for _, d := range []tl.Dir{tl.E, tl.S} {
				if _, ok := program.Neighbor(c.Topo, id, d); ok {
					p.Send(d, x)
				}
			}
			for _, d := range []tl.Dir{tl.N, tl.W} {
				if _, ok := program.Neighbor(c.Topo, id, d); ok {
					x = p.Add(x, p.Recv(d, 700))
				}
			}
		}
	}
	first, _ := must.Get2(run(t, c, ks))(t)
	second, _, _ := run(t, c, ks)
	if !reflect.DeepEqual(first, second) { // much faster than cmp
		t.Error(cmp.Diff(first, second))
	}
	// All PEs of a cube load from one HBM, so many trains are split.
	c.FlitByFlit = true
	slow, _, _ := run(t, c, ks)
	if !reflect.DeepEqual(first, slow) {
		t.Error("trains differ from single flits: ", cmp.Diff(first, slow))
	}
	for _, plant := range []func(*Result){
		func(r *Result) { r.Path[0].From++ },
		func(r *Result) { r.Path = r.Path[:len(r.Path)-1] },
		func(r *Result) { r.Path[1].To-- },
	} {
		planted := *first
		planted.Path = slices.Clone(first.Path)
		plant(&planted)
		if brokenPath(&planted) == "" {
			t.Error("a critical path with a gap is not seen")
		}
	}
}

// The recorded load of the links is complete and has a bounded number of buckets for a launch of any length.
// Recording does not change the result.
func TestLoad(t *testing.T) {
	for _, f := range []topo.Fabric{topo.Whole, topo.Flits} {
		c := config(bare(f))
		for _, bytes := range []int{64, 16 << 10, 1 << 19} {
			ks := kernels{pe0: func(p *tl.PE) { p.Send(tl.E, p.Scratch(bytes/2)); p.Send(tl.E, p.Scratch(bytes/2)) },
				{PE: 1}:          func(p *tl.PE) { p.Send(tl.E, p.Scratch(bytes/2)) }, // over the same UCIe connection
				cube1:            func(p *tl.PE) { p.Recv(tl.W, bytes/2); p.Recv(tl.W, bytes/2) },
				{Cube: 1, PE: 1}: func(p *tl.PE) { p.Recv(tl.W, bytes/2) }}
			c.Load = false
			plain, _ := must.Get2(run(t, c, ks))(t)
			c.Load = true
			r, _ := must.Get2(run(t, c, ks))(t)
			if fault := brokenLoad(r); fault != "" {
				t.Errorf("%s, %d bytes: %s", f, bytes, fault)
			}
			shared := r.Load.Links[slices.Index(r.Busy.times, slices.Max(r.Busy.times))]
			if shared.Bytes != int64(3*bytes) || shared.Wait == 0 || r.Load.Buckets < 2 {
				t.Errorf("%s: the connection carried %+v of %d bytes, in %d buckets", f, shared, 3*bytes, r.Load.Buckets)
			}
			shared.Busy[0]++
			if brokenLoad(r) == "" {
				t.Error("a picosecond that no link was sending is not seen")
			}
			r.Load = nil
			if diff := cmp.Diff(plain, r); diff != "" {
				t.Errorf("%s: looking changes the result: %s", f, diff)
			}
		}
	}
	// The more links there are, the fewer buckets each has, so that the record is bounded.
	rec := newRecorder(maxCells)
	for link := range int32(maxCells / 16) {
		rec.record(fabric.Passage{Link: link, Bytes: 1, From: 0, To: 100 * ns})
	}
	rec.record(fabric.Passage{Bytes: 1, From: 100 * ns, To: 200 * ns})
	if rec.Buckets > 16 || rec.Links[0].Bytes != 2 || rec.Links[0].Busy[0] != rec.Bucket {
		t.Errorf("%d buckets of %v for %d links", rec.Buckets, rec.Bucket, rec.active)
	}
	// A machine with too many links is not recorded.
	defer func(most int) { maxRecordedLinks = most }(maxRecordedLinks)
	maxRecordedLinks = 10
	c := config(bare(topo.Flits))
	c.Load = true
	if r, _, err := run(t, c, kernels{pe0: func(p *tl.PE) {
		p.Send(tl.E, p.Scratch(8))
	}, cube1: func(p *tl.PE) { p.Recv(tl.W, 8) }}); err != nil || r.Load != nil || len(r.Path) == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// brokenLoad compares the recorded load with how long each link was sending.
func brokenLoad(r *Result) string {
	for link, l := range r.Load.Links {
		var busy event.Time
		if l != nil {
			for k, b := range l.Busy {
				if b < 0 || b > r.Load.Bucket || k >= r.Load.Buckets {
					return fmt.Sprintf("link %d was sending for %v of bucket %d of %d, of %v", link, b, k, r.Load.Buckets,
						r.Load.Bucket)
				}
				busy += b
			}
		}
		if busy != r.Busy.Of(link) {
			return fmt.Sprintf("link %d was sending for %v, by bucket %v", link, r.Busy.Of(link), busy)
		}
	}
	if r.Load.Buckets > MaxBuckets {
		return fmt.Sprintf("%d buckets", r.Load.Buckets)
	}
	return ""
}

// Little's law at the receive queues: the integral of the fill level equals the sum of the times that messages
// stay in the queue. The fill level never exceeds the number of slots.
func TestQueuesUnderLoad(t *testing.T) {
	c := config(bare(topo.Flits))
	c.Slots, c.Trace = 3, true
	g, err := newEngine(c, topo.NewWiring(c.Topo), recordedAs(t, c, kernels{
		pe0: func(p *tl.PE) {
			for range 20 {
				p.Send(tl.E, p.Scratch(500))
			}
		},
		cube1: func(p *tl.PE) {
			for i := range 20 {
				p.Recv(tl.W, 500)
				n := 32 * (1 + i%3)
				p.Dot(p.Scratch(32*64), p.Scratch(64*n), 32, 64, n)
			}
		},
	}), false)
	if err == nil {
		err = g.run()
	}
	if err != nil {
		t.Fatal(err)
	}
	q := g.queues[0]
	var stays event.Time
	for _, a := range q.arrivals {
		stays += a.read - a.visible
	}
	counts := g.counts(q)
	held := func(counts []Count) (area event.Time, most int) {
		for i, n := range counts {
			most = max(most, n.Messages)
			if i+1 < len(counts) {
				area += event.Time(n.Messages) * (counts[i+1].At - n.At)
			}
		}
		return area, most
	}
	if area, most := held(counts); area != stays || most != c.Slots || counts[len(counts)-1].Messages != 0 {
		t.Errorf("messages in the queue add up to %v, their stays to %v; at most %d of %d", area, stays, most, c.Slots)
	}
	if area, _ := held(slices.Delete(slices.Clone(counts), 3, 4)); area == stays {
		t.Error("a count that is lost is not seen")
	}
}

// An asynchronous receive that runs while the program computes costs only its dispatch. If the program waits
// for it in the end, the wait is on the critical path.
func TestBreakdownOfAsync(t *testing.T) {
	for _, fabric := range []topo.Fabric{topo.Whole, topo.Flits} {
		m := topo.Default().Clone()
		m.Fabric = fabric
		for _, elements := range []int{1, 4096, 1 << 18} { // the math ends before the message, with it, after it
			receiver := func(p *tl.PE) {
				h := p.RecvAsync(tl.E, 4096)
				x := p.Scratch(elements)
				p.AddTo(x, x)
				p.AddTo(x, x)
				p.Wait(h)
				p.AddTo(x, x)
			}
			sender := func(p *tl.PE) { p.Send(tl.W, p.Load(hbmAt(t, m, cube1, 0), 4096)) }
			perPE(t, config(m), kernels{pe0: receiver, cube1: sender})
		}
	}
}

// PEs that read from one memory wait for each other. The wait counts as queueing; the memory part is the time
// of a single read on an idle machine.
func TestBreakdownOfContention(t *testing.T) {
	for _, fabric := range []topo.Fabric{topo.Whole, topo.Flits} {
		m := bare(fabric)
		reader := load(t, m, pe0, 0)
		one, _ := must.Get2(run(t, config(m), kernels{pe1: reader}))(t)
		if one.Breakdown.Queueing != 0 || one.Breakdown.Memory != one.Crit {
			t.Errorf("%s: alone %+v of %v", fabric, one.Breakdown, one.Crit)
		}
		three, _ := must.Get2(run(t, config(m), kernels{pe0: reader, pe1: reader, pe7: reader}))(t)
		if b := three.Breakdown; b.Queueing == 0 || b.Memory >= three.Crit {
			t.Errorf("%s: three at one memory %+v of %v", fabric, b, three.Crit)
		}
	}
}

// A message that is not received, or received with another size, is an error.
func TestMessagesAreReceived(t *testing.T) {
	send := func(p *tl.PE) { p.Send(tl.E, p.Scratch(2)); p.Send(tl.E, p.Scratch(2)) }
	for want, ks := range map[string]kernels{
		"sip0.cube0.pe0 sent 2 messages to sip0.cube1.pe0 that were not received (the first at sim/sim_test.go:656): " +
			"sip0.cube1.pe0 runs no program": {
			pe0: send},
		"sent 1 message to sip0.cube1.pe0 that was not received (the first at sim/sim_test.go:656): sip0.cube1.pe0 has ended without": {
			pe0: send, cube1: func(p *tl.PE) { p.Recv(tl.W, 2) }},
		"sent 4 bytes at sim/sim_test.go:656 that sip0.cube1.pe0 received as 6 bytes at sim/sim_test.go:664": {
			pe0: send, cube1: func(p *tl.PE) { p.Recv(tl.W, 2); p.Recv(tl.W, 3) }},
	} {
		if _, _, err := run(t, config(topo.Default()), ks); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
