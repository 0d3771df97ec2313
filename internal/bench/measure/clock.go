package measure

import (
	"time"

	"github.com/kernbench/kernbench/internal/host/clock"
)

// Clock is the clock that calls are timed with.
type Clock = clock.Clock

// stopwatch reads a clock in the sampling loop. The monotonic clock is read
// directly: an interface call there would be part of every sample.
type stopwatch struct {
	clock       Clock // nil: monotonic
	calibration clock.Calibration
}

func newStopwatch(c Clock) stopwatch {
	w := stopwatch{calibration: clock.CalibrationOf(c)}
	if _, ok := c.(clock.Host); !ok {
		w.clock = c
	}
	return w
}

func (w *stopwatch) now() int64 {
	if w.clock == nil {
		return clock.Host{}.Now()
	}
	return w.clock.Now()
}

// picoseconds converts a duration bounded by maxDuration.
func picoseconds(d time.Duration) int64 { return int64(d) * 1000 }
