package disttest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// subgroups checks splitting: by parity in reverse order, without some ranks, and a group of a group.
func subgroups(g *dist.Group) error {
	odd, err := g.Split(g.Rank()%2, -g.Rank())
	if err != nil {
		return err
	}
	defer odd.Close()
	var members []int
	for r := g.Size() - 1; r >= 0; r-- {
		if r%2 == g.Rank()%2 {
			members = append(members, r)
		}
	}
	if odd.Size() != len(members) || members[odd.Rank()] != g.Rank() {
		return fmt.Errorf("rank %d is %d of %d in its half, want to be in %v", g.Rank(), odd.Rank(), odd.Size(), members)
	}
	// The halves work at the same time, and also use memory of the large group.
	shared, err := g.Alloc(dist.F32, 100)
	if err != nil {
		return err
	}
	for k := range 20 {
		for _, b := range []dist.Buffer{shared, dist.Of(make([]float32, 100))} {
			if err := put(b, vector(dist.F32, 100, func(i int) float64 { return float64(g.Rank() + i + k) })); err != nil {
				return err
			}
			if err := odd.AllReduce(b, b, dist.Sum); err != nil {
				return err
			}
			err := same(b, func(i int) float64 { return float64(lists.Sum(members) + len(members)*(i+k)) })
			if err != nil {
				return fmt.Errorf("sum over ranks %v: %w", members, err)
			}
		}
		if err := g.Barrier(); err != nil {
			return err
		}
	}
	return nested(g, odd)
}

// nested leaves the first rank of a half out, and splits the remaining ranks again.
func nested(g, half *dist.Group) error {
	color := 1
	if half.Rank() == 0 {
		color = -1
	}
	sub, err := half.Split(color, 0)
	if err != nil {
		return err
	}
	if (sub == nil) != (color < 0) {
		return fmt.Errorf("color %d gave the group %v", color, sub)
	}
	if sub == nil {
		return g.Barrier()
	}
	defer sub.Close()
	mine := []float64{float64(g.Rank())}
	all := make([]float64, sub.Size())
	if err := sub.AllGather(dist.Of(all), dist.Of(mine)); err != nil {
		return err
	}
	if sub.Size() != half.Size()-1 || !slices.Contains(all, float64(g.Rank())) {
		return fmt.Errorf("the group without the first rank of the half has %v", all)
	}
	return g.Barrier()
}

// async checks that started operations run in the order of their calls, also relative to others, and
// that each has its own result.
func async(g *dist.Group) error {
	const n = 8
	var started [n]*dist.Op
	var out [n][]float64
	for k := range n {
		in := []float64{float64(g.Rank()*100 + k), 1}
		out[k] = make([]float64, 2)
		var err error
		if started[k], err = g.Start(dist.Call{Op: dist.AllReduce, In: dist.Of(in), Out: dist.Of(out[k])}); err != nil {
			return err
		}
	}
	last := []float64{float64(g.Rank())}
	if err := g.AllReduce(dist.Of(last), dist.Of(last), dist.Sum); err != nil { // runs after the started ones
		return err
	}
	for k := n - 1; k >= 0; k-- {
		if err := started[k].Wait(); err != nil {
			return err
		}
		if want := float64(100*g.Size()*(g.Size()-1)/2 + k*g.Size()); out[k][0] != want || out[k][1] != float64(g.Size()) {
			return fmt.Errorf("started sum %d is %v, want %v", k, out[k], want)
		}
	}
	if want := float64(g.Size() * (g.Size() - 1) / 2); last[0] != want {
		return fmt.Errorf("the sum after the started ones is %v, want %v", last[0], want)
	}
	return restart(g)
}

// restart runs one prepared operation many times, started and not.
func restart(g *dist.Group) error {
	b := []float64{0}
	op, err := g.Prepare(dist.Call{Op: dist.AllReduce, In: dist.Of(b), Out: dist.Of(b), Reduction: dist.Sum})
	if err != nil {
		return err
	}
	for k := range 50 {
		b[0] = float64(k*g.Size() + g.Rank())
		if err := op.Start(); err != nil {
			return err
		}
		if err := op.Start(); err == nil {
			return errors.New("an operation was started twice without an error")
		}
		if err := op.Wait(); err != nil {
			return err
		}
		sum := float64(g.Size() * (k*g.Size()*2 + g.Size() - 1) / 2)
		if b[0] != sum {
			return fmt.Errorf("run %d gives %v, want %v", k, b[0], sum)
		}
		if err := op.Run(); err != nil {
			return err
		}
		if b[0] != sum*float64(g.Size()) {
			return fmt.Errorf("run %d again gives %v, want %v", k, b[0], sum*float64(g.Size()))
		}
	}
	return nil
}

