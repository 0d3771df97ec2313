//go:build !nodl && linux

package partition_test

import (
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/partitiontest"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// These tests need METIS (Debian: libmetis5).
func TestConformanceOfLibraries(t *testing.T) {
	for _, p := range partition.Partitioners.All() {
		if p.Library != nil {
			t.Run(p.Name, func(t *testing.T) { partitiontest.Run(t, p) })
		}
	}
}

func TestMetisObjectives(t *testing.T) {
	p := must.Get(sparse.New("poisson", sparse.Params{Rows: 128 * 128}))(t)
	part, _ := partition.Partitioners.Lookup("metis")
	quality := map[partition.Objective]partition.Quality{}
	for _, o := range []partition.Objective{partition.EdgeCut, partition.Volume} {
		layout := must.Get(part.Partition(p, partition.Options{Ranks: 8, Objective: o}))(t)
		quality[o] = partition.Measure(p, layout, 8)
	}
	cut, volume := quality[partition.EdgeCut], quality[partition.Volume]
	if volume.Volume >= cut.Volume || cut.EdgeCut >= volume.EdgeCut {
		t.Errorf("for the cut %+v, for the volume %+v", cut, volume)
	}
}

// The multilevel partitioner is within 10 % of METIS, in cut and in volume.
func TestMultilevelAgainstMetis(t *testing.T) {
	for _, tc := range []struct {
		kind string
		dim  int
	}{{"poisson", 2}, {"poisson", 3}, {"mesh", 2}} {
		rows := 40000
		if testing.Short() {
			rows = 4000
		}
		p := must.Get(sparse.New(tc.kind, sparse.Params{Rows: rows, Dim: tc.dim}))(t)
		for _, ranks := range []int{3, 8} {
			own, metis := measure(t, "multilevel", p, ranks), measure(t, "metis", p, ranks)
			if 10*own.EdgeCut > 11*metis.EdgeCut || 10*own.Volume > 11*metis.Volume {
				t.Errorf("%s %d-D, %d ranks: cut %d and volume %d, METIS %d and %d", tc.kind, tc.dim, ranks,
					own.EdgeCut, own.Volume, metis.EdgeCut, metis.Volume)
			}
		}
	}
}
