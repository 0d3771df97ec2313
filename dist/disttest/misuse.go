package disttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// mistakeRanks is the size of the groups in which one rank makes a mistake.
const mistakeRanks = 3

// mistake is a call of the last rank that differs from the call of the others.
type mistake struct {
	name   string
	right  func(g *dist.Group) error // the call of the other ranks
	wrong  func(g *dist.Group) error
	naming []string                     // texts that the error must contain, from both calls
	has    func(dist.Capabilities) bool // reports whether the backend can make the calls; nil: every backend can
}

func sumOf[E float32 | float64](count int) func(g *dist.Group) error {
	return sumBy[E](count, dist.Call{})
}

// sumBy returns an all-reduce of count elements with the options of a call.
func sumBy[E float32 | float64](count int, options dist.Call) func(g *dist.Group) error {
	return func(g *dist.Group) error {
		b, c := dist.Of(make([]E, count)), options // a copy, because ranks may be goroutines
		c.Op, c.In, c.Out = dist.AllReduce, b, b
		return g.Do(c)
	}
}

func reduceOf(count int, r dist.Reduction, root int) func(g *dist.Group) error {
	return func(g *dist.Group) error {
		b := dist.Of(make([]float32, count))
		return g.Reduce(b, b, r, root)
	}
}

func barrier(g *dist.Group) error { return g.Barrier() }

func mistakes() []mistake {
	sum8 := sumOf[float32](8)
	return []mistake{
		{"count", sum8, sumOf[float32](9), []string{"8 f32", "9 f32"}, nil},
		{"count large", sumOf[float32](100_000), sumOf[float32](100_001), []string{"100000 f32", "100001 f32"}, nil},
		{"count small and large", sum8, sumOf[float32](1_000_000), []string{"8 f32", "1000000 f32"}, nil},
		{"count zero", sum8, sumOf[float32](0), []string{"8 f32", "allreduce of 0"}, nil},
		{"type", sum8, sumOf[float64](8), []string{"8 f32", "8 f64"}, nil},
		{"type of the same bytes", sumOf[float32](8), sumOf[float64](4), []string{"8 f32", "4 f64"}, nil},
		{"reduction", reduceOf(8, dist.Sum, 0), reduceOf(8, dist.Max, 0), []string{"sum", "max"}, maximal},
		{"root", reduceOf(8, dist.Sum, 0), reduceOf(8, dist.Sum, 1), []string{"root 0", "root 1"}, nil},
		{"operation", sum8, reduceOf(8, dist.Sum, 0), []string{"allreduce", "reduce"}, nil},
		{"barrier", sum8, barrier, []string{"allreduce", "barrier"}, nil},
		{"algorithm", sumBy[float32](8, dist.Call{Algorithm: "one-stage"}),
			sumBy[float32](8, dist.Call{Algorithm: "two-stage"}),
			[]string{"one-stage", "two-stage"}, staged},
		{"chunk", sumBy[float32](5000, dist.Call{Chunk: 100}), sumBy[float32](5000, dist.Call{Chunk: 1000}),
			[]string{"100", "1000"}, nil},
		{"codec", sumBy[float32](8, dist.Call{Codec: identity{1}}), sumBy[float32](8, dist.Call{Codec: quant.Int8}),
			[]string{"identity1", "int8"}, coded},
		{"scale", scaledSum(0.5), scaledSum(0.25), []string{"times 0.5", "times 0.25"}, has(dist.FusedEpilogue)},
		{"freed memory", freedSum(false, false), freedSum(true, false), []string{"freed"}, shared},
		{"memory freed after preparing", freedSum(false, true), freedSum(true, true), []string{"freed"}, shared},
		{"begun", begunSum(8), sumOf[float32](8), []string{"8 f32", "begun"}, has(dist.Overlap)},
		{"begun count", begunSum(8), begunSum(9), []string{"8 f32", "9 f32"}, has(dist.Overlap)},
		{"counts", gatherOf(1, 2, 1), gatherOf(2, 1, 1), []string{"[1 2 1]", "[2 1 1]"}, blocks},
		{"order", func(g *dist.Group) error { return errors.Join(sum8(g), barrier(g)) },
			func(g *dist.Group) error { return errors.Join(barrier(g), sum8(g)) }, []string{"allreduce", "barrier"}, nil},
		{"alloc", func(g *dist.Group) error { _, err := g.Alloc(dist.F32, 10); return err },
			func(g *dist.Group) error { _, err := g.Alloc(dist.F32, 11); return err }, []string{"10 f32", "11 f32"}, nil},
		{"split", func(g *dist.Group) error { _, err := g.Split(0, 0); return err }, sum8, []string{"split", "allreduce"},
			nil},
		{"later", func(g *dist.Group) error { return repeat(g, 100, sum8, sum8) },
			func(g *dist.Group) error {
				return repeat(g, 100, sum8, sumOf[float32](7))
			}, []string{"8 f32", "7 f32", "101"}, nil},
	}
}

