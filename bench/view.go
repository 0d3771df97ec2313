package bench

import "github.com/kernbench/kernbench/internal/result/journal"

// View is what tables, figures and exports show of a run: the latest row of each
// point, merged with those of earlier runs of the folder where the bench
// accumulates, with what follows from other rows. Without a bench it is the run
// itself.
func (b *Bench) View(j *journal.Journal, r *journal.Run) *journal.Run {
	if b == nil {
		return r
	}
	if b.Accumulate {
		r = j.Accumulated(r)
	}
	if b.Derive != nil {
		shown := *r
		shown.Rows = b.Derive(r.Latest())
		r = &shown
	}
	return r
}
