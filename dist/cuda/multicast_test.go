package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/disttest"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/host/cudatest"
)

// severalGPUs makes the stand-in have n GPUs with multicast memory.
func severalGPUs(t *testing.T, n int) {
	t.Helper()
	t.Setenv(cudatest.DevicesVariable, fmt.Sprint(n))
	t.Setenv(cudatest.MulticastVariable, "1")
	t.Setenv(cudatest.MajorVariable, "9")
}

// multicastCases returns the suite's cases in which an algorithm is chosen.
func multicastCases(sizes ...int) (list []disttest.Case) {
	for _, c := range (disttest.Suite{Open: open, Sizes: sizes, Short: true}).Cases() {
		if kind, _, _ := strings.Cut(c.Name,
			"/"); slices.Contains([]string{"allreduce", "bits", "epilogue", "norm", "allgather", "alltoall"}, kind) {
			list = append(list, c)
		}
	}
	return list
}

// If every rank has a GPU with multicast memory, multimem is available and passes the suite.
func TestMulticast(t *testing.T) {
	log := filepath.Join(t.TempDir(), "calls")
	t.Setenv(cudatest.LogVariable, log)
	severalGPUs(t, 4)
	sizes := []int{2, 3, 4}
	if testing.Short() {
		sizes = []int{2} // as in the rest of the suite
	}
	for _, c := range multicastCases(sizes...) {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Check(); err != nil && !errors.Is(err, disttest.ErrNotDeclared) {
				t.Error(err)
			}
		})
	}
	calls, err := os.ReadFile(log)
	for _, d := range []string{"f16", "bf16", "f32", "f64"} {
		if err != nil || !strings.Contains(string(calls), "cuLaunchKernel multimem_"+d+"_any") {
			t.Errorf("nothing was added by the switch in %s (%v)", d, err)
		}
	}
}

// The suite finds memory that is not bound to the multicast object, and a dropped barrier.
func TestMulticastFaults(t *testing.T) {
	severalGPUs(t, 3)
	t.Run("unbound", func(t *testing.T) {
		t.Setenv(cudatest.BindVariable, "unbound")
		for _, c := range multicastCases(2, 3) {
			if strings.HasPrefix(c.Name, "allreduce") {
				if err := c.Check(); err == nil || !strings.Contains(err.Error(), multimem) {
					t.Errorf("%s with memory that is not bound: %v", c.Name, err)
				}
			}
		}
	})
	for _, fault := range instrument.Faults() {
		t.Run(fault, func(t *testing.T) {
			gs := must.Get(open(3, time.Minute))(t)
			together(t, gs, func(rank int, g *dist.Group) error { return plantedWrong(g, rank, fault) })
			together(t, gs, func(_ int, g *dist.Group) error { return g.Close() })
		})
	}
}

// plantedWrong returns an error if a fault leaves all sums of a rank right, unless multimem cannot
// have that fault.
func plantedWrong(g *dist.Group, rank int, fault string) error {
	if err := instrument.Plant(g, fault); err != nil {
		return err
	}
	in, out := dist.Make(dist.F32, 1001), dist.Make(dist.F32, 1001)
	for i := range 1001 {
		dist.Slice[float32](in)[i] = float32(i + rank)
	}
	switch err := g.Do(dist.Call{Op: dist.AllReduce, In: in, Out: out, Algorithm: multimem}); {
	case fault == instrument.WrongSlot:
		if !errors.Is(err, instrument.ErrNoSuchFault) {
			return fmt.Errorf("want that there are no slots: %w", err)
		}
		return nil
	case err != nil:
		return err
	}
	wrong := 0
	for i, got := range dist.Slice[float32](out) {
		if got != float32(3*i+3) {
			wrong++
		}
	}
	if late := fault == instrument.DroppedBarrier && rank == 2; wrong == 0 && !late { // the late rank is right
		return errors.New("all sums are right")
	}
	return nil
}

// If the group cannot have multicast memory, it reports the reason and offers everything else.
func TestMulticastLacking(t *testing.T) {
	for _, c := range []struct{ devices, variable, value, want string }{
		{"2", cudatest.BindVariable, "create", "making multicast memory: rank 0: cuMulticastCreate: operation not supported"},
		{"2", cudatest.BindVariable, "bind", "binding multicast memory: rank 1: cuMulticastBindMem: operation not supported"},
		{"1", cudatest.MulticastVariable, "1", "ranks share a GPU"},
		{"2", cudatest.RefuseVariable, "multimem",
			"loading the kernels of multimem: cuModuleLoadData: a PTX JIT compilation failed"},
	} {
		t.Run(c.want, func(t *testing.T) {
			severalGPUs(t, 2)
			t.Setenv(cudatest.DevicesVariable, c.devices)
			t.Setenv(c.variable, c.value)
			for _, d := range thisProcess.devices { // forget the kernels that the driver has accepted
				loaded := d.Context
				d.Context = must.Get(d.Device().Context())(t)
				t.Cleanup(func() { d.Context = loaded })
			}
			gs := must.Get(open(2, time.Minute))(t)
			together(t, gs, func(rank int, g *dist.Group) error {
				caps := g.Capabilities()
				if slices.Contains(caps.Algorithms[dist.AllReduce], multimem) || !strings.Contains(caps.Missing[multimem], c.want) {
					return fmt.Errorf("rank %d lacks %q, want %q", rank, caps.Missing[multimem], c.want)
				}
				in, err := g.Alloc(dist.F32, 100)
				if err != nil {
					return err
				}
				if err := g.Do(dist.Call{Op: dist.AllReduce, In: in, Out: in, Algorithm: multimem}); err == nil ||
					!strings.Contains(err.Error(), c.want) {
					return fmt.Errorf("by the switch all the same: %w", err)
				}
				return nil
			})
			for _, g := range gs {
				g.Close()
			}
		})
	}
}