// begunSum returns an all-reduce in two halves.
func begunSum(count int) func(g *dist.Group) error {
	return func(g *dist.Group) error {
		b := dist.Of(make([]float32, count))
		op, err := g.Prepare(dist.Call{Op: dist.AllReduce, In: b, Out: b})
		if err == nil {
			err = op.Begin()
		}
		if err != nil {
			return err
		}
		return op.Wait()
	}
}

func scaledSum(scale float64) func(g *dist.Group) error {
	return sumBy[float32](8, dist.Call{Epilogue: &dist.Epilogue{Scale: scale}})
}

// freedSum returns an all-reduce in symmetric memory. It may free the memory first, before or after
// the call is prepared.
func freedSum(free, prepared bool) func(g *dist.Group) error {
	return func(g *dist.Group) error {
		b, err := g.Alloc(dist.F32, 8)
		if err != nil {
			return err
		}
		run := func() error { return g.AllReduce(b, b, dist.Sum) }
		if prepared {
			op, err := g.Prepare(dist.Call{Op: dist.AllReduce, In: b, Out: b})
			if err != nil {
				return err
			}
			run = op.Run
		}
		if free {
			if err := g.Free(b); err != nil {
				return err
			}
		}
		return run()
	}
}

// gatherOf returns an all-gather of blocks of these lengths.
func gatherOf(counts ...int) func(g *dist.Group) error {
	return func(g *dist.Group) error {
		in, out := dist.Make(dist.F32, counts[g.Rank()]), dist.Make(dist.F32, 4)
		return g.Do(dist.Call{Op: dist.AllGather, In: in, Out: out, Counts: counts})
	}
}

// blocks reports whether blocks may have different lengths.
func blocks(c dist.Capabilities) bool { return c.Has(dist.UnevenBlocks) && c.Can(dist.AllGather) }

// shared reports whether there is symmetric memory.
func shared(c dist.Capabilities) bool { return c.Has(dist.SymmetricMemory) }

// coded reports whether any codec can be used.
func coded(c dist.Capabilities) bool { return c.Has(dist.AnyCodec) }

// maximal reports whether the maximum is one of the reductions.
func maximal(c dist.Capabilities) bool { return slices.Contains(c.Reductions, dist.Max) }

// staged reports whether both one-stage and two-stage can be named.
func staged(c dist.Capabilities) bool {
	list := c.Algorithms[dist.AllReduce]
	return slices.Contains(list, "one-stage") && slices.Contains(list, "two-stage")
}

// choosing reports whether algorithms can be named.
func choosing(c dist.Capabilities) bool { return len(c.Algorithms[dist.AllReduce]) > 0 }

func repeat(g *dist.Group, n int, first, last func(*dist.Group) error) error {
	for range n {
		if err := first(g); err != nil {
			return err
		}
	}
	return last(g)
}

// failing opens a group in which a call must fail, and checks the error of each rank. No rank leaves
// before all have their error, because leaving would cause an error too.
func (s Suite) failing(size int, timeout time.Duration, n needs, call func(g *dist.Group) error,
	judge func(rank int, got error) error) error {
	groups, err := s.Open(size, timeout)
	if err != nil && timeout < guardTimeout && s.Meet == nil {
		groups, err = s.Open(size, guardTimeout) // the machine is too busy to join within the short timeout
	}
	if err != nil {
		return err
	}
	defer func() {
		for _, g := range groups {
			g.Close()
		}
	}()
	if err := n.missing(groups[0]); err != nil {
		return err
	}
	got := Each(groups, call)
	errs := []error{s.meet()}
	for i, g := range groups {
		errs = append(errs, judge(g.Rank(), got[i]))
	}
	return errors.Join(errs...)
}

