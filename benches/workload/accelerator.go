package workload

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/workload/replay"
)

// accelerator is implemented by backends that simulate a machine whose collectives are its own kernels. Each rank is
// a SIP.
type accelerator interface {
	// AllReduceTime simulates an all-reduce between some SIPs of a machine.
	AllReduceTime(file, arrangement string, sips, members, elements int, algorithm string) (event.Time, error)
}

func isAccelerator(d dist.Description) bool {
	_, ok := dist.As[accelerator](d.Name)
	return ok
}

// elemBytes is the size of the accelerator's elements, f16.
const elemBytes = 2

// largestSimulated is the size up to which an all-reduce is simulated on the accelerator. The time of a larger one is
// extrapolated from this size and half of it: larger vectors move in more pieces, each as long as the others.
const largestSimulated = 4 << 20

// checkAccelerator refuses traces with operations that the accelerator does not have.
func (s *summary) checkAccelerator(backend, algorithm string) error {
	known := append([]string{replay.Auto, replay.Recorded}, dist.Describe(backend).Algorithms[dist.AllReduce]...)
	switch {
	case !slices.Contains(known, algorithm):
		return bench.Unknown("algorithm", algorithm, known)
	case algorithm == replay.Recorded:
		return nil
	}
	var missing []string
	for c := range s.calls {
		if c.Collective != schedule.AllReduce {
			missing = append(missing, c.Collective)
		}
	}
	if s.messages > 0 {
		missing = append(missing, "send and recv")
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("the traces have %s, and backend %s has only the all-reduce: --backend %s replays them",
		strings.Join(slices.Compact(missing), ", "), backend, dist.Backends(isNetwork)[0])
}

// allReduces simulates the all-reduces of a workload, each size and group size once.
type allReduces struct {
	on           accelerator
	chosen       machine.Chosen
	sips         int
	algorithm    string
	known        map[replay.SizedCall]event.Time
	extrapolated int
}

// simulatedCalls caches simulated all-reduces of this process, because the points of a sweep share them.
var simulatedCalls sync.Map

// simulate returns the time of an all-reduce of at most largestSimulated bytes.
func (a *allReduces) simulate(members int, bytes int64) (event.Time, error) {
	elements := int((bytes + elemBytes - 1) / elemBytes)
	key := fmt.Sprint(a.chosen, a.sips, members, elements, a.algorithm)
	if t, ok := simulatedCalls.Load(key); ok {
		return t.(event.Time), nil
	}
	t, err := a.on.AllReduceTime(a.chosen.File, a.chosen.Arrangement, a.sips, members, elements, a.algorithm)
	if err == nil {
		simulatedCalls.Store(key, t)
	}
	return t, err
}

// time returns the time of a collective.
func (a *allReduces) time(_ int64, c replay.Call, members []int32) (replay.Times, error) {
	sized := replay.SizedCall{Call: c, Ranks: len(members)}
	if t, ok := a.known[sized]; ok {
		return replay.Together(t), nil
	}
	if c.Collective != schedule.AllReduce {
		return nil, fmt.Errorf("the accelerator has no %s", c.Collective)
	}
	t, err := a.simulate(len(members), min(c.Bytes, largestSimulated))
	if err == nil && c.Bytes > largestSimulated {
		var half event.Time
		half, err = a.simulate(len(members), largestSimulated/2)
		a.extrapolated++
		t += event.Time(float64(t-half) * float64(c.Bytes-largestSimulated) / (largestSimulated / 2))
	}
	if err != nil {
		return nil, err
	}
	a.known[sized] = t
	return replay.Together(t), nil
}

// onAccelerator replays a workload on a simulated accelerator.
func onAccelerator(s *bench.State, w *replay.Workload, chosen machine.Chosen, on accelerator) (*replay.Result, error) {
	a := &allReduces{on: on, chosen: chosen, sips: w.Ranks(), known: map[replay.SizedCall]event.Time{}}
	if name := s.Str(algorithmAxis); name != replay.Auto {
		a.algorithm = name
	}
	r, err := w.Run(replay.NewTimed(a.time, nil))
	if err != nil {
		return nil, err
	}
	if a.extrapolated > 0 {
		s.Warn("%d sizes of all-reduces are above %d MiB: their times are extrapolated from %d and %d MiB", a.extrapolated,
			largestSimulated>>20, largestSimulated>>21, largestSimulated>>20)
	}
	s.Detail("algorithms", "allreduce "+s.Str(algorithmAxis)+", each simulated alone")
	return r, nil
}