// halves checks calls in two halves: the first half waits for no other rank, messages may be sent before the second,
// another collective keeps the order, and every call has its own result.
func halves(g *dist.Group) error {
	for _, algorithm := range append([]string{"auto"}, g.Capabilities().Algorithms[dist.AllReduce]...) {
		if err := halvesBy(g, algorithm); err != nil {
			return fmt.Errorf("by %s: %w", algorithm, err)
		}
	}
	return nil
}

func halvesBy(g *dist.Group, algorithm string) error {
	sum, other := []float64{0, 0, 0}, []float64{0}
	var out [3]float64
	add, err := g.Prepare(dist.Call{Op: dist.AllReduce, In: dist.Of(sum), Out: dist.Of(out[:]), Reduction: dist.Sum,
		Algorithm: algorithm})
	if err != nil {
		return err
	}
	last, err := g.Prepare(dist.Call{Op: dist.AllReduce, In: dist.Of(other), Out: dist.Of(other), Reduction: dist.Sum})
	if err != nil {
		return err
	}
	if err := add.Wait(); err == nil {
		return errors.New("waiting for an operation that was not begun is no error")
	}
	for k := range 6 {
		for i := range sum {
			sum[i] = float64(g.Rank() + k + i)
		}
		other[0] = float64(100*k + g.Rank())
		// Each rank begins after the previous rank has. If the first half waited for a later rank, this would deadlock.
		if err := inTurn(g, func() error {
			if err := add.Begin(); err != nil {
				return err
			}
			if g.Rank() < g.Size()-1 && add.Arrived() {
				return fmt.Errorf("rank %d sees that all ranks have begun the sum, but rank %d has not", g.Rank(), g.Rank()+1)
			}
			return nil
		}); err != nil {
			return err
		}
		if err := add.Begin(); err == nil {
			return errors.New("an operation was begun twice without an error")
		}
		if k%2 == 1 { // a collective in between
			if err := last.Run(); err != nil {
				return err
			}
			if want := float64(100*k*g.Size() + g.Size()*(g.Size()-1)/2); other[0] != want {
				return fmt.Errorf("the sum between the halves is %v, want %v", other[0], want)
			}
		}
		if err := add.Wait(); err != nil {
			return err
		}
		for i, v := range out {
			if want := float64(g.Size()*(g.Size()-1)/2 + g.Size()*(k+i)); v != want {
				return fmt.Errorf("begun sum %d is %v at %d, want %v", k, v, i, want)
			}
		}
	}
	return nil
}

// inTurn calls fn on one rank after the other, ordered by a chain of messages.
func inTurn(g *dist.Group, fn func() error) error {
	token := dist.Of([]float64{1})
	if g.Rank() > 0 {
		if err := g.Recv(token, g.Rank()-1); err != nil {
			return err
		}
	}
	if err := fn(); err != nil || g.Rank() == g.Size()-1 {
		return err
	}
	return g.Send(token, g.Rank()+1)
}

// memory checks that symmetric memory is zeroed, does not overlap, and is usable after others were freed.
func memory(g *dist.Group) error {
	var kept []dist.Buffer
	for k := range 12 {
		b, err := g.Alloc(dist.F32, 1000*(k+1))
		if err != nil {
			return err
		}
		m, err := b.Mirror()
		if err != nil {
			return err
		}
		s := dist.Slice[float32](m)
		for i := range s {
			if s[i] != 0 {
				return fmt.Errorf("allocation %d has %v at %d, want 0", k, s[i], i)
			}
			s[i] = float32(k)
		}
		if err := b.Update(m); err != nil {
			return err
		}
		if k%3 == 1 {
			if err := g.Free(b); err != nil {
				return err
			}
			if g.Free(b) == nil {
				return errors.New("memory was freed twice without an error")
			}
			continue
		}
		kept = append(kept, b)
	}
	for _, b := range kept {
		m, err := b.Mirror()
		if err != nil {
			return err
		}
		s := dist.Slice[float32](m)
		k := float32(len(s)/1000 - 1)
		if i := slices.IndexFunc(s, func(v float32) bool { return v != k }); i >= 0 {
			return fmt.Errorf("allocation %v has %v at %d: another allocation overlaps it", k, s[i], i)
		}
		if err := g.AllReduce(b, b, dist.Sum); err != nil {
			return err
		}
		if m, err = b.Mirror(); err != nil {
			return err
		}
		if sum := dist.Slice[float32](m)[0]; sum != k*float32(g.Size()) {
			return fmt.Errorf("sum is %v, want %v", sum, k*float32(g.Size()))
		}
	}
	return nil
}
