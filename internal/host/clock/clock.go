// Package clock defines the clocks that measurements read: the monotonic clock of this host with its calibration, a
// clock of simulated time, and a clock for calls that a device times by its own events.
package clock

import (
	"sync"
	"time"
)

// Clock is a source of time: integer picoseconds from an arbitrary start, so that simulated and measured times have the
// same unit. A clock that knows its error also has a method Calibration; see [CalibrationOf].
type Clock interface {
	Now() int64
	// Deterministic reports whether the same call always takes the same time on this clock. One sample is then enough,
	// and there is no confidence interval.
	Deterministic() bool
	Name() string // such as "monotonic", recorded with each result
}

// Calibration is the error that a clock adds to a duration, in picoseconds.
type Calibration struct {
	Overhead   int64 // the shortest duration between two readings; subtracted from each sample
	Resolution int64 // the smallest observed step of the clock
}

// CalibrationOf returns the calibration of c: the result of its method Calibration, or zero (an exact clock) if it has
// none.
func CalibrationOf(c Clock) Calibration {
	if known, ok := c.(interface{ Calibration() Calibration }); ok {
		return known.Calibration()
	}
	return Calibration{}
}

// epoch is the start of the monotonic clock. Durations since it fit an int64 of picoseconds for 106 days.
var epoch = time.Now()

// Host is the monotonic clock of this host. The type is exported so that a sampling loop can call Now directly: a call
// through the interface would be part of every sample.
type Host struct{}

// Monotonic returns the monotonic clock of this host.
func Monotonic() Clock { return Host{} }

// Now returns the picoseconds since the process started.
func (Host) Now() int64 { return int64(time.Since(epoch)) * 1000 }

// Deterministic returns false.
func (Host) Deterministic() bool { return false }

// Name returns "monotonic".
func (Host) Name() string { return "monotonic" }

// Calibration returns the error of the clock, measured once per process in a tight loop.
func (Host) Calibration() Calibration { return calibrateHost() }

var calibrateHost = sync.OnceValue(func() Calibration {
	readings := make([]int64, 4096)
	for i := range readings {
		readings[i] = Host{}.Now()
	}
	return calibrate(readings)
})

// calibrate computes a calibration from successive readings. Overhead may be 0 if the clock is coarse: two readings
// can then be equal. Resolution considers only steps above 0.
func calibrate(readings []int64) Calibration {
	shortest, step := int64(-1), int64(-1)
	for i := 1; i < len(readings); i++ {
		d := readings[i] - readings[i-1]
		if shortest < 0 || d < shortest {
			shortest = d
		}
		if d > 0 && (step < 0 || d < step) {
			step = d
		}
	}
	return Calibration{Overhead: max(shortest, 0), Resolution: max(step, 0)}
}

// Simulated returns an exact clock that reads simulated time with now, in picoseconds.
func Simulated(now func() int64) Clock { return simulated(now) }

type simulated func() int64

func (s simulated) Now() int64        { return s() }
func (simulated) Deterministic() bool { return true }
func (simulated) Name() string        { return "simulated" }

// DeviceEvents returns a clock for calls that a device times by its own events. resolution is the step of these events
// in picoseconds.
func DeviceEvents(resolution int64) Clock { return deviceEvents{resolution: resolution} }

type deviceEvents struct {
	Host
	resolution int64
}

func (deviceEvents) Name() string               { return "gpu events" }
func (d deviceEvents) Calibration() Calibration { return Calibration{Resolution: d.resolution} }