// Multicast memory is summed in place. Buffers with different offsets on other ranks, or that do not
// end at a pack boundary, go through the stage, and the bytes next to them stay unchanged. In the end
// everything is released.
func TestMulticastPlaces(t *testing.T) {
	const size, count = 2, 64
	severalGPUs(t, size)
	log := filepath.Join(t.TempDir(), "calls")
	t.Setenv(cudatest.LogVariable, log)
	gs := must.Get(open(size, time.Minute))(t)
	together(t, gs, func(rank int, g *dist.Group) error {
		b, err := g.Alloc(dist.F32, count)
		if err != nil {
			return err
		}
		for _, c := range []struct{ first, n int }{{0, count}, {4, 8}, {4, 7}, {8 * rank, 8}, {4 * rank, 5}} {
			if err := write(b, float32(1+rank)); err != nil {
				return err
			}
			part := b.Slice(c.first, c.n)
			if err := g.Do(dist.Call{Op: dist.AllReduce, In: part, Out: part, Algorithm: multimem}); err != nil {
				return err
			}
			m, err := b.Mirror()
			if err != nil {
				return err
			}
			for i, got := range dist.Slice[float32](m) {
				want := float32(1 + rank)
				if i >= c.first && i < c.first+c.n {
					want = 3
				}
				if got != want {
					return fmt.Errorf("%+v: element %d is %v, want %v", c, i, got, want)
				}
			}
		}
		again, err := g.Alloc(dist.F32, count)
		if err != nil {
			return err
		}
		err = errors.Join(g.Free(b), g.Barrier())
		_, err2 := g.Alloc(dist.F32, count) // releases b
		return errors.Join(err, err2, g.Free(again))
	})
	together(t, gs, func(_ int, g *dist.Group) error { return g.Close() })
	givenBack(t, log)
}

// givenBack checks that all multicast memory in a log of driver calls was released.
func givenBack(t *testing.T, log string) {
	t.Helper()
	text := must.Get(os.ReadFile(log))(t)
	n := func(calls ...string) (sum int) {
		for _, call := range calls {
			sum += strings.Count(string(text), call+" ") + strings.Count(string(text), call+"\n")
		}
		return sum
	}
	for _, pair := range [][2]int{{n("cuMemCreate", "cuMulticastCreate", "cuMemImportFromShareableHandle"),
		n("cuMemRelease")}, {n("cuMemMap"), n("cuMemUnmap")},
		{n("cuMemAddressReserve"), n("cuMemAddressFree")}, {n("cuMulticastBindMem"), n("cuMulticastUnbind")},
		{n("cuMemAlloc"), n("cuMemFree")}} {
		if pair[0] != pair[1] || pair[0] == 0 {
			t.Errorf("%d taken, %d given back", pair[0], pair[1])
		}
	}
}

// multimem can be timed in all ways, and each leaves the right sums.
func TestMulticastTimings(t *testing.T) {
	const size, count = 2, 1000
	severalGPUs(t, size)
	gs := must.Get(open(size, time.Minute))(t)
	together(t, gs, func(r int, g *dist.Group) error {
		in, err := g.Alloc(dist.F32, count)
		if err != nil {
			return err
		}
		out, err := g.Alloc(dist.F32, count)
		if err != nil {
			return err
		}
		return timedRight(g, in, out, multimem, 5)
	})
	together(t, gs, func(_ int, g *dist.Group) error { return g.Close() })
}

// switches makes the test program rank 1 of the group with this name.
const switches = "KERNBENCH_TEST_RANK_SWITCHES"

func switchAsRank1(id string) error {
	g, err := dist.Init(context.Background(), dist.Config{Backend: Name, Rank: 1, Size: 2, ID: id, Timeout: time.Minute})
	if err != nil {
		return err
	}
	b, err := g.Alloc(dist.F32, 1000)
	if err == nil {
		err = errors.Join(write(b, 2), g.Do(dist.Call{Op: dist.AllReduce, In: b, Out: b, Algorithm: multimem}))
	}
	if err == nil {
		fmt.Println("added")
		select {}
	}
	return err
}

// The switch adds the memory of two processes. When one is killed, the other reports that and releases
// everything.
func TestMulticastProcesses(t *testing.T) {
	severalGPUs(t, 2)
	if id := os.Getenv(switches); id != "" {
		t.Fatal(switchAsRank1(id))
	}
	id, rank1, output := startRank1(t, switches)
	log := filepath.Join(t.TempDir(), "calls")
	t.Setenv(cudatest.LogVariable, log)
	g := must.Get(dist.Init(t.Context(), dist.Config{Backend: Name, Rank: 0, Size: 2, ID: id, Timeout: time.Minute}))(t)
	b := must.Get(g.Alloc(dist.F32, 1000))(t)
	must.Do(t, errors.Join(write(b, 1), g.Do(dist.Call{Op: dist.AllReduce, In: b, Out: b, Algorithm: multimem})))
	m, err := b.Mirror()
	if err != nil || slices.ContainsFunc(dist.Slice[float32](m), func(v float32) bool { return v != 3 }) {
		t.Fatalf("1 and 2 are %v (%v)", dist.Slice[float32](m)[:8], err)
	}
	if line, err := output.ReadString('\n'); line != "added\n" {
		t.Fatalf("%q %v", line, err)
	}
	rank1.Process.Kill()
	rank1.Wait()
	var peer *dist.PeerError
	if err := g.Do(dist.Call{Op: dist.AllReduce, In: b, Out: b, Algorithm: multimem}); !errors.As(err, &peer) ||
		peer.Rank != 1 ||
		!peer.Dead {
		t.Errorf("adding with the dead: %v", err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	givenBack(t, log)
}
