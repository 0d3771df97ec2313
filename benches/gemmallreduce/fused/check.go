package fused

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/proof"
)

// A result is checked exactly without a second multiplication, and without any
// rank knowing the operands of another: with operands of small whole numbers,
// C times a random vector must be the sum over ranks of A x (B x vector). Each
// rank computes its term (Term), the caller adds them up over a channel that is
// not the one under test, and Wrong compares.

// Operands fills a rank's A and B with whole numbers of its own.
func Operands(a, b gemm.Matrix, rank int, seed uint64) {
	proof.Integers(a, seed+uint64(2*rank))
	proof.Integers(b, seed+uint64(2*rank)+1)
}

// Term is a rank's contribution to C times the vector, by row.
func Term(p Plan, ranks int, a, b gemm.Matrix, seed uint64) ([]int64, error) {
	if depth := ranks * p.K; depth > proof.MaxDepth {
		return nil, fmt.Errorf("checking a product over %d x %d: whole numbers are exact up to %d", ranks, p.K,
			proof.MaxDepth)
	}
	return proof.Times(a, proof.Times(b, proof.Probe(p.N, seed))), nil
}

// Verify compares C, as a run of the plan left it in its partitions, with the sum of all
// ranks' terms. A row with one wrong element is always found, one with several but once in
// 2^30. The error is a *proof.Mistake that counts rows, or rows of partitions.
func (p Plan) Verify(parts []gemm.Matrix, sum []int64, seed uint64) error {
	x := proof.Probe(p.N, seed)
	var fault proof.Mistake
	note := func(row, part int) { fault.Note("row %d, partition %d of %d along %s", row, part, len(parts), p.Split) }
	total, odd := make([]int64, p.M), make([]int, p.M) // odd: 1 + a partition with something that is no whole number
	for i, part := range p.Parts() {
		if p.Split == SplitM {
			got, whole := proof.WholeTimes(parts[i], x)
			for row := range part.Rows {
				if !whole[row] || got[row] != sum[part.From+row] {
					note(part.From+row, i)
				}
			}
			continue
		}
		got, whole := proof.WholeTimes(parts[i], x[part.From:part.To])
		for row := range p.M {
			if total[row] += got[row]; !whole[row] {
				odd[row] = 1 + i
			}
		}
	}
	for row := range p.M {
		if p.Split == SplitN && (odd[row] > 0 || total[row] != sum[row]) {
			note(row, max(odd[row]-1, 0))
		}
	}
	return fault.Err()
}

// Verify is Plan.Wrong of what a run left.
func (o *Op) Verify(sum []int64, seed uint64) error { return o.plan.Verify(o.views, sum, seed) }
