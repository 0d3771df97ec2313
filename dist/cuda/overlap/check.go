package overlap

import (
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/proof"
)

// checkedK is no multiple of what products want.
const checkedK = 70

// Check multiplies and adds up a small C in partitions and in one kernel, twice each, and
// looks at every element: for self-tests. All ranks call it. Every rank makes the operands
// of all, so that it knows the sum. The one kernel runs as usual, where a block may have a tile of
// each rank at most, and on two multiprocessors, which have all tiles.
func Check(g *dist.Group) error {
	const m, n, parts = 600, 520, 3
	r, err := Open(g, Config{Provider: "builtin", DType: dtype.BF16})
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.Alloc(m, n, checkedK, parts); err != nil {
		return err
	}
	for call, p := range []Plan{{Ranges: []Range{{0, 70}, {70, 140}, {140, m}}, Overlap: true}, {OneKernel: true},
		{OneKernel: true}} {
		if call == 2 {
			r.share = min(r.share, 2)
		}
		o, err := r.Prepare(p)
		if err != nil {
			return err
		}
		for again := range 2 {
			if err := o.once(uint64(1000*call + 100*again + 1)); err != nil {
				return fmt.Errorf("a product and its all-reduce, one kernel %v, call %d: %w", p.OneKernel, again+1, err)
			}
		}
	}
	return nil
}

// once runs with operands of a seed and checks rows of C.
func (o *Op) once(seed uint64) error {
	r := o.rank
	ranks, k := r.group.Size(), checkedK
	// The ranks' operands beside each other: C is their one product.
	a, b := gemm.New(dtype.BF16, r.m, ranks*k), gemm.New(dtype.BF16, r.n, ranks*k).T()
	proof.Integers(a, seed)
	proof.Integers(b, seed+1)
	from := r.group.Rank() * k
	if err := errors.Join(r.Load(a.ColRange(from, from+k), b.RowRange(from, from+k)), r.Spoil(),
		r.group.Barrier()); err != nil {
		return err
	}
	if _, err := o.Run(); err != nil {
		return err
	}
	parts, err := o.Parts()
	for i := 0; err == nil && i < len(parts); i++ {
		err = proof.Exact(parts[i], a.RowRange(o.part[i].from, o.part[i].to), b, seed)
	}
	return errors.Join(err, r.group.Barrier())
}
