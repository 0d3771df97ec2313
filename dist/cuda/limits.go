package cuda

import (
	"errors"
	"fmt"
	"sync"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

var _ dist.Limiter = backend{}

// Limits is what the GPU's memory allows where all ranks share it: every byte of their
// buffers is read or written once, but for those that its cache can hold, at the speed of
// a copy within the GPU that was measured beside this call. What goes between GPUs, or
// through the host, has no limit here.
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
	bytes := e.uniqueBytes(p) - cache
	if bytes <= 0 {
		return nil, nil
	}
	speed, err := e.device.copySpeed()
	if err != nil {
		return nil, fmt.Errorf("measuring the GPU's memory: %w", err)
	}
	return []dist.Limit{{Name: "memory", US: float64(bytes) / speed}}, nil
}

// coldLimit is the limit of a call whose buffers are not in the cache, and what it is.
func (e *engine) coldLimit(p dist.Plan) (us float64, what string, err error) {
	memory, err := e.device.copySpeed()
	if err != nil {
		return 0, "", fmt.Errorf("measuring the GPU's memory: %w", err)
	}
	unique := float64(e.uniqueBytes(p))
	return unique / memory, fmt.Sprintf("%.4g MB of all ranks' buffers at %.0f GB/s of a copy: %.4g us", unique/1e6, memory/1e3, unique/memory), nil
}

// uniqueBytes are those of all ranks' buffers; in place, memory is read and written.
func (e *engine) uniqueBytes(p dist.Plan) int {
	return unique(p.Op, p.Count, e.size) * p.DType.Size()
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
func (d *device) copySpeed() (float64, error) { return d.copies.of(d, measureCopy) }

// probe is a measurement that is made once.
type probe struct {
	sync.Once
	speed float64
	err   error
}

func (p *probe) of(d *device, measure func(*bench) (float64, error)) (float64, error) {
	p.Do(func() {
		p.err = d.Do(func() (err error) {
			b := bench{device: d}
			p.speed, err = b.run(measure)
			return err
		})
	})
	return p.speed, p.err
}

const (
	probeRuns  = 5
	leastProbe = 16 << 20
)

// bench is what a measurement on the device needs: memory, a stream and two events.
type bench struct {
	*device
	cache  int // bytes
	stream *cuda.Stream
	events [2]*cuda.Event
	memory []cuda.Pointer
}

func (b *bench) run(measure func(*bench) (float64, error)) (speed float64, err error) {
	defer func() { err = errors.Join(err, b.close()) }()
	if b.cache, err = b.Device().Get(cuda.L2Bytes); err != nil {
		return 0, err
	}
	if b.stream, err = b.Stream(); err != nil {
		return 0, err
	}
	for i := range b.events {
		if b.events[i], err = b.Event(); err != nil {
			return 0, err
		}
	}
	return measure(b)
}

func (b *bench) alloc(bytes int) (cuda.Pointer, error) {
	p, err := b.Alloc(bytes)
	if err == nil {
		b.memory = append(b.memory, p)
		err = b.Fill(p, 0, bytes)
	}
	return p, err
}

// best is the greatest of some rates of so many bytes.
func (b *bench) best(bytes int, start func() error) (speed float64, err error) {
	for range probeRuns {
		if err := errors.Join(b.events[0].Record(b.stream), start(), b.events[1].Record(b.stream), b.stream.Synchronize()); err != nil {
			return 0, err
		}
		us, err := b.events[1].Since(b.events[0])
		if err != nil {
			return 0, err
		}
		speed = max(speed, float64(bytes)/us)
	}
	return speed, nil
}

func (b *bench) close() error {
	var faults []error
	for _, p := range b.memory {
		faults = append(faults, b.Free(p))
	}
	for _, e := range b.events {
		if e != nil {
			faults = append(faults, e.Destroy())
		}
	}
	if b.stream != nil {
		faults = append(faults, b.stream.Destroy())
	}
	return errors.Join(faults...)
}

func measureCopy(b *bench) (float64, error) {
	const copies = 8
	bytes := max(leastProbe, 4*b.cache)
	from, err := b.alloc(bytes)
	if err != nil {
		return 0, err
	}
	to, err := b.alloc(bytes)
	if err != nil {
		return 0, err
	}
	return b.best(2*bytes*copies, func() error { // several, so that starting them does not count
		var faults []error
		for range copies {
			faults = append(faults, b.stream.Copy(to, from, bytes))
		}
		return errors.Join(faults...)
	})
}
