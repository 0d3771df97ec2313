package cuda

import (
	"errors"
	"fmt"
	"sync"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

var _ dist.Limiter = backend{}

// Limits is what the GPU's memory allows: every byte of the buffers of all ranks, which
// share it, is read or written once, but for those that its cache can hold, at the
// speed of a copy within the GPU that was measured beside this call. What goes between
// GPUs, or through the host, has no limit here.
func (backend) Limits(p dist.Plan, size int) ([]dist.Limit, error) {
	a, ours := p.In.Memory().(*allocation)
	if !ours {
		a, ours = p.Out.Memory().(*allocation)
	}
	if !ours || p.Op == dist.Barrier {
		return nil, nil
	}
	e := a.e
	if e.sharing != size {
		return nil, nil // links limit it, which nothing here has measured
	}
	cache, err := e.device.Device().Get(cuda.L2Bytes)
	if err != nil {
		return nil, err
	}
	bytes := unique(p.Op, p.Count, size)*p.DType.Size() - cache
	if bytes <= 0 {
		return nil, nil
	}
	speed, err := e.device.copySpeed()
	if err != nil {
		return nil, fmt.Errorf("measuring the GPU's memory: %w", err)
	}
	return []dist.Limit{{Name: "memory", US: float64(bytes) / speed}}, nil
}

// unique is how many elements all ranks' buffers have, inputs and outputs.
func unique(op dist.Collective, count, ranks int) int {
	switch op {
	case dist.AllGather, dist.ReduceScatter, dist.Broadcast:
		return count + ranks*count
	}
	return 2 * ranks * count
}

// copySpeed is how many bytes a microsecond are read and written in the best of some
// copies of memory beyond the caches, measured once.
func (d *device) copySpeed() (float64, error) {
	d.probe.Do(func() { d.probe.err = d.Do(func() (err error) { d.probe.speed, err = d.measureCopy(); return err }) })
	return d.probe.speed, d.probe.err
}

// probe is a measurement that is made once.
type probe struct {
	sync.Once
	speed float64
	err   error
}

const (
	probeCopies = 5
	leastProbe  = 16 << 20
)

func (d *device) measureCopy() (speed float64, err error) {
	l2, err := d.Device().Get(cuda.L2Bytes)
	if err != nil {
		return 0, err
	}
	bytes := max(leastProbe, 4*l2)
	var memory [2]cuda.Pointer
	var faults []error
	defer func() {
		for _, p := range memory {
			if p != 0 {
				faults = append(faults, d.Free(p))
			}
		}
		err = errors.Join(append(faults, err)...)
	}()
	for i := range memory {
		if memory[i], err = d.Alloc(bytes); err != nil {
			return 0, err
		}
	}
	s, err := d.Stream()
	if err != nil {
		return 0, err
	}
	defer func() { faults = append(faults, s.Destroy()) }()
	var events [2]*cuda.Event
	for i := range events {
		if events[i], err = d.Event(); err != nil {
			return 0, err
		}
		defer func() { faults = append(faults, events[i].Destroy()) }()
	}
	for range probeCopies {
		if err := errors.Join(events[0].Record(s), s.Copy(memory[0], memory[1], bytes), events[1].Record(s), s.Synchronize()); err != nil {
			return 0, err
		}
		us, err := events[1].Since(events[0])
		if err != nil {
			return 0, err
		}
		speed = max(speed, 2*float64(bytes)/us)
	}
	return speed, nil
}
