package schedule

import (
	"math/bits"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// TestCost compares the counted traffic with the textbook formulas, for a divisible count.
func TestCost(t *testing.T) {
	const c = 1 << 10
	log2 := func(n int) int { return bits.Len(uint(n)) - 1 }
	type wanted struct{ sent, read, written, reduced, rounds int } // the maximum over all ranks
	share := func(n int) int { return (n - 1) * c / n }            // elements of the other ranks' parts
	for _, n := range []int{2, 4, 8, 16} {
		w := n / nearlySquareDivisor(n)
		h := n / w
		for _, e := range []struct {
			collective, algorithm string
			want                  wanted
		}{
			{AllReduce, "naive", wanted{sent: (n - 1) * c, reduced: (n - 1) * c, rounds: 2 * (n - 1)}},
			{AllReduce, "one-stage", wanted{read: (n - 1) * c, reduced: (n - 1) * c, rounds: 2}},
			{AllReduce, "two-stage", wanted{read: 2 * share(n), reduced: share(n), rounds: 3}},
			{AllReduce, "ring", wanted{sent: 2 * share(n), reduced: share(n), rounds: 2 * (n - 1)}},
			{AllReduce, "recursive-doubling", wanted{sent: log2(n) * c, reduced: log2(n) * c, rounds: log2(n)}},
			{AllReduce, "halving-doubling", wanted{sent: 2 * share(n), reduced: share(n), rounds: 2 * log2(n)}},
			{AllReduce, "torus", wanted{sent: 2 * share(n), reduced: share(n), rounds: 2*(w-1) + 2*(h-1)}},
			{ReduceScatter, "ring", wanted{sent: share(n), reduced: share(n), rounds: n - 1}},
			{ReduceScatter, "direct", wanted{read: share(n), reduced: share(n), rounds: 2}},
			{AllGather, "ring", wanted{sent: share(n), rounds: n - 1}},
			{AllGather, "direct", wanted{read: share(n), rounds: 2}},
			{Broadcast, "direct", wanted{read: c, rounds: 2}},
			{ReduceTo, "direct", wanted{read: share(n), written: c / n, reduced: share(n), rounds: 2}},
			{Gather, "linear", wanted{sent: c / n, rounds: n - 1}},
			{Gather, "direct", wanted{written: c / n, rounds: 2}},
			{Scatter, "linear", wanted{sent: share(n), rounds: n - 1}},
			{AllToAll, "pairwise", wanted{sent: share(n), rounds: n - 1}},
			{AllToAll, "direct", wanted{read: share(n), rounds: 2}},
			{Barrier, "dissemination", wanted{rounds: log2(n)}},
			{Barrier, "direct", wanted{rounds: 1}},
		} {
			i := instance{e.collective, e.algorithm, Params{Ranks: n, Count: c}}
			if e.collective == Barrier {
				i.params.Count = 0
			}
			got := must.Get(Cost(i.build(t)))(t)
			if g := (wanted{got.Sent.Max, got.Read.Max, got.Written.Max, got.Reduced.Max, got.Rounds}); g != e.want {
				t.Errorf("%s %s of %d ranks: %+v, want %+v", e.collective, e.algorithm, n, g, e.want)
			}
		}
	}
}

// TestCostTotals compares one small case with a count by hand.
func TestCostTotals(t *testing.T) {
	got := must.Get(Cost(instance{AllReduce, "two-stage", Params{Ranks: 3, Count: 7}}.build(t)))(t)
	// Parts of 3, 2, 2: each part is read from 2 peers in the first stage and by 2 peers in the second. Rank 0
	// adds 2*3, all ranks 2*7. A rank loads 3 inputs of its own part, then the rest of the vector, and stores
	// the whole vector.
	want := Traffic{
		Read: Load{10, 28}, Reduced: Load{6, 14}, Loads: Load{13, 35}, Stores: Load{7, 21},
		Flags: Load{6, 18}, Rounds: 3,
	}
	if got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// TestCostPipelined shows the benefit of pieces: the rounds of a tree are its depth plus the number of
// pieces, not the product.
func TestCostPipelined(t *testing.T) {
	rounds := func(chunk int) int {
		got := must.Get(Cost(instance{Broadcast, "tree", Params{Ranks: 15, Count: 1000, ChunkElems: chunk}}.build(t)))(t)
		return got.Rounds
	}
	whole, pieces := rounds(0), rounds(10)
	// Three levels of two sends each; after that an inner rank receives and
	// sends twice per piece.
	if whole != 6 || pieces != 6+3*99 {
		t.Errorf("%d rounds whole, %d in 100 pieces, want 6 and %d", whole, pieces, 6+3*99)
	}
}

func TestCostOfDeadlock(t *testing.T) {
	s := literal{Barrier, Params{Ranks: 2}, [][]Step{{waitStep(1)}, {waitStep(0)}}}
	if _, err := Cost(s); err == nil {
		t.Error("a schedule that never ends has a cost")
	}
}
