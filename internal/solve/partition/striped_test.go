package partition_test

import (
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

func init() {
	partition.Partitioners.Register(partition.Partitioner{
		Name:      "striped",
		Help:      "rows in turn, one by one",
		Needs:     partition.Size, // so every rank partitions for itself
		Imbalance: 1,              // no part is larger than the mean, rounded up
		Make:      striped,
	})
}

// striped gives row i to rank i mod ranks.
func striped(p sparse.Problem, o partition.Options) (sparse.Layout, error) {
	owners := make([]int32, p.Size())
	for row := range owners {
		owners[row] = int32(row % o.Ranks)
	}
	return partition.NewTable(owners, o.Ranks)
}
