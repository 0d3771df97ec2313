package measure

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/comm/syncgroup"
)

// The samples of all ranks are collected. When one rank's time is over, all stop, and when one fails, all
// fail.
func TestCollect(t *testing.T) {
	const ranks = 2
	collect := func(limit [ranks]time.Duration, fails int) (ms [ranks]Matrix, errs [ranks]error) {
		var all sync.WaitGroup
		for r, g := range syncgroup.Local(ranks) {
			all.Go(func() {
				n := 0
				ms[r], errs[r] = Collect(t.Context(), g, 3, limit[r], func() (int64, error) {
					if n++; n == fails && r == 1 {
						return 0, errors.New("broken")
					}
					return int64(10*n + r), nil
				})
			})
		}
		all.Wait()
		return ms, errs
	}
	const long = time.Hour
	for _, c := range []struct {
		limit   [ranks]time.Duration
		samples int
	}{{[ranks]time.Duration{long, long}, 3}, {[ranks]time.Duration{long, 0}, 1}} {
		ms, errs := collect(c.limit, 0)
		if errors.Join(errs[:]...) != nil || ms[0].Iterations() != c.samples || ms[1].Iterations() != c.samples ||
			ms[0].At(0, 1) != 11 || ms[1].At(0, 0) != 10 {
			t.Errorf("limits %v: %v, %v, want %d samples", c.limit, ms, errs, c.samples)
		}
	}
	if _, errs := collect([ranks]time.Duration{long, long}, 2); errs[0] == nil || errs[1] == nil {
		t.Errorf("a rank that fails: %v", errs)
	}
}
