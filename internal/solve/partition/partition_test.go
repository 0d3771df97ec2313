package partition_test

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/partitiontest"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// TestConformance runs the suite on every registered partitioner, including the one of
// striped_test.go. Partitioners of a C library are tested in metis_test.go.
func TestConformance(t *testing.T) {
	tested := 0
	for _, p := range partition.Partitioners.All() {
		if p.Library == nil {
			t.Run(p.Name, func(t *testing.T) { partitiontest.Run(t, p) })
			tested++
		}
	}
	if _, err := partition.Partitioners.Lookup("striped"); err != nil || tested < 5 {
		t.Errorf("%d partitioners tested, %v", tested, err)
	}
}

func TestNewTableRefusesRanksThatDoNotExist(t *testing.T) {
	for _, owner := range []int32{-1, 2} {
		if _, err := partition.NewTable([]int32{0, owner}, 2); err == nil ||
			!strings.Contains(err.Error(), "row 1 belongs to rank") {
			t.Errorf("owner %d of 2: %v", owner, err)
		}
	}
}

// wrong is a layout that can be spoiled.
type wrong struct {
	owner func(int) int
	rows  [][]sparse.Range
}

func (w wrong) Owner(row int) int            { return w.owner(row) }
func (w wrong) Rows(rank int) []sparse.Range { return w.rows[rank] }

// The checker must find planted faults.
func TestCheckFindsFaults(t *testing.T) {
	half := func(i int) int { return i / 5 }
	good := wrong{half, [][]sparse.Range{{{Lo: 0, Hi: 5}}, {{Lo: 5, Hi: 10}}}}
	must.Do(t, partitiontest.Check(good, 10, 2))
	for want, layout := range map[string]wrong{
		"has no owner":     {half, [][]sparse.Range{{{Lo: 0, Hi: 5}}, {{Lo: 5, Hi: 9}}}},
		"two owners":       {half, [][]sparse.Range{{{Lo: 0, Hi: 5}}, {{Lo: 4, Hi: 10}}}},
		"owner is rank 0":  {func(int) int { return 0 }, good.rows},
		"after one that":   {half, [][]sparse.Range{{{Lo: 0, Hi: 3}, {Lo: 3, Hi: 5}}, {{Lo: 5, Hi: 10}}}},
		"of 10 rows":       {half, [][]sparse.Range{{{Lo: 0, Hi: 5}}, {{Lo: 5, Hi: 11}}}},
		"range {2 2}":      {half, [][]sparse.Range{{{Lo: 2, Hi: 2}}, nil}},
		"row 5 has no own": {half, [][]sparse.Range{{{Lo: 0, Hi: 5}}, nil}},
	} {
		if err := partitiontest.Check(layout, 10, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("fault %q: error %v", want, err)
		}
	}
	uneven := wrong{half, [][]sparse.Range{{{Lo: 0, Hi: 8}}, {{Lo: 8, Hi: 10}}}}
	if partitiontest.CheckEven(uneven, 10, 2, 1.1, 0) == nil || partitiontest.CheckEven(good, 10, 2, 0, 0) != nil {
		t.Error("evenness is not told from unevenness")
	}
}

func TestRefusalsSayWhy(t *testing.T) {
	all := partitiontest.Problems(t)
	for _, tc := range []struct {
		name    string
		problem string
		o       partition.Options
		want    string
	}{
		{"block", "mesh", partition.Options{Ranks: 2}, "partitioner block: the problem has no grid"},
		{"coordinate", "bare", partition.Options{Ranks: 2}, "no coordinates"},
		{"simple", "plane", partition.Options{Ranks: 0}, "at least 1"},
		{"multilevel", "plane", partition.Options{Ranks: 2, Objective: partition.Volume}, "only metis"},
		{"metis", "plane", partition.Options{Ranks: 2, Objective: "beauty"}, `unknown objective "beauty"`},
	} {
		p := must.Get(partition.Partitioners.Lookup(tc.name))(t)
		if _, err := p.Partition(all[tc.problem], tc.o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s on %s: error %v, want one with %q", tc.name, tc.problem, err, tc.want)
		}
	}
	if _, err := partition.Partitioners.Lookup("metiss"); err == nil ||
		!strings.Contains(err.Error(), `did you mean "metis"`) {
		t.Errorf("an unknown name: error %v", err)
	}
}

func measure(t *testing.T, name string, p sparse.Problem, ranks int) partition.Quality {
	t.Helper()
	part := must.Get(partition.Partitioners.Lookup(name))(t)
	layout := must.Get(part.Partition(p, partition.Options{Ranks: ranks, Seed: 1}))(t)
	return partition.Measure(p, layout, ranks)
}

