package main

import "github.com/kernbench/kernbench/solve"

func init() {
	solve.RegisterPartitioner(solve.Partitioner{
		Name:      "striped",
		Help:      "rows in turn, one by one",
		Needs:     solve.NeedsSize, // so every rank partitions for itself
		Imbalance: 1,               // no part is larger than the mean, rounded up
		Make:      striped,
	})
}

// striped gives row i to rank i mod ranks.
func striped(p solve.Problem, o solve.PartitionOptions) (solve.Layout, error) {
	owners := make([]int32, p.Size())
	for row := range owners {
		owners[row] = int32(row % o.Ranks)
	}
	return solve.NewTable(owners, o.Ranks)
}