// mistake checks that every rank gets an error with both calls, and that the group stays failed.
func (s Suite) mistake(m mistake) error {
	const last = mistakeRanks - 1
	n := needs{ops(dist.AllReduce, dist.Reduce, dist.Barrier), types(dist.F32, dist.F64), "a choice of " + m.name, m.has}
	return s.failing(mistakeRanks, guardTimeout, n, func(g *dist.Group) error {
		call := m.right
		if g.Rank() == last {
			call = m.wrong
		}
		err := call(g)
		if again := g.Barrier(); again == nil {
			return fmt.Errorf("%v, and the group still works afterwards", err)
		}
		return err
	}, func(rank int, got error) error {
		return misused(rank, got, append(m.naming, fmt.Sprintf("rank %d", last))...)
	})
}

// refused checks that a call that one rank cannot make is an error on all ranks.
func (s Suite) refused() error {
	return s.failing(2, guardTimeout, needs{ops: ops(dist.AllReduce), types: types(dist.F32)}, func(g *dist.Group) error {
		in, out := dist.Of(make([]float32, 8)), dist.Of(make([]float32, 8-3*g.Rank()))
		return g.AllReduce(out, in, dist.Sum)
	}, func(rank int, got error) error {
		parts := []string{"out has 5 elements", "rank 1 cannot"}
		if rank == 0 { // its own call
			parts = append(parts, "rank 0 calls allreduce of 8 f32")
		}
		return misused(rank, got, parts...)
	})
}

// misused checks that err is a MisuseError that contains the given texts.
func misused(rank int, got error, parts ...string) error {
	var misuse *dist.MisuseError
	if !errors.As(got, &misuse) {
		return fmt.Errorf("rank %d got %v, want a MisuseError", rank, got)
	}
	return errors.Join(lists.Map(parts, func(part string) error {
		if strings.Contains(got.Error(), part) {
			return nil
		}
		return fmt.Errorf("rank %d got %q, which does not name %q", rank, got, part)
	})...)
}

// cancelled checks that the end of a context ends a call that waits for a missing rank: on its own rank with the error
// of the context, on the others with an error that names that rank.
func (s Suite) cancelled() error {
	return s.failing(mistakeRanks, guardTimeout, needs{ops: ops(dist.Barrier)}, func(g *dist.Group) error {
		switch g.Rank() {
		case 0:
			return cancel(g)
		case 1:
			return nil
		}
		return g.Barrier()
	}, func(rank int, got error) error {
		switch {
		case rank != 1 && (got == nil ||
			!strings.Contains(got.Error(), "rank 0 cannot make its call: its context has ended")):
			return fmt.Errorf("rank %d got %v, want an error that names rank 0 and its context", rank, got)
		case rank == 0 && !errors.Is(got, context.Canceled):
			return fmt.Errorf("rank 0 got %v, want context.Canceled", got)
		}
		return nil
	})
}

// cancel ends the context of a group while a prepared call runs, and returns the error of the call.
func cancel(g *dist.Group) error {
	op, err := g.Prepare(dist.Call{Op: dist.Barrier})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer g.Watch(ctx)()
	if err := op.Start(); err != nil {
		return err
	}
	select {
	case <-op.Done():
		return errors.New("the channel Done reports the end of a barrier that a rank did not call")
	default:
	}
	cancel()
	<-op.Done()
	return op.Wait()
}

// absent checks that the error names a rank that does not respond.
func (s Suite) absent() error { return s.missing(func(*dist.Group) error { return nil }) }

// left checks that the error names a rank that has closed its group.
func (s Suite) left() error { return s.missing((*dist.Group).Close) }

func (s Suite) missing(instead func(g *dist.Group) error) error {
	const late = 1
	return s.failing(mistakeRanks, absentTimeout, needs{ops: ops(dist.Barrier)}, func(g *dist.Group) error {
		if g.Rank() == late {
			return instead(g)
		}
		return g.Barrier()
	}, func(rank int, got error) error {
		var peer *dist.PeerError
		switch {
		case rank == late:
			return got
		case !errors.As(got, &peer) || peer.Rank != late || !strings.Contains(got.Error(), "rank 1"):
			return fmt.Errorf("rank %d got %v, want a PeerError naming rank %d", rank, got, late)
		}
		return nil
	})
}
