// Package fused is a matrix product and the all-reduce of its result as one
// operation: C = sum over ranks of A_r x B_r, where the inner dimension is
// divided among the ranks of a group. C is cut into partitions, and while one is
// multiplied the one before it is reduced.
//
// A Plan describes it for any machine and is pure: the simulated accelerator is
// given the same one. A Rank executes plans on processors, over a group of
// package dist.
//
// # Where the partitions lie
//
// A partition of split m is a range of rows. One of split n is a range of
// columns, and its elements lie together, row by row, so that C is partitions
// one after the other and not one matrix: a reduction works on memory without
// gaps, and a strided one would have to be copied first. Plan.Parts says where
// each begins.
//
// # Who communicates
//
// Processors have no engine that moves data beside them, so a rank's threads do
// both. None is set aside for communication: it would be missed by a product
// that takes longer, and alone it could not use the memory's bandwidth. Instead
// the reduction of a partition is cut into as many channels as there are threads,
// and these are spread among the tasks of the next partition's product
// (gemm.Overlapper). So at any time a share of the threads moves data and the others
// multiply, in the proportion that the two kinds of work have, and the moving
// ones do not fight for a bandwidth that a few of them can use up. What they
// move was multiplied a moment ago and is still in the caches, which is the
// other half of the gain.
package fused

import (
	"errors"
	"fmt"
)

// Split is the dimension of C that is cut.
type Split string

// The splits: rows, or columns.
const (
	SplitM Split = "m"
	SplitN Split = "n"
)

// Splits lists them.
func Splits() []string { return []string{string(SplitM), string(SplitN)} }

// Plan is what to compute and how to cut it.
type Plan struct {
	M, N       int // of C
	K          int // of one rank
	Split      Split
	Partitions int
	Overlap    bool // reduce a partition while the next is multiplied
}

// Part is one partition.
type Part struct {
	From, To int // rows or columns of C
	Offset   int // of its first element in the memory of C
	Rows     int
	Cols     int
}

// Count is the number of elements.
func (p Part) Count() int { return p.Rows * p.Cols }

// Extent is the length of the dimension that is cut, and its name.
func (p Plan) Extent() (int, string) {
	if p.Split == SplitN {
		return p.N, "columns"
	}
	return p.M, "rows"
}

// String is the plan in words.
func (p Plan) String() string {
	how := "in turn"
	if p.Overlap {
		how = "overlapped"
	}
	return fmt.Sprintf("%d x %d x %d, %d along %s, %s", p.M, p.N, p.K, p.Partitions, p.Split, how)
}

// Check says why the plan is impossible.
func (p Plan) Check() error {
	var faults []error
	if p.M < 0 || p.N < 0 || p.K < 0 {
		faults = append(faults, fmt.Errorf("sizes %d x %d x %d: want 0 or more", p.M, p.N, p.K))
	}
	if p.Split != SplitM && p.Split != SplitN {
		faults = append(faults, fmt.Errorf("split %q: want %s or %s", p.Split, SplitM, SplitN))
	}
	extent, what := p.Extent()
	switch {
	case p.Partitions < 1:
		faults = append(faults, fmt.Errorf("%d partitions: want at least 1", p.Partitions))
	// Nothing is still one partition, of nothing.
	case p.Partitions > max(extent, 1):
		faults = append(faults, fmt.Errorf("%d partitions of %d %s: each needs at least one, so %d at most", p.Partitions,
			extent, what, max(extent, 1)))
	}
	return errors.Join(faults...)
}

// Parts are the partitions in order. Their lengths differ by at most one, the
// longer ones first: what remains of a division is given to several, so that
// the slowest partition is as short as can be.
func (p Plan) Parts() []Part {
	extent, _ := p.Extent()
	parts := make([]Part, p.Partitions)
	from, at := 0, 0
	for i := range parts {
		to := from + extent/p.Partitions
		if i < extent%p.Partitions {
			to++
		}
		part := Part{From: from, To: to, Offset: at, Rows: to - from, Cols: p.N}
		if p.Split == SplitN {
			part.Rows, part.Cols = p.M, to-from
		}
		parts[i] = part
		from, at = to, at+part.Count()
	}
	return parts
}

// Channel is a range of elements of a partition that one thread reduces.
type Channel struct{ From, To int }

// channelGrain keeps channels from sharing a cache line, and channelLeast is what is worth
// a thread's while: below it, meeting the other ranks takes longer than moving.
const (
	cacheLine       = 64       // bytes
	minChannelBytes = 16 << 10 // bytes
)

// channels cuts count elements of so many bytes each into at most n channels.
func channels(count, size, n int) []Channel {
	grains := (count*size + cacheLine - 1) / cacheLine
	n = max(1, min(n, count*size/minChannelBytes))
	out := make([]Channel, 0, n)
	for i := range n {
		from, to := i*grains/n*cacheLine/size, (i+1)*grains/n*cacheLine/size
		if to = min(to, count); from < to {
			out = append(out, Channel{from, to})
		}
	}
	return out
}