// Known numbers for a square of 128 x 128 points.
func TestQuality(t *testing.T) {
	p := must.Get(sparse.New("poisson", sparse.Params{Rows: 128 * 128}))(t)
	for _, tc := range []struct {
		name                          string
		ranks                         int
		cut, volume, halo, neighbours int // exact values
		cutAtMost                     int
	}{
		{name: "simple", ranks: 4, cut: 3 * 128, volume: 6 * 128, halo: 256, neighbours: 2},
		{name: "block", ranks: 4, cut: 256, volume: 512, halo: 128, neighbours: 2},
		{name: "coordinate", ranks: 4, cut: 256, volume: 512, halo: 128, neighbours: 2},
		{name: "coordinate", ranks: 16, cut: 768, volume: 1536, halo: 128, neighbours: 4},
		{name: "coordinate", ranks: 3, cutAtMost: 216},
		{name: "coordinate", ranks: 7, cutAtMost: 445},
		{name: "multilevel", ranks: 4, cutAtMost: 320},
		{name: "multilevel", ranks: 7, cutAtMost: 520},
		{name: "multilevel", ranks: 16, cutAtMost: 900},
	} {
		q := measure(t, tc.name, p, tc.ranks)
		if tc.cutAtMost > 0 {
			if q.EdgeCut > tc.cutAtMost {
				t.Errorf("%s, %d ranks: cut %d, want at most %d", tc.name, tc.ranks, q.EdgeCut, tc.cutAtMost)
			}
			continue
		}
		if q.EdgeCut != tc.cut || q.Volume != tc.volume || q.MaxHalo != tc.halo || q.MaxNeighbours != tc.neighbours {
			t.Errorf("%s, %d ranks: %+v, want cut %d, volume %d, halo %d, neighbours %d", tc.name, tc.ranks, q, tc.cut,
				tc.volume, tc.halo, tc.neighbours)
		}
		if q.RowImbalance != 1 {
			t.Errorf("%s, %d ranks: imbalance %v", tc.name, tc.ranks, q.RowImbalance)
		}
	}
}

// A rank that knows only its share makes the same plan.
func TestShares(t *testing.T) {
	p := partitiontest.Problems(t)["mesh"]
	part, _ := partition.Partitioners.Lookup("multilevel")
	layout := must.Get(part.Partition(p, partition.Options{Ranks: 5}))(t)
	for r := range 5 {
		share := partition.Share{Rank: r, Own: layout.Rows(r), Ghosts: partition.Couplings(p, layout.Rows(r))}
		for _, g := range share.Ghosts {
			share.Owners = append(share.Owners, layout.Owner(g))
		}
		whole, own := sparse.NewPlan(p, layout, r), sparse.NewPlan(p, &share, r)
		if partition.LocalOf(whole) != partition.LocalOf(own) || len(own.Peers) != len(whole.Peers) {
			t.Errorf("rank %d: %+v from its share, %+v from the whole", r, partition.LocalOf(own), partition.LocalOf(whole))
		}
		for i, g := range whole.Ghosts {
			if own.Ghosts[i] != g || share.Owner(g) != layout.Owner(g) {
				t.Errorf("rank %d: ghost %d is %d, want %d", r, i, own.Ghosts[i], g)
			}
		}
		if share.Rows(r+1) != nil || share.Owner(share.Own[0].Lo) != r {
			t.Errorf("rank %d: the share knows %v of another rank", r, share.Rows(r+1))
		}
	}
}

// By entries, the strips of a matrix with long rows have equal numbers of entries; by rows, the first strip has most of
// them. A part with too many entries is reported.
func TestWeights(t *testing.T) {
	p := must.Get(sparse.New("hub", sparse.Params{Rows: 2000}))(t)
	for _, part := range partition.Partitioners.All() {
		if !part.Weighs || part.Library != nil {
			continue
		}
		imbalance := map[partition.Weights]partition.Quality{}
		for _, w := range []partition.Weights{partition.ByRows, partition.ByEntries} {
			layout := must.Get(part.Partition(p, partition.Options{Ranks: 8, Seed: 1, Weights: w}))(t)
			imbalance[w] = partition.Measure(p, layout, 8)
			if err := partitiontest.CheckEntries(layout, p, 8, 1, 0); err == nil && w == partition.ByRows &&
				part.Name == partition.Default {
				t.Error("strips of equal rows pass for even ones")
			}
		}
		rows, entries := imbalance[partition.ByRows], imbalance[partition.ByEntries]
		if entries.EntryImbalance > 1.1 || part.Name == partition.Default && entries.RowImbalance < 1.05 {
			t.Errorf("%s by entries: %+v", part.Name, entries)
		}
		if part.Name == partition.Default && rows.EntryImbalance < 1.8 {
			t.Errorf("strips by rows: %+v", rows)
		}
	}
}
