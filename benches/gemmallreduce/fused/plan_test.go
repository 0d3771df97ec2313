package fused

import (
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
)

func TestImpossiblePlans(t *testing.T) {
	for _, c := range []struct {
		plan Plan
		want string
	}{
		{Plan{M: 8, N: 4, K: 2, Split: SplitM, Partitions: 8}, ""},
		{Plan{M: 8, N: 4, K: 2, Split: SplitM, Partitions: 9}, "9 partitions of 8 rows"},
		{Plan{M: 8, N: 4, K: 2, Split: SplitN, Partitions: 5}, "5 partitions of 4 columns"},
		{Plan{M: 8, N: 4, K: 2, Split: SplitN}, "0 partitions"},
		{Plan{M: 0, N: 4, K: 2, Split: SplitM, Partitions: 1}, ""},
		{Plan{M: 0, N: 4, K: 2, Split: SplitM, Partitions: 2}, "2 partitions of 0 rows"},
		{Plan{M: -1, N: 4, Split: SplitM, Partitions: 1}, "-1 x 4 x 0"},
		{Plan{M: 8, N: 4, K: 2, Split: "k", Partitions: 1}, `split "k"`},
	} {
		err := c.plan.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.plan, err, c.want)
		}
	}
}

// Partitions cover C once, in order, and are adjacent in memory. Their lengths differ by at most one.
func TestParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Plan{M: rapid.IntRange(0, 50).Draw(t, "m"), N: rapid.IntRange(0, 50).Draw(t, "n"),
			Split: Split(rapid.SampledFrom(Splits()).Draw(t, "split"))}
		extent, _ := p.extent()
		p.Partitions = rapid.IntRange(1, max(extent, 1)).Draw(t, "partitions")
		must.Do(t, p.Check())
		at, from, least, most := 0, 0, extent, 0
		for _, part := range p.Parts() {
			if part.From != from || part.Offset != at {
				t.Fatalf("%+v begins elsewhere than at %d, %d", part, from, at)
			}
			n := part.To - part.From
			rows, cols := n, p.N
			if p.Split == SplitN {
				rows, cols = p.M, n
			}
			if part.Rows != rows || part.Cols != cols {
				t.Fatalf("%+v is not %d x %d", part, rows, cols)
			}
			from, at, least, most = part.To, at+part.Count(), min(least, n), max(most, n)
		}
		if from != extent || at != p.M*p.N || most-least > 1 {
			t.Fatalf("partitions end at %d, %d, from %d to %d long", from, at, least, most)
		}
	})
}

// Channels cover the elements once and share no cache line.
func TestChannels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count, size, n := rapid.IntRange(0, 100_000).Draw(t, "count"), rapid.SampledFrom([]int{4, 8}).Draw(t, "size"),
			rapid.IntRange(1, 9).Draw(t, "channels")
		at := 0
		all := channels(count, size, n)
		for i, l := range all {
			if l.From != at || l.To <= l.From || i > 0 && l.From*size%cacheLine != 0 {
				t.Fatalf("channel %+v after %d", l, at)
			}
			at = l.To
		}
		if at != count || len(all) > n {
			t.Fatalf("%d channels cover %d of %d", len(all), at, count)
		}
	})
}

func TestCandidates(t *testing.T) {
	for _, c := range []struct {
		plan Plan
		want []int
	}{
		{Plan{M: 8192, N: 8192, Split: SplitM, Overlap: true}, []int{1, 2, 4, 8, 16}},
		{Plan{M: 8192, N: 8192, Split: SplitM}, []int{1}},
		{Plan{M: 256, N: 8192, Split: SplitM, Overlap: true}, []int{1, 2, 4}},
		{Plan{M: 256, N: 8192, Split: SplitN, Overlap: true}, []int{1, 2, 4, 8, 16}},
		{Plan{M: 0, N: 8192, Split: SplitM, Overlap: true}, []int{1}},
	} {
		if got := Candidates(c.plan, 4); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.plan, got, c.want)
		}
	}
}

// A number of partitions is chosen only if it is clearly faster than one partition.
func TestChoose(t *testing.T) {
	for _, c := range []struct {
		times map[int][]float64
		want  int
	}{
		{map[int][]float64{1: {100, 101, 99}, 2: {80, 82, 81}, 4: {70, 79, 71}}, 4},
		{map[int][]float64{1: {100, 101, 99}, 2: {80, 82, 81}, 4: {70, 300, 71}}, 2},
		{map[int][]float64{1: {100, 101, 99, 100, 100}, 2: {80, 82, 81, 300, 85}}, 2},
		{map[int][]float64{1: {100, 101, 99}, 2: {99.5, 99.4, 99.6}}, 1},
		{map[int][]float64{1: {100}, 2: {120}, 4: {90, 91}}, 4},
		{map[int][]float64{1: {100}}, 1},
	} {
		var trials []Trial
		for _, n := range []int{1, 2, 4} {
			if s, ok := c.times[n]; ok {
				trials = append(trials, Trial{n, s})
			}
		}
		if got := Choose(trials); got != c.want {
			t.Errorf("%v: chose %d, want %d", c.times, got, c.want)
		}
	}
}

// FindFastest tries every number as often, and less often if calls take long.
func TestFindFastest(t *testing.T) {
	for _, c := range []struct {
		us    []float64 // time of 1, 2, 4 and 8 partitions
		calls int       // of each
		want  int
	}{
		{[]float64{100, 90, 70, 80}, 5, 2},
		{[]float64{100, 110, 120, 130}, 5, 0},
		{[]float64{9e6, 8e6, 5e6, 6e6}, 2, 2},
	} {
		index, trials, err := FindFastest([]int{1, 2, 4, 8}, func(i int) (float64, error) { return c.us[i], nil })
		calls := lists.Map(trials, func(t Trial) int { return len(t.Times) })
		if err != nil || index != c.want || !slices.Equal(calls, slices.Repeat([]int{c.calls}, 4)) {
			t.Errorf("%v: chose %d after %v trials: %v", c.us, index, calls, err)
		}
	}
	if index, trials, err := FindFastest([]int{1}, nil); index != 0 || trials != nil || err != nil {
		t.Errorf("one number: %d, %v, %v", index, trials, err)
	}
	if _, _, err := FindFastest([]int{1, 2}, func(int) (float64, error) { return 0, io.EOF }); err == nil {
		t.Error("an error was lost")
	}
}
