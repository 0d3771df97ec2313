package measure

import (
	"context"
	"time"

	"github.com/kernbench/kernbench/internal/comm/syncgroup"
)

// Collect takes up to n samples that the ranks time by means of their own, such as a
// device's: sample gives the picoseconds of one call. After each the ranks exchange
// them, and stop together when the limit has passed. There is no warm-up and no rule for
// noise: a sample is itself a mean over many calls.
func Collect(ctx context.Context, g syncgroup.Group, n int, limit time.Duration, sample func() (int64, error)) (Matrix,
	error) {
	m := NewMatrix(g.Size())
	for begin, late := time.Now(), false; m.Iterations() < n && !late; {
		ps, err := sample()
		if err != nil {
			g.Abort(err.Error())
			return Matrix{}, err
		}
		mine := []int64{ps, 0}
		if time.Since(begin) >= limit {
			mine[1] = 1
		}
		all, err := g.Exchange(ctx, mine)
		if err != nil {
			return Matrix{}, err
		}
		for _, theirs := range all {
			m.data = append(m.data, theirs[0])
			late = late || theirs[1] != 0
		}
	}
	return m, nil
}
