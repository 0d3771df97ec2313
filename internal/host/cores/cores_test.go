package cores

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/lists"
)

func TestShare(t *testing.T) {
	eight := []int{0, 1, 2, 3, 8, 9, 10, 11}
	for _, c := range []struct {
		ranks, threads int
		bind           Bind
		want           [][]int
	}{
		{2, 0, Auto, [][]int{{0, 1, 2, 3}, {8, 9, 10, 11}}},
		{2, 0, Core, [][]int{{0}, {8}}},
		{2, 2, Core, [][]int{{0, 1}, {8, 9}}},
		{2, 9, Core, [][]int{{0, 1, 2, 3}, {8, 9, 10, 11}}},
		{3, 0, Auto, [][]int{{0, 1}, {2, 3, 8}, {9, 10, 11}}},
		{1, 0, Auto, [][]int{{0, 1, 2, 3, 8, 9, 10, 11}}},
		{9, 0, Auto, nil},
		{2, 0, None, nil},
	} {
		if got := Share(eight, c.ranks, c.threads, c.bind); !slices.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%d ranks, %d threads, %s: got %v, want %v", c.ranks, c.threads, c.bind, got, c.want)
		}
	}
}

// TestShareIsFair checks that each rank has a core and no core belongs to two ranks.
func TestShareIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 64).Draw(t, "cores")
		all := lists.Range[int](n)
		bind := rapid.SampledFrom([]Bind{Auto, Core}).Draw(t, "bind")
		seen := map[int]bool{}
		for rank, mine := range Share(all, rapid.IntRange(1, n).Draw(t, "ranks"), rapid.IntRange(0, 8).Draw(t, "threads"),
			bind) {
			if len(mine) == 0 {
				t.Fatalf("rank %d has no core", rank)
			}
			for _, c := range mine {
				if seen[c] {
					t.Fatalf("core %d is given twice", c)
				}
				seen[c] = true
			}
		}
	})
}

func TestAllowed(t *testing.T) {
	if got := Allowed(); len(got) == 0 || !slices.IsSorted(got) {
		t.Errorf("allowed cores: %v", got)
	}
}
