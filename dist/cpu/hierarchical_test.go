package cpu

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/disttest"
	"github.com/kernbench/kernbench/internal/base/must"
)

// Ranks on different hosts share no memory, so their group must not offer symmetric memory.
func TestHostsHaveNoSymmetricMemory(t *testing.T) {
	gs := must.Get(openHosts("aab", 20*time.Second))(t)
	defer closeAll(gs)
	caps := gs[0].Capabilities()
	if caps.Has(dist.SymmetricMemory) {
		t.Error("memory that ranks of several hosts reach: there is none")
	}
	for op, names := range caps.Algorithms {
		for _, name := range names {
			if strings.HasSuffix(name, "-stage") || name == "direct" && op != dist.Barrier {
				t.Errorf("%s %s reaches into memory of other hosts", op, name)
			}
		}
	}
	errs := onEach(gs, func(g *dist.Group) error {
		b, err := g.Alloc(dist.F32, 4)
		if err != nil {
			return err
		}
		if b.Memory() != nil {
			return fmt.Errorf("allocated in %v, want ordinary memory", b.Memory())
		}
		op, err := g.Prepare(dist.Call{Op: dist.AllReduce, In: b, Out: b})
		if err != nil {
			return err
		}
		if name := op.Plan().Algorithm; name != hierarchical {
			return fmt.Errorf("auto takes %s, want %s", name, hierarchical)
		}
		// A subgroup of ranks on one host shares memory.
		half, err := g.Split(g.Rank()/2, 0)
		if err != nil {
			return err
		}
		defer half.Close()
		if !half.Capabilities().Has(dist.SymmetricMemory) {
			return fmt.Errorf("ranks of one host have no symmetric memory")
		}
		return g.Free(b)
	})
	for _, err := range errs {
		t.Error(err)
	}
}

func closeAll(gs []*dist.Group) {
	for _, g := range gs {
		g.Close()
	}
}

// onEach runs body on all ranks and returns their errors, without nils.
func onEach(gs []*dist.Group, body func(g *dist.Group) error) []error {
	errs := disttest.Each(gs, func(g *dist.Group) error {
		err := body(g)
		if err != nil {
			err = fmt.Errorf("rank %d: %w", g.Rank(), err)
			g.Close()
		}
		return err
	})
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// TestHierarchicalAddsUp compares the pipelined all-reduce with a plain sum, for any hosts, lengths
// and pieces. All vectors are reduced by the same group, one after the other, so a slot that is
// overwritten too early gives a wrong sum.
func TestHierarchicalAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(2, 5).Draw(t, "ranks")
		hosts := []byte("a")
		for range size - 2 {
			hosts = append(hosts, rapid.SampledFrom([]byte("abc")).Draw(t, "host"))
		}
		hosts = append(hosts, 'b')
		type call struct {
			count, chunk int
			inPlace      bool
		}
		var calls []call
		for range rapid.IntRange(1, 3).Draw(t, "calls") {
			calls = append(calls, call{
				count:   rapid.OneOf(rapid.IntRange(1, 300), rapid.IntRange(1, 700_000)).Draw(t, "count"),
				chunk:   rapid.SampledFrom([]int{0, 1, 16 << 10, 20_000, 1 << 20}).Draw(t, "chunk"),
				inPlace: rapid.Bool().Draw(t, "in place"),
			})
		}
		gs := must.Get(openHosts(string(hosts), 30*time.Second))(t)
		defer closeAll(gs)
		errs := onEach(gs, func(g *dist.Group) error {
			for k, c := range calls {
				in := make([]int32, c.count)
				for i := range in {
					in[i] = int32((i+k)%1000 + 1000*g.Rank())
				}
				out := in
				if !c.inPlace {
					out = make([]int32, c.count)
				}
				if err := g.Do(dist.Call{Op: dist.AllReduce, In: dist.Of(in), Out: dist.Of(out), Algorithm: hierarchical,
					Chunk: c.chunk}); err != nil {
					return err
				}
				for i, v := range out {
					if want := int32(size*((i+k)%1000) + 1000*size*(size-1)/2); v != want {
						return fmt.Errorf("call %d (%+v) gives %d at %d, want %d", k, c, v, i, want)
					}
				}
			}
			return nil
		})
		for _, err := range errs {
			t.Errorf("hosts %s: %v", hosts, err)
		}
	})
}

// Both ends of a connection send 64 MiB at the same time, once with started messages and once within
// one step. Neither may block the other.
func TestBothSendMuch(t *testing.T) {
	if testing.Short() {
		t.Skip("much memory")
	}
	gs := must.Get(openHosts("ab", 30*time.Second))(t)
	defer closeAll(gs)
	const n = 64 << 20
	errs := onEach(gs, func(g *dist.Group) error {
		out, in := make([]uint8, n), make([]uint8, n)
		for i := range out {
			out[i] = uint8(i*7 + g.Rank())
		}
		check := func(from int) error {
			for i, v := range in {
				if want := uint8(i*7 + from); v != want {
					return fmt.Errorf("byte %d is %d, want %d", i, v, want)
				}
			}
			clear(in)
			return nil
		}
		send, err := g.Start(dist.Call{Op: dist.Send, In: dist.Of(out), Peer: 1 - g.Rank()})
		if err != nil {
			return err
		}
		if err := g.Recv(dist.Of(in), 1-g.Rank()); err != nil {
			return err
		}
		if err := send.Wait(); err != nil {
			return err
		}
		if err := check(1 - g.Rank()); err != nil {
			return err
		}
		return g.AllToAll(dist.Of(in), dist.Of(out))
	})
	for _, err := range errs {
		t.Error(err)
	}
}

// Prepared calls between hosts must not allocate either.
func TestHierarchicalAllocatesNothing(t *testing.T) {
	gs := must.Get(openHosts("aab", 30*time.Second))(t)
	defer closeAll(gs)
	const runs = 50
	counts := make([]float64, len(gs))
	errs := onEach(gs, func(g *dist.Group) error {
		b := dist.Of(make([]float32, 300_000))
		var ops []*dist.Op
		for _, c := range []dist.Call{
			{Op: dist.AllReduce, In: b.Slice(0, 10), Out: b.Slice(0, 10)}, {Op: dist.AllReduce, In: b, Out: b},
			{Op: dist.AllReduce, In: b, Out: b, Algorithm: "ring"}, {Op: dist.Barrier},
		} {
			op, err := g.Prepare(c)
			if err != nil {
				return err
			}
			ops = append(ops, op)
		}
		var failed error
		body := func() {
			for _, op := range ops {
				if err := op.Run(); err != nil && failed == nil {
					failed = err
				}
			}
		}
		if g.Rank() > 0 { // AllocsPerRun counts for the whole process, and makes one warm-up call
			for range runs + 1 {
				body()
			}
			return failed
		}
		counts[0] = testing.AllocsPerRun(runs, body)
		return failed
	})
	for _, err := range errs {
		t.Error(err)
	}
	if counts[0] >= 1 {
		t.Errorf("%v allocations per run of four calls, want none", counts[0])
	}
}
