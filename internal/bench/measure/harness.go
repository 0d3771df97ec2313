package measure

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/host/clock"
)

// HarnessCost measures what a sample costs besides the call: the time per sample of
// an empty body, clock readings and barriers included. Every rank of the group
// calls it, and gets the slowest rank's time.
func HarnessCost(ctx context.Context, cadence Cadence, g syncgroup.Group) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	empty := Body{Call: func() error { return nil }}
	s := &sampler{watch: newStopwatch(clock.Monotonic()), group: g, body: empty, isolated: cadence == Isolated, batch: 1}
	defer setGC(gcOff)()
	var cost int64
	for range 2 { // the first warms up
		s.start(phaseTimed)
		_, elapsed, err := s.block(ctx, maxBlock)
		if err != nil {
			return 0, fmt.Errorf("measuring the harness: %w", err)
		}
		cost = elapsed / maxBlock
	}
	return time.Duration(cost / 1000), nil
}
