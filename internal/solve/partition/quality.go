package partition

import "github.com/kernbench/kernbench/internal/solve/sparse"

// Local is the contribution of one rank to the quality of a partition.
type Local struct {
	Rows, Entries, CutEntries, Halo, Neighbours int
}

// LocalOf returns the contribution of the rank with the given plan.
func LocalOf(plan *sparse.Plan) Local {
	return Local{plan.Owned, plan.Entries, plan.CutEntries, len(plan.Ghosts), len(plan.Peers)}
}

// Quality describes a partition. Volume, the largest halo and the number of neighbours determine the time of an
// exchange. Most partitioners minimise the edge cut instead.
type Quality struct {
	RowImbalance   float64 // largest part over the mean; 1 is perfect balance
	EntryImbalance float64
	EdgeCut        int // pairs of coupled rows on different ranks, for a symmetric pattern
	Volume         int // values that all ranks together send in one product
	MaxHalo        int
	MaxNeighbours  int
	MeanNeighbours float64
}

// Combine computes the quality from the contributions of all ranks.
func Combine(ranks []Local) Quality {
	var q Quality
	var sum, largest Local
	for _, l := range ranks {
		sum.Rows, largest.Rows = sum.Rows+l.Rows, max(largest.Rows, l.Rows)
		sum.Entries, largest.Entries = sum.Entries+l.Entries, max(largest.Entries, l.Entries)
		sum.CutEntries += l.CutEntries
		sum.Neighbours += l.Neighbours
		q.Volume += l.Halo
		q.MaxHalo, q.MaxNeighbours = max(q.MaxHalo, l.Halo), max(q.MaxNeighbours, l.Neighbours)
	}
	n := float64(len(ranks))
	q.RowImbalance = float64(largest.Rows) * n / float64(max(1, sum.Rows))
	q.EntryImbalance = float64(largest.Entries) * n / float64(max(1, sum.Entries))
	q.EdgeCut = sum.CutEntries / 2
	q.MeanNeighbours = float64(sum.Neighbours) / n
	return q
}
