package disttest

import (
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// messages checks sends and receives in every kind of memory: in order, of all sizes, all started at
// once in both directions while a collective runs, and one at a time.
func messages(g *dist.Group) error {
	if g.Size() == 1 {
		return nil
	}
	for _, symmetric := range []bool{false, true} {
		if symmetric && !g.Capabilities().Has(dist.SymmetricMemory) {
			continue
		}
		if err := round(g, symmetric); err != nil {
			return fmt.Errorf("symmetric memory %v: %w", symmetric, err)
		}
		if err := pingPong(g, symmetric); err != nil {
			return fmt.Errorf("symmetric memory %v: %w", symmetric, err)
		}
	}
	return nil
}

// room returns memory of the given kind.
func room(g *dist.Group, d dist.DType, count int, symmetric bool) (dist.Buffer, error) {
	if symmetric {
		return g.Alloc(d, count)
	}
	return dist.Make(d, count), nil
}

// round sends messages around the ring. They lie one behind the other in memory, so that most are not
// aligned.
func round(g *dist.Group, symmetric bool) error {
	to, from := (g.Rank()+1)%g.Size(), (g.Rank()+g.Size()-1)%g.Size()
	sizes := []int{0, 1, 100, 100_000, 3, 20_001}
	total := lists.Sum(sizes)
	out, err := room(g, dist.F32, total, symmetric)
	if err != nil {
		return err
	}
	in, err := room(g, dist.F32, total, symmetric)
	if err != nil {
		return err
	}
	if err := put(out, vector(dist.F32, total, func(i int) float64 { return float64(g.Rank()*1000 + i) })); err != nil {
		return err
	}
	if err := put(in, vector(dist.F32, total, func(int) float64 { return -1 })); err != nil {
		return err
	}
	var started []*dist.Op
	at := 0
	for _, n := range sizes {
		for _, c := range []dist.Call{
			{Op: dist.Send, In: out.Slice(at, n), Peer: to}, {Op: dist.Recv, Out: in.Slice(at, n), Peer: from},
		} {
			op, err := g.Start(c)
			if err != nil {
				return err
			}
			started = append(started, op)
		}
		at += n
	}
	one := dist.Of([]float32{1})
	sum := dist.Call{Op: dist.AllReduce, In: one, Out: one}
	if c := g.Capabilities(); c.Has(dist.ScheduleSteps) && choosing(c) {
		sum.Algorithm = "steps:ring" // its steps send messages too
	}
	if err := g.Do(sum); err != nil {
		return err
	}
	for _, op := range started {
		if err := op.Wait(); err != nil {
			return err
		}
	}
	return same(in, func(i int) float64 { return float64(from*1000 + i) })
}

// same checks that every element has the expected value.
func same(b dist.Buffer, want func(i int) float64) error {
	m, err := b.Mirror()
	if err != nil {
		return err
	}
	got := make([]float64, m.Count())
	m.DType().Decode(got, m.Bytes())
	for i, v := range got {
		if v != want(i) {
			return fmt.Errorf("element %d of %d is %v, want %v", i, len(got), v, want(i))
		}
	}
	return nil
}

// pingPong sends between ranks 0 and 1. The sender overwrites the memory as soon as the send returns,
// because the data must have left it by then.
func pingPong(g *dist.Group, symmetric bool) error {
	const maxCount = 50_000
	b, err := room(g, dist.F64, maxCount+1, symmetric)
	if err != nil || g.Rank() > 1 {
		return err
	}
	spoilt := vector(dist.F64, maxCount, func(int) float64 { return -7 })
	for k, n := range []int{1, 2, 7, 8, 9, 31, 1000, 1001, 4096, 8191, maxCount, 1, 3, maxCount} {
		part := b.Slice(k%2, n)
		value := func(i int) float64 { return float64(k*100_000 + i) }
		switch {
		case g.Rank() == k%2:
			if err := put(part, vector(dist.F64, n, value)); err != nil {
				return err
			}
			if err := g.Send(part, 1-g.Rank()); err != nil {
				return err
			}
			if err := put(part, spoilt[:n*dist.F64.Size()]); err != nil {
				return err
			}
		default:
			if err := g.Recv(part, 1-g.Rank()); err != nil {
				return err
			}
			if err := same(part, value); err != nil {
				return fmt.Errorf("message %d: %w", k, err)
			}
		}
	}
	return nil
}
