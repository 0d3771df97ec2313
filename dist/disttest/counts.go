package disttest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// counts checks blocks of given lengths (growing, some of them empty, all elements in one block), with every algorithm,
// in place or not, in both kinds of memory.
func counts(g *dist.Group) error {
	for _, op := range []dist.Collective{dist.AllGather, dist.Gather, dist.Scatter, dist.ReduceScatter, dist.AllToAll} {
		if !g.Capabilities().Can(op) {
			continue
		}
		algorithms := append([]string{"auto"}, g.Capabilities().Algorithms[op]...)
		for i, pattern := range []func(block int) int{
			func(block int) int { return 3*block + 1 },
			func(block int) int { return block % 2 * 700 },
			func(block int) int { return max(0, 2-block) * 500 },
		} {
			for k, algorithm := range algorithms {
				c := cell{dtype: dist.F64, algorithm: algorithm, root: i % g.Size(),
					symmetric: (i+k)%2 == 0 && g.Capabilities().Has(dist.SymmetricMemory)}
				for _, c.inPlace = range []bool{false, true} {
					if err := counted(g, op, c, pattern); err != nil {
						return fmt.Errorf("%s of blocks by %s, pattern %d, root %d, in place %v: %w", op, algorithm, i, c.root,
							c.inPlace, err)
					}
				}
			}
		}
	}
	return nil
}

// counted makes one call and checks every element of the output.
func counted(g *dist.Group, op dist.Collective, c cell, pattern func(block int) int) error {
	size, rank := g.Size(), g.Rank()
	lengths := make([]int, size)
	if op == dist.AllToAll {
		lengths = make([]int, size*size)
		c.inPlace = false
	}
	for i := range lengths {
		lengths[i] = pattern(i)
	}
	if !op.Rooted() {
		c.root = 0
	}
	in, out, shift := wantCounted(op, size, rank, c.root, lengths)
	call := dist.Call{Op: op, Root: c.root, Algorithm: c.algorithm, Counts: lengths}
	if slices.Max(lengths) == 0 {
		return nil // one rank, whose block is empty
	}
	var err error
	if call.In, call.Out, err = countedBuffers(g, c, lengths, len(in), len(out), shift); err != nil {
		return err
	}
	prepared, err := g.Prepare(call)
	if err != nil {
		return err
	}
	var wrong error // must not keep this rank from the second run
	for range 2 {
		if err := errors.Join(put(call.Out, make([]byte, 8*len(out))), put(call.In, dist.Of(in).Bytes())); err != nil {
			return err
		}
		if err := prepared.Run(); err != nil {
			return err
		}
		if err := same(call.Out, func(i int) float64 { return out[i] }); err != nil || call.Out.Count() != len(out) {
			wrong = fmt.Errorf("rank %d has %d elements, want %d: %w", rank, call.Out.Count(), len(out), err)
		}
	}
	return errors.Join(wrong, g.Barrier()) // no rank may reuse the memory before all have compared
}

// countedBuffers allocates the length of the longest buffer on all ranks, because an allocation must
// be equal on all.
func countedBuffers(g *dist.Group, c cell, lengths []int, ins, outs, shift int) (in, out dist.Buffer, err error) {
	if in, err = room(g, dist.F64, lists.Sum(lengths), c.symmetric); err == nil {
		out, err = room(g, dist.F64, lists.Sum(lengths), c.symmetric)
	}
	switch {
	case err != nil:
		return in, out, err
	case c.inPlace && ins > outs:
		return out.Slice(0, ins), out.Slice(shift, outs), nil
	case c.inPlace:
		return out.Slice(shift, ins), out.Slice(0, outs), nil
	}
	return in.Slice(0, ins), out.Slice(0, outs), nil
}

// wantCounted returns a rank's input, the right output, and the position of the shorter one in the longer one in place.
// Element i of rank r's input is r*100000+i.
func wantCounted(op dist.Collective, size, rank, root int, lengths []int) (in, out []float64, shift int) {
	input := func(rank, from, n int) (list []float64) {
		for i := range n {
			list = append(list, float64(rank*100_000+from+i))
		}
		return list
	}
	before := func(block int) int { return lists.Sum(lengths[:block]) }
	total, off := before(len(lengths)), before(rank)
	switch op {
	case dist.AllGather, dist.Gather:
		in = input(rank, 0, lengths[rank])
		if op == dist.AllGather || rank == root {
			for r := range size {
				out = append(out, input(r, 0, lengths[r])...)
			}
			shift = off
		}
	case dist.Scatter:
		if rank == root {
			in, shift = input(rank, 0, total), off
		}
		out = input(root, off, lengths[rank])
	case dist.ReduceScatter:
		in, shift = input(rank, 0, total), off
		for i := range lengths[rank] {
			out = append(out, float64(size*(off+i)+100_000*size*(size-1)/2))
		}
	case dist.AllToAll:
		for to := range size {
			in = append(in, input(rank, before(rank*size+to)-before(rank*size), lengths[rank*size+to])...)
		}
		for from := range size {
			out = append(out, input(from, before(from*size+rank)-before(from*size), lengths[from*size+rank])...)
		}
	}
	return in, out, shift
}
