// Package fused combines a matrix product and the all-reduce of its result in one operation: C = sum
// over ranks of A_r x B_r, where the inner dimension is divided among the ranks of a group. C is
// divided into partitions. While one partition is multiplied, the previous one is reduced.
//
// A Plan describes the operation independently of the machine; the simulated accelerator uses it too.
// A Rank executes plans on CPUs, over a group of package dist.
//
// # Layout of the partitions
//
// With split m, a partition is a range of rows. With split n, it is a range of columns, and its
// elements are stored together, row by row. Then C is not one matrix in memory, but a sequence of
// partitions. The reason is that a reduction needs contiguous memory, and strided columns would have
// to be copied first. Plan.Parts returns the offset of each partition.
//
// # Communication by the same threads
//
// CPUs have no copy engine, so the threads of a rank both multiply and communicate. No thread is
// reserved for communication: the product would miss it if it takes longer, and one thread cannot use
// the full memory bandwidth. Instead, the reduction of a partition is divided into one channel per
// thread, and the channels are interleaved with the tasks of the next partition's product
// (gemm.Overlapper). At any time some threads move data and the others multiply, in proportion to the
// two amounts of work, so that a few moving threads have the bandwidth to themselves. The data they
// move was computed recently and is still in the caches, which is the other half of the gain.
package fused

import (
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/proof"
)

// Split is the dimension of C that is partitioned.
type Split string

// SplitM partitions the rows of C, SplitN its columns.
const (
	SplitM Split = "m"
	SplitN Split = "n"
)

// Splits lists the names of the splits.
func Splits() []string { return []string{string(SplitM), string(SplitN)} }

// Plan describes a product and its partitions.
type Plan struct {
	M, N       int // size of C
	K          int // inner dimension on each rank
	Split      Split
	Partitions int
	Overlap    bool // reduce a partition while the next one is multiplied
}

// Part is one partition.
type Part struct {
	From, To int // range of rows (SplitM) or columns (SplitN) of C
	Offset   int // position of its first element in the memory of C
	Rows     int
	Cols     int
}

// Count returns the number of elements.
func (p Part) Count() int { return p.Rows * p.Cols }

// extent returns the length of the partitioned dimension, and its name.
func (p Plan) extent() (int, string) {
	if p.Split == SplitN {
		return p.N, "columns"
	}
	return p.M, "rows"
}

// Check returns an error if the plan is impossible.
func (p Plan) Check() error {
	var faults []error
	if p.M < 0 || p.N < 0 || p.K < 0 {
		faults = append(faults, fmt.Errorf("sizes %d x %d x %d: want 0 or more", p.M, p.N, p.K))
	}
	if p.Split != SplitM && p.Split != SplitN {
		faults = append(faults, fmt.Errorf("split %q: want %s or %s", p.Split, SplitM, SplitN))
	}
	extent, what := p.extent()
	switch {
	case p.Partitions < 1:
		faults = append(faults, fmt.Errorf("%d partitions: want at least 1", p.Partitions))
	// An empty C has one empty partition.
	case p.Partitions > max(extent, 1):
		faults = append(faults, fmt.Errorf("%d partitions of %d %s: want at most %d", p.Partitions,
			extent, what, max(extent, 1)))
	}
	return errors.Join(faults...)
}

// Parts returns the partitions in order. Their lengths differ by at most one, longer ones first, so
// that the slowest partition is as short as possible.
func (p Plan) Parts() []Part {
	extent, _ := p.extent()
	parts := make([]Part, p.Partitions)
	at := 0
	for i := range parts {
		from, n := schedule.Split(extent, p.Partitions, i)
		parts[i] = Part{From: from, To: from + n, Offset: at, Rows: n, Cols: p.N}
		if p.Split == SplitN {
			parts[i].Rows, parts[i].Cols = p.M, n
		}
		at += parts[i].Count()
	}
	return parts
}

// channel is a range of elements of a partition that one thread reduces.
type channel struct{ From, To int }

// Channels start at cache lines, so that threads do not share one. A channel has at least
// minChannelBytes, because waiting for the other ranks would take longer than moving less data.
const (
	cacheLine       = 64       // bytes
	minChannelBytes = 16 << 10 // bytes
)

// channels divides count elements of size bytes into at most n channels.
func channels(count, size, n int) []channel {
	grains := (count*size + cacheLine - 1) / cacheLine
	n = max(1, min(n, count*size/minChannelBytes))
	out := make([]channel, 0, n)
	for i := range n {
		from, to := i*grains/n*cacheLine/size, (i+1)*grains/n*cacheLine/size
		if to = min(to, count); from < to {
			out = append(out, channel{from, to})
		}
	}
	return out
}

// Results are verified exactly, without a second multiplication and without operands of other ranks.
// The operands are small integers, so C times a random vector must equal the sum over ranks of A x (B
// x vector). Each rank computes its term (Term), the caller adds the terms through a channel that is
// not under test, and Verify compares.

// Operands fills a rank's A and B with small integers that depend on the rank.
func Operands(a, b gemm.Matrix, rank int, seed uint64) {
	proof.Integers(a, seed+uint64(2*rank))
	proof.Integers(b, seed+uint64(2*rank)+1)
}

// Term returns a rank's contribution to the product of C and the random vector.
func Term(p Plan, ranks int, a, b gemm.Matrix, seed uint64) ([]int64, error) {
	if depth := ranks * p.K; depth > proof.MaxDepth {
		return nil, fmt.Errorf("checking a product over %d x %d: whole numbers are exact up to %d", ranks, p.K,
			proof.MaxDepth)
	}
	return proof.Times(a, proof.Times(b, proof.Probe(p.N, seed))), nil
}

// Verify compares C with the sum of all ranks' terms. parts holds the partitions of C after a run of
// the plan. A row with one wrong element is always detected, and one with several with a probability
// of 1 - 2^-30. The error is a *proof.Mistake that counts wrong rows.
func (p Plan) Verify(parts []gemm.Matrix, sum []int64, seed uint64) error {
	x := proof.Probe(p.N, seed)
	total := make([]int64, p.M)
	blamed := make([]int, p.M)      // partition to name in the message
	fractional := make([]bool, p.M) // an element is not an integer
	for i, part := range p.Parts() {
		first, vector := part.From, x
		if p.Split == SplitN {
			first, vector = 0, x[part.From:part.To]
		}
		got, integers := proof.WholeTimes(parts[i], vector)
		for r := range part.Rows {
			row := first + r
			total[row] += got[r]
			if p.Split == SplitM || !integers[r] {
				blamed[row] = i
			}
			fractional[row] = fractional[row] || !integers[r]
		}
	}
	var fault proof.Mistake
	for row := range p.M {
		if fractional[row] || total[row] != sum[row] {
			fault.Note("row %d, partition %d of %d along %s", row, blamed[row], len(parts), p.Split)
		}
	}
	return fault.Err()
}
