package cpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/disttest"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// together runs fn on all ranks of a new group. The ranks are goroutines of this process.
func together(t must.T, n int, fn func(g *dist.Group) error) error {
	t.Helper()
	return togetherOn(t, Name, n, fn)
}

func togetherOn(t must.T, backend string, n int, fn func(g *dist.Group) error) error {
	t.Helper()
	return errors.Join(disttest.Each(must.Get(openOn(backend, n, 20*time.Second))(t), func(g *dist.Group) error {
		defer g.Close()
		return fn(g)
	})...)
}

// view returns b as a buffer of type d.
func view(d dist.DType, b []byte) dist.Buffer {
	if len(b) == 0 {
		return dist.Buffer{}
	}
	return dist.NewBuffer(d, len(b)/d.Size(), unsafe.Pointer(&b[0]), nil)
}

// TestFastPathsEqualSteps compares the optimised all-reduces with the proved steps of their schedules,
// bit for bit: any type, count, chunk and alignment, in place or not.
func TestFastPathsEqualSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(2, 4).Draw(t, "ranks")
		d := rapid.SampledFrom([]dist.DType{dist.F32, dist.F16, dist.I32, dist.U8}).Draw(t, "type")
		count := rapid.OneOf(rapid.IntRange(1, 200), rapid.IntRange(1, 100_000)).Draw(t, "count")
		chunk := rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 200_000)).Draw(t, "chunk")
		if count/max(chunk, 1) > 200 {
			chunk = 0
		}
		algorithm := rapid.SampledFrom([]string{"one-stage", "two-stage"}).Draw(t, "algorithm")
		symmetric := rapid.Bool().Draw(t, "symmetric")
		inPlace := rapid.Bool().Draw(t, "in place")
		skew := rapid.IntRange(0, 9).Draw(t, "skew")
		err := together(t, ranks, func(g *dist.Group) error {
			n := count * d.Size()
			in, want := make([]byte, n), make([]byte, n)
			for i := range in {
				in[i] = byte((i*7 + g.Rank()*31) % 97 & 0x3f) // no NaN: which payload a sum of NaNs has is not defined
			}
			if err := g.Do(dist.Call{Op: dist.AllReduce, In: view(d, in), Out: view(d, want),
				Algorithm: "steps:" + algorithm}); err != nil {
				return err
			}
			a, b := dist.Of(make([]byte, n+16)), dist.Of(make([]byte, n+16))
			if symmetric {
				var err error
				if a, err = g.Alloc(dist.U8, n+16); err != nil {
					return err
				}
				if b, err = g.Alloc(dist.U8, n+16); err != nil {
					return err
				}
			}
			shift := skew * d.Size() % 16
			src := dist.NewBuffer(d, count, unsafe.Pointer(&a.Bytes()[shift]), a.Memory())
			dst := dist.NewBuffer(d, count, unsafe.Pointer(&b.Bytes()[(shift+d.Size())%16]), b.Memory())
			copy(src.Bytes(), in)
			if inPlace {
				dst = src
			}
			for range 2 {
				copy(src.Bytes(), in)
				if err := g.Do(dist.Call{Op: dist.AllReduce, In: src, Out: dst, Algorithm: algorithm, Chunk: chunk}); err != nil {
					return err
				}
				if !bytes.Equal(dst.Bytes(), want) {
					return fmt.Errorf("rank %d has other bits than the steps", g.Rank())
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestLongStreams makes calls of one and of many pieces, which end inside a piece or at its end.
// Inputs change with every call, so a rank that reads a piece too early or from the wrong slot gets a
// wrong sum.
func TestLongStreams(t *testing.T) {
	const piece = pipedPiece / 4
	counts := []int{piece, 5 * piece, 1, 2*piece + 7, 4*piece - 1, 3 * piece, piece + 1}
	value := func(call, rank, i int) float32 { return float32((i*7 + i>>9 + rank*31 + call*13) % 64) }
	for _, ranks := range []int{2, 4} { // powers of two, so that averages are exact
		if testing.Short() && ranks > 2 {
			continue
		}
		err := togetherOn(t, streamed, ranks, func(g *dist.Group) error {
			call := 0
			for _, count := range counts {
				in, out := make([]float32, count), make([]float32, count)
				for _, inPlace := range []bool{false, true} {
					for _, reduction := range []dist.Reduction{dist.Sum, dist.Avg} {
						for _, algorithm := range []string{"one-stage", "one-stage", "two-stage"} {
							call++
							for i := range in {
								in[i], out[i] = value(call, g.Rank(), i), -1
							}
							to := out
							if inPlace {
								to = in
							}
							if err := g.Do(dist.Call{Op: dist.AllReduce, In: dist.Of(in), Out: dist.Of(to), Reduction: reduction,
								Algorithm: algorithm}); err != nil {
								return err
							}
							for i, got := range to {
								var want float32
								for r := range ranks {
									want += value(call, r, i)
								}
								if reduction == dist.Avg {
									want /= float32(ranks)
								}
								if got != want {
									return fmt.Errorf("rank %d, call %d, %s of %d by %s, in place %v: element %d is %v, want %v",
										g.Rank(), call, reduction, count, algorithm, inPlace, i, got, want)
								}
							}
						}
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%d ranks: %v", ranks, err)
		}
	}
}

// TestRunAllocatesNothing counts the allocations of prepared operations, on all ranks together.
func TestRunAllocatesNothing(t *testing.T) {
	type part struct {
		name  string
		count int
		call  dist.Call
	}
	parts := []part{
		{"tiny", 1, dist.Call{Op: dist.AllReduce}},
		{"one-stage", 5000, dist.Call{Op: dist.AllReduce, Algorithm: "one-stage", Reduction: dist.Avg}},
		{"two-stage", 50_000, dist.Call{Op: dist.AllReduce, Algorithm: "two-stage"}},
		{"ring", 50_000, dist.Call{Op: dist.AllReduce, Algorithm: "ring"}},
		{"direct reduce", 5000, dist.Call{Op: dist.Reduce}},
		{"barrier", 0, dist.Call{Op: dist.Barrier}},
	}
	for _, p := range parts {
		for _, symmetric := range []bool{false, true} {
			var before, after runtime.MemStats
			err := together(t, 2, func(g *dist.Group) error {
				in, out := dist.Of(make([]float32, p.count)), dist.Of(make([]float32, p.count))
				if symmetric {
					in, _ = g.Alloc(dist.F32, p.count)
					out, _ = g.Alloc(dist.F32, p.count)
				}
				c := p.call
				if p.count > 0 {
					c.In, c.Out = in, out
				}
				op, err := g.Prepare(c)
				if err != nil {
					return err
				}
				stop, err := g.Prepare(dist.Call{Op: dist.Barrier})
				if err != nil {
					return err
				}
				return errors.Join(op.Run(), stop.Run(), measured(g, &before, op, stop), stop.Run(), measured(g, &after, op, stop))
			})
			if err != nil {
				t.Fatal(err)
			}
			// Sleeping in the kernel may make the runtime start a thread, which allocates. So a few
			// allocations are allowed.
			if n := after.Mallocs - before.Mallocs; n > runs/10 && !raceEnabled {
				t.Errorf("%s, symmetric %v: %d allocations in %d runs", p.name, symmetric, n, 2*runs)
			}
		}
	}
}

const runs = 400

// measured runs op many times. Rank 0 reads the memory statistics before the first run.
func measured(g *dist.Group, stats *runtime.MemStats, op, stop *dist.Op) error {
	if g.Rank() == 0 {
		runtime.ReadMemStats(stats)
	}
	err := stop.Run()
	for range runs {
		err = errors.Join(err, op.Run())
	}
	return err
}

// join returns the engines of a new group.
func join(size int, timeout time.Duration) ([]*engine, error) {
	engines, errs := make([]*engine, size), make([]error, size)
	id := fmt.Sprintf("cpu-join-%d", time.Now().UnixNano())
	var ranks sync.WaitGroup
	for r := range size {
		ranks.Go(func() {
			e, err := backend{}.Join(context.Background(), dist.Config{Rank: r, Size: size, ID: id, Timeout: timeout})
			if errs[r] = err; err == nil {
				engines[r] = e.(localEngine).engine
			}
		})
	}
	ranks.Wait()
	return engines, errors.Join(errs...)
}

// mutant is a schedule in which one rank skips a step.
type mutant struct {
	schedule.Schedule
	rank, step int
}

func (m mutant) Steps(rank int) iter.Seq[schedule.Step] {
	return func(yield func(schedule.Step) bool) {
		i := 0
		for s := range m.Schedule.Steps(rank) {
			if (rank != m.rank || i != m.step) && !yield(s) {
				return
			}
			i++
		}
	}
}

// TestMutatedScheduleIsNoticed executes schedules with one step removed. Ranks must then disagree,
// time out, or compute a wrong result. If none of this happens, the executor does not execute the
// steps.
func TestMutatedScheduleIsNoticed(t *testing.T) {
	const ranks, count = 3, 100
	for _, algorithm := range []string{"ring", "two-stage", "tree", "naive"} {
		s := must.Get(schedule.New(schedule.AllReduce, algorithm, schedule.Params{Ranks: ranks, Count: count}))(t)
		// Remove the first step. Later ones may be waits, which may have no effect in this run.
		engines := must.Get(join(ranks, time.Second))(t)
		noticed := make([]bool, ranks)
		var all sync.WaitGroup
		for r, e := range engines {
			all.Go(func() {
				in, out := make([]int32, count), make([]int32, count)
				for i := range in {
					in[i] = int32(i + r)
				}
				p := dist.Plan{Call: dist.Call{Op: dist.AllReduce, In: dist.Of(in), Out: dist.Of(out), Count: count,
					Algorithm: algorithm}, DType: dtype.I32}
				o, err := e.execute(p, mutant{s, 1, 0}, algorithm == "two-stage")
				if err == nil {
					err = o.run()
				}
				noticed[r] = err != nil
				for i, v := range out {
					noticed[r] = noticed[r] || v != int32(3*i+3)
				}
				e.Close()
			})
		}
		all.Wait()
		if !noticed[0] && !noticed[1] && !noticed[2] {
			t.Errorf("%s without the first step of rank 1 is right on all ranks", algorithm)
		}
	}
}

// Sums of few elements must have the same bits as the vector kernels' sums, for any input. Only the
// sign and payload of a NaN may differ.
func TestFewSums(t *testing.T) {
	for _, d := range []dist.DType{dist.F64, dist.F32, dist.F16, dist.BF16, dist.I64, dist.I32} {
		for n := d.Size(); n <= shm.TinyBytes; n += d.Size() {
			few := fewSum(d, n)
			if few == nil {
				continue // the vector kernel handles this count
			}
			rapid.Check(t, func(t *rapid.T) {
				srcs := make([][]byte, rapid.IntRange(2, 5).Draw(t, "ranks"))
				for i := range srcs {
					srcs[i] = rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "source")
				}
				got, want := make([]byte, n), make([]byte, n)
				few(got, srcs)
				vec.Lookup(d, vec.Sum).Reduce(want, srcs)
				for at := 0; at < n; at += d.Size() {
					g, w := got[at:at+d.Size()], want[at:at+d.Size()]
					if !bytes.Equal(g, w) && !(isNaN(d, g) && isNaN(d, w)) {
						t.Errorf("%v: %x, the kernel has %x of %x", d, got, want, srcs)
					}
				}
			})
		}
	}
}

func isNaN(d dist.DType, b []byte) bool {
	switch d {
	case dist.F64:
		return math.IsNaN(*element[float64](b, 0))
	case dist.F32:
		return math.IsNaN(float64(*element[float32](b, 0)))
	case dist.F16:
		return math.IsNaN(float64(element[dtype.Float16](b, 0).Float32()))
	case dist.BF16:
		return math.IsNaN(float64(element[dtype.BFloat16](b, 0).Float32()))
	}
	return false
}

// Arrived must report true once all ranks have begun the call, and not before.
func TestArrived(t *testing.T) {
	must.Do(t, together(t, 3, func(g *dist.Group) error {
		out, token := make([]float64, 2), dist.Of([]float64{0})
		add, err := g.Prepare(dist.Call{Op: dist.AllReduce, In: dist.Of([]float64{1, 2}), Out: dist.Of(out),
			Reduction: dist.Sum})
		for k := 0; k < 5 && err == nil; k++ {
			if add.Arrived() {
				return errors.New("a sum that was not begun has arrived")
			}
			if g.Rank() > 0 { // each rank begins after the previous one
				err = g.Recv(token, g.Rank()-1)
			}
			err = errors.Join(err, add.Begin())
			if got := add.Arrived(); got != (g.Rank() == 2) {
				return fmt.Errorf("rank %d has begun: all have is %v", g.Rank(), got)
			}
			err = errors.Join(err, g.Send(token, (g.Rank()+1)%3))
			if g.Rank() == 0 {
				if err = errors.Join(err, g.Recv(token, 2)); !add.Arrived() {
					return errors.New("all have begun, which rank 0 does not see")
				}
			}
			err = errors.Join(err, add.Wait())
		}
		return err
	}))
}
