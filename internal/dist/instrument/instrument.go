// Package instrument defines optional interfaces of backends and engines, for benches that need more than package dist
// offers: lower limits of a call's time, timings without the host's part, readings of a device, planted faults, and
// descriptions of simulated machines. It measures nothing itself.
package instrument

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/suggest"
)

// Limiter is a dist.Engine that knows lower limits of the time of a call, from the hardware that its group runs on.
type Limiter interface {
	Limits(p dist.Plan) ([]Limit, error)
}

// Limit is a lower limit of the time of a call.
type Limit struct {
	Name string  // of the resource that limits it
	US   float64 // microseconds
}

// Limits returns the lower limits of the time of a call of g, or none if its backend knows none.
func Limits(g *dist.Group, p dist.Plan) ([]Limit, error) {
	if l, ok := dist.EngineAs[Limiter](g); ok {
		return l.Limits(p)
	}
	return nil, nil
}

// MachineReader is a dist.Backend whose machine is described by a file: [dist.Config.Machine].
type MachineReader interface {
	// CheckMachine reports what is wrong with a file and an arrangement for groups with the given number of ranks.
	CheckMachine(path, arrangement string, ranks int) error
	// DescribeMachine returns a summary of the machine of a file, or of the built-in one if path is empty.
	DescribeMachine(path, arrangement string) (Machine, error)
	// NearbyMachine returns the file of the current folder that is used if none is named, or "".
	NearbyMachine() string
}

// Machine is a summary of the machine that a [MachineReader] reads.
type Machine struct {
	Text    string            // in a few words
	Ranks   int               // of every group on it; 0: any number
	Details map[string]string // recorded with rows, such as how messages move
	BuiltIn []byte            // the text of the built-in file; nil: there is none
}

// FaultReader is a MachineReader whose machines may have faults, such as a slow rank. The arrangement of such a machine
// is a list of faults, NAME=VALUE;NAME=VALUE.
type FaultReader interface {
	// FaultOptions returns the kinds of faults: the names of options, and their help.
	FaultOptions() [][2]string
}

// Explainer is a simulated dist.Engine that knows more about a call than its time.
type Explainer interface {
	Explain(p dist.Plan) (Explanation, error)
}

// Explanation has more results of a simulated call, which are recorded with its row.
type Explanation struct {
	Metrics []Metric
	Details map[string]string
}

// Metric is a result of a call besides its time.
type Metric struct {
	Name   string
	Value  float64
	Unit   string
	Better string // "lower", "higher" or ""
}

// Explain returns the other results of a call of g, or none if its backend has none.
func Explain(g *dist.Group, p dist.Plan) (Explanation, error) {
	if e, ok := dist.EngineAs[Explainer](g); ok {
		return e.Explain(p)
	}
	return Explanation{}, nil
}

// Estimator is a simulated dist.Backend that estimates the cost of simulating a call before anything runs.
type Estimator interface {
	// Estimate returns an error if the call is too large to be simulated. note is empty, or states how long the
	// simulation of a large call takes and how much memory it needs. algorithm is empty for the default; count is in
	// elements.
	Estimate(op dist.Collective, algorithm string, ranks, count int) (note string, err error)
}

// Sweeper is a dist.Backend whose processes may leave something on the host when they are killed.
type Sweeper interface{ Sweep() error }

// Sweep removes what killed processes of any backend have left on this host. Things that belong to living processes
// stay. A program that starts ranks calls it after they have ended.
func Sweep() error {
	var faults []error
	for _, name := range dist.Backends(nil) {
		if s, ok := dist.As[Sweeper](name); ok {
			faults = append(faults, s.Sweep())
		}
	}
	return errors.Join(faults...)
}

// Observer is a dist.Engine whose device has sensors.
type Observer interface {
	// Observe reads clocks, power and temperature. It changes nothing.
	Observe() (string, error)
}

// ObserverOf returns the sensors of this rank's device. Without a device its readings are empty.
func ObserverOf(g *dist.Group) Observer {
	if o, ok := dist.EngineAs[Observer](g); ok {
		return o
	}
	return noSensors{}
}

type noSensors struct{}

func (noSensors) Observe() (string, error) { return "", nil }

// Timing is a way to time a prepared call without the host's part: many calls in one launch of a kernel, or a recorded
// graph of them.
type Timing struct {
	Name string // of the metric, such as kernel_us
	Help string // what is timed
	// Sample makes calls, on all ranks together, and returns the microseconds of one. A rank without a share of the
	// work returns 0.
	Sample func() (us float64, err error)
	// Check, if set, verifies samples that leave no result in the buffers of the call. All ranks call it together: it
	// makes the call itself and compares the results.
	Check func() error
	// LimitUS is a lower limit of the time of a call that is timed in this way, and Limit names the resource that
	// limits it. Only rank 0 needs to know them; 0: not known.
	LimitUS float64
	Limit   string
	// Close releases the resources of this timing.
	Close func() error
}

// Timer is a dist.Engine that has timings. Timings is a collective call. It returns none for a call that cannot be
// timed without the host.
type Timer interface {
	Timings(p dist.Plan) ([]Timing, error)
}

// Timings returns the ways to time op, a call of g, without the host's part. All ranks call it together, while the
// group is idle.
func Timings(g *dist.Group, op *dist.Op) ([]Timing, error) {
	t, ok := dist.EngineAs[Timer](g)
	if !ok {
		return nil, nil
	}
	list, err := t.Timings(op.Plan())
	if err != nil {
		return nil, fmt.Errorf("timing %v: %w", op.Plan(), err)
	}
	return list, nil
}

// FaultInjector is a dist.Engine that can plant faults in its own kernels, to test whether checks find them.
type FaultInjector interface {
	// Plant plants one of [Faults] in all all-reduces that are prepared from now on, or none if fault is "". Preparing
	// an all-reduce that cannot have the fault returns [ErrNoSuchFault].
	Plant(fault string) error
}

// The faults that can be planted.
const (
	DroppedBarrier = "dropped-barrier" // no rank waits for the others, and one of them is late
	SkippedTail    = "skipped-tail"    // the last elements, which do not fill a vector register, are left out
	WrongSlot      = "wrong-slot"      // the data of rank 1 is taken for the data of rank 0
)

// Faults lists the faults that can be planted.
func Faults() []string { return []string{DroppedBarrier, SkippedTail, WrongSlot} }

// ErrNoSuchFault is the error if the requested fault cannot be planted.
var ErrNoSuchFault = errors.New("the fault cannot be planted")

// Plant plants one of [Faults] in all all-reduces of this rank that are prepared from now on, or none if fault is "".
func Plant(g *dist.Group, fault string) error {
	e, ok := dist.EngineAs[FaultInjector](g)
	switch {
	case fault == "" && !ok:
		return nil
	case !ok:
		return fmt.Errorf("%w: backend %s has no kernels of its own to plant it in", ErrNoSuchFault, g.Backend())
	case fault != "" && !slices.Contains(Faults(), fault):
		return suggest.Unknown("fault", fault, Faults())
	}
	return e.Plant(fault)
}
