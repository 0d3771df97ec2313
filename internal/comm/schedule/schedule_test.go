package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// instance is a schedule to test, by name.
type instance struct {
	collective, algorithm string
	params                Params
}

func (i instance) String() string {
	return fmt.Sprintf("%s/%s/%+v", i.collective, i.algorithm, i.params)
}

func (i instance) build(t testing.TB) Schedule {
	t.Helper()
	s, err := New(i.collective, i.algorithm, i.params)
	if err != nil {
		t.Fatalf("%v: %v", i, err)
	}
	return s
}

// instances returns every variant of every algorithm for a number of ranks and elements.
func instances(ranks, count int) []instance {
	var list []instance
	for _, collective := range Collectives() {
		for _, info := range Algorithms(collective) {
			for _, p := range Variants(info, ranks, count) {
				list = append(list, instance{collective, info.Name, p})
			}
		}
	}
	return list
}

// TestEveryAlgorithmIsProved proves all algorithms for all rank counts up to 64, also with counts that are not
// divisible.
func TestEveryAlgorithmIsProved(t *testing.T) {
	t.Parallel()
	proved := 0
	prove := func(i instance) {
		if err := Check(i.build(t)); err != nil {
			t.Errorf("%v: %v", i, err)
		}
		proved++
	}
	const few = 12 // up to this one all counts and options are tested
	for ranks := 1; ranks <= few; ranks += stride {
		counts := []int{0, 1, ranks - 1, ranks, ranks + 1, 211, 1000}
		slices.Sort(counts)
		for _, count := range slices.Compact(counts) {
			for _, i := range instances(ranks, count) {
				prove(i)
			}
		}
	}
	for ranks := few + 1; ranks <= 64; ranks += stride {
		all := ranks == 48 || ranks == 64 // rank counts with the most shapes
		for _, count := range []int{0, 1, ranks - 1, 1000} {
			for _, i := range instances(ranks, count) {
				options := i.params != Params{Ranks: ranks, Count: count}
				if !options || count == 1000 && (all || i.params.InPlace) {
					prove(i)
				}
			}
		}
	}
	t.Logf("%d schedules proved", proved)
}

func TestSplit(t *testing.T) {
	for count := range 40 {
		for parts := 1; parts < 12; parts++ {
			next, shortest, longest := 0, count, 0
			for i := range parts {
				off, n := Split(count, parts, i)
				if off != next {
					t.Fatalf("Split(%d, %d, %d) starts at %d, want %d", count, parts, i, off, next)
				}
				next, shortest, longest = off+n, min(shortest, n), max(longest, n)
			}
			if next != count || longest-shortest > 1 {
				t.Errorf("Split(%d, %d): covers %d, parts of %d to %d", count, parts, next, shortest, longest)
			}
		}
	}
}

func TestNewRejects(t *testing.T) {
	for _, c := range []struct {
		collective, algorithm string
		params                Params
		want                  string
	}{
		{"alreduce", "ring", Params{Ranks: 2}, `unknown collective "alreduce", did you mean "allreduce"?`},
		{AllReduce, "rign", Params{Ranks: 2}, `unknown allreduce algorithm "rign", did you mean "ring"?`},
		{AllReduce, "ring", Params{}, "Ranks is 0, want at least 1"},
		{AllReduce, "ring", Params{Ranks: 2, Count: -1}, "Count is -1, want 0 or more"},
		{AllReduce, "ring", Params{Ranks: 2, Root: 1}, "Root is set, but this algorithm takes only ChunkElems, InPlace"},
		{AllReduce, "ring", Params{Ranks: 2, ChunkElems: -4}, "ChunkElems is -4, want 0 (the default) or more"},
		{AllReduce, "torus", Params{Ranks: 5, Width: 2}, "5 ranks are no torus of width 2"},
		{AllReduce, "hierarchical", Params{Ranks: 6, GroupSize: 4}, "6 ranks cannot be cut into groups of 4"},
		{Broadcast, "tree", Params{Ranks: 3, Root: 3}, "Root is 3, want a rank from 0 to 2"},
		{Broadcast, "tree", Params{Ranks: 3, Root: -1}, "Root is -1, want a rank from 0 to 2"},
		{Broadcast, "tree", Params{Ranks: 1, Root: 1}, "Root is 1, want a rank from 0 to 0"},
		{AllToAll, "pairwise", Params{Ranks: 3, InPlace: true}, "InPlace is set, but this algorithm takes only Blocks"},
		{AllGather, "ring", Params{Ranks: 2, Count: 4, Blocks: NewBlocks([]int{1, 2, 1})},
			"Blocks are [1 2 1], want 2 with 4 elements in all"},
		{AllGather, "ring", Params{Ranks: 2, Count: 4, Blocks: NewBlocks([]int{1, 2})},
			"Blocks are [1 2], want 2 with 4 elements in all"},
		{AllReduce, "ring", Params{Ranks: 2, Count: 4, Blocks: NewBlocks([]int{2, 2})},
			"Blocks is set, but this algorithm takes only ChunkElems, InPlace"},
		{Barrier, "dissemination", Params{Ranks: 3, Count: 1}, "a barrier moves no elements"},
	} {
		if _, err := New(c.collective, c.algorithm, c.params); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New(%s, %s, %+v) = %v, want %q", c.collective, c.algorithm, c.params, err, c.want)
		}
	}
}

// TestDirectIsDeclared compares Info.Direct with the steps, because transports without shared memory rely on it.
func TestDirectIsDeclared(t *testing.T) {
	for _, collective := range Collectives() {
		for _, info := range Algorithms(collective) {
			i := instance{collective, info.Name, Params{Ranks: 6, Count: 12}}
			if collective == Barrier {
				i.params.Count = 0
			}
			direct := false
			for rank := range 6 {
				for step := range i.build(t).Steps(rank) {
					direct = direct || step.Op.Direct()
				}
			}
			if direct != info.Direct {
				t.Errorf("%v: Direct is %v, its steps say %v", i, info.Direct, direct)
			}
		}
	}
}

// TestStepsNeedConstantMemory compares a short stream with long ones: allocations must not depend on the number
// of steps.
func TestStepsNeedConstantMemory(t *testing.T) {
	for _, algorithm := range Algorithms(AllReduce) {
		measure := func(ranks, chunk int) float64 {
			s := instance{AllReduce, algorithm.Name, Params{Ranks: ranks, Count: 1 << 12, ChunkElems: chunk}}.build(t)
			return testing.AllocsPerRun(5, func() {
				for step := range s.Steps(ranks / 2) {
					_ = step
				}
			})
		}
		short, wide, long := measure(2, 0), measure(64, 0), measure(64, 16)
		if wide > short || long > short+8 {
			t.Errorf("%s: %v allocations with 2 ranks, %v with 64, %v with 64 and 256 pieces", algorithm.Name, short, wide, long)
		}
	}
}

// TestStepsCanBeStopped stops each stream after each step: no further step may be yielded.
func TestStepsCanBeStopped(t *testing.T) {
	for _, i := range instances(6, 13) {
		s := i.build(t)
		for stop := range 5 {
			seen := 0
			for range s.Steps(1) {
				if seen++; seen > stop {
					break
				}
			}
		}
	}
}
