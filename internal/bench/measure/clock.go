package measure

import (
	"sync"
	"time"
)

// Clock is what calls are timed with. Times are integer picoseconds from an
// arbitrary start, so that simulated and measured times are alike.
type Clock interface {
	Now() int64
	// Deterministic clocks give the same duration for the same call every time:
	// one sample is enough, and there is no interval.
	Deterministic() bool
	Name() string
}

// Calibration is the error that a clock adds to a duration, in picoseconds.
type Calibration struct {
	// Overhead is the least duration between two readings; it is subtracted
	// from each sample.
	Overhead int64
	// Resolution is the least step the clock was seen to make.
	Resolution int64
}

// Calibrated is implemented by clocks that know their calibration. Others are
// taken to be exact.
type Calibrated interface {
	Calibration() Calibration
}

// epoch is the origin of the monotonic clock; durations since it fit an int64
// of picoseconds for 106 days.
var epoch = time.Now()

type monotonic struct{}

// Monotonic is the clock of this machine.
func Monotonic() Clock { return monotonic{} }

func (monotonic) Now() int64               { return int64(time.Since(epoch)) * 1000 }
func (monotonic) Deterministic() bool      { return false }
func (monotonic) Name() string             { return "monotonic" }
func (monotonic) Calibration() Calibration { return Calibrate() }

// DeviceEvents is a clock that stands for the events by which a device times itself, to so
// many picoseconds.
func DeviceEvents(resolution int64) Clock { return deviceEvents{resolution: resolution} }

type deviceEvents struct {
	monotonic
	resolution int64
}

func (deviceEvents) Name() string               { return "gpu events" }
func (d deviceEvents) Calibration() Calibration { return Calibration{Resolution: d.resolution} }

// Calibrate returns the calibration of the monotonic clock, measured once per process in a tight loop.
var Calibrate = sync.OnceValue(func() Calibration {
	readings := make([]int64, 4096)
	for i := range readings {
		readings[i] = monotonic{}.Now()
	}
	return calibrationOf(readings)
})

// calibrationOf takes successive readings. The least difference may be 0 when
// the clock is coarser than it is quick; the least step never is.
func calibrationOf(readings []int64) Calibration {
	least, step := int64(-1), int64(-1)
	for i := 1; i < len(readings); i++ {
		d := readings[i] - readings[i-1]
		if least < 0 || d < least {
			least = d
		}
		if d > 0 && (step < 0 || d < step) {
			step = d
		}
	}
	return Calibration{Overhead: max(least, 0), Resolution: max(step, 0)}
}

// stopwatch reads a clock in the sampling loop. The monotonic clock is read
// directly: an interface call there would be part of every sample.
type stopwatch struct {
	clock       Clock // nil: monotonic
	calibration Calibration
}

func newStopwatch(c Clock) stopwatch {
	var w stopwatch
	if k, ok := c.(Calibrated); ok {
		w.calibration = k.Calibration()
	}
	if _, ok := c.(monotonic); !ok {
		w.clock = c
	}
	return w
}

func (w *stopwatch) now() int64 {
	if w.clock == nil {
		return monotonic{}.Now()
	}
	return w.clock.Now()
}

// picoseconds converts a duration bounded by maxDuration.
func picoseconds(d time.Duration) int64 { return int64(d) * 1000 }
