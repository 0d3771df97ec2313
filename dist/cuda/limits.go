package cuda

import (
	"errors"
	"fmt"
	"sync"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

var _ instrument.Limiter = (*engine)(nil)

// Limits returns lower bounds of a call's time, for ranks that share one GPU:
//
//   - memory: every byte of the ranks' buffers that does not fit into the cache is read or written
//     once, at the speed of a copy within the GPU;
//   - cache: every access of the algorithm goes through the L2 cache.
//
// Both speeds are measured on this GPU. There are no limits for calls between GPUs or on host memory.
func (*engine) Limits(p dist.Plan) ([]instrument.Limit, error) {
	a, ours := p.In.Memory().(*allocation)
	if !ours {
		a, ours = p.Out.Memory().(*allocation)
	}
	if !ours || p.Op == dist.Barrier {
		return nil, nil
	}
	e := a.e
	if e.ranksOnGPU != e.size {
		return nil, nil // the links between the GPUs limit the call, and their speed is not measured
	}
	capacity, err := e.device.Device().Get(cuda.L2Bytes)
	if err != nil {
		return nil, err
	}
	l, err := e.computeLimits(p, capacity)
	if err != nil {
		return nil, err
	}
	return []instrument.Limit{{Name: "memory", US: l.memory.us()}, {Name: "cache", US: l.cache.us()}}, nil
}

// coldLimit returns the lower bound for a call whose buffers are not in the cache, and how it was
// computed.
func (e *engine) coldLimit(p dist.Plan) (us float64, what string, err error) {
	l, err := e.computeLimits(p, 0)
	return max(l.memory.us(), l.cache.us()), fmt.Sprintf("memory: %v; cache: %v",
		l.memory.text("all ranks' buffers", "a copy"), l.cache.text("accesses", "the cache")), err
}

// limits are the data volumes that bound a call's time.
type limits struct{ memory, cache volume }

// volume is a number of bytes and a speed in bytes per microsecond.
type volume struct{ bytes, speed float64 }

func (v volume) us() float64 {
	if v.speed == 0 {
		return 0
	}
	return v.bytes / v.speed
}

func (v volume) text(what, how string) string {
	return fmt.Sprintf("%.4g MB of %s at %.0f GB/s of %s: %.4g µs", v.bytes/1e6, what, v.speed/1e3, how, v.us())
}

// computeLimits returns the limits of a call. cached is the number of bytes of its buffers that are in the cache.
func (e *engine) computeLimits(p dist.Plan, cached int) (l limits, err error) {
	width := p.DType.Size()
	if bytes := bufferElements(p, e.size)*width - cached; bytes > 0 {
		l.memory.bytes = float64(bytes)
		if l.memory.speed, err = e.device.copySpeed(); err != nil {
			return l, fmt.Errorf("measuring the GPU's memory: %w", err)
		}
	}
	accessed, readers := accesses(p, e.size)
	l.cache.bytes = accessed * float64(width)
	if l.cache.speed, err = e.device.cacheSpeed(readers); err != nil {
		return l, fmt.Errorf("measuring the GPU's cache: %w", err)
	}
	return l, nil
}

// bufferElements returns the number of elements in the inputs and outputs of all ranks. A buffer that is
// both counts twice, because it is read and written.
func bufferElements(p dist.Plan, ranks int) int {
	switch p.Op {
	case dist.AllGather, dist.ReduceScatter, dist.Broadcast, dist.Reduce:
		return p.Count + ranks*p.Count
	case dist.Gather, dist.Scatter:
		return 2 * p.Count
	}
	if p.Op == dist.AllToAll && p.Counts != nil {
		return 2 * p.Count // with Counts, Count is the sum over all ranks
	}
	return 2 * ranks * p.Count
}

// accesses returns the least number of elements that all ranks load and store, and how many ranks load
// the same elements at about the same time. The cache can serve such loads together.
func accesses(p dist.Plan, size int) (elements float64, readers int) {
	n, count := float64(size), float64(p.Count)
	switch p.Op {
	case dist.AllReduce:
	case dist.AllGather, dist.Broadcast:
		return 2 * n * count, size
	default:
		return float64(bufferElements(p, size)), 1
	}
	v := variantOf(p)
	switch {
	case v.bits > 0: // encoded data is stored at the owner, loaded there, stored at all ranks and loaded again
		encoded := (float64(v.bits)/8 + 4./quant.Group) / float64(p.DType.Size())
		elements, readers = n*count*(2+4*encoded), 1
	case v.copiesInputs: // every rank copies all inputs, then loads the copies
		elements, readers = count*(3*n*n+n), size
	case v.kernel == gpu.Pull:
		elements, readers = count*(3*n+1), size
	case v.kernel == gpu.Lamport: // loaded, stored at all other ranks and loaded there, each word with a flag
		elements, readers = count*(4*n*(n-1)+2*n), 1
	case v.kernel == gpu.Push:
		elements, readers = 2*n*count, 1
	default:
		elements, readers = count*(n*n+n), size
	}
	if v.outOfPlace && p.InPlace { // the input is copied first
		elements += 2 * n * count
	}
	return elements, readers
}

// copySpeed returns the speed of the GPU's memory: the bytes read and written per microsecond in the best
// of several copies that exceed the cache.
func (d *device) copySpeed() (float64, error) {
	return d.copyProbe.measure(d, (*measurement).measureCopy)
}

// cacheSpeed returns the speed of the cache: the bytes loaded and stored per microsecond in the best of
// several reads, reads of the same data by several readers, and copies, of data that stays in the cache.
func (d *device) cacheSpeed(readers int) (float64, error) {
	alone, err := d.cacheProbes[0].measure(d, func(b *measurement) (float64, error) { return b.measureCache(1) })
	if err != nil || readers < 2 {
		return alone, err
	}
	together, err := d.cacheProbes[readers-1].measure(d, func(b *measurement) (float64, error) {
		return b.measureCache(readers)
	})
	return max(alone, together), err
}

// probe is a speed that is measured once.
type probe struct {
	sync.Once
	speed float64
	err   error
}

// measure returns the speed, which it measures at the first call.
func (p *probe) measure(d *device, measure func(*measurement) (float64, error)) (float64, error) {
	p.Do(func() {
		p.err = d.Do(func() (err error) {
			m := measurement{device: d}
			defer func() { err = errors.Join(err, m.close()) }()
			if err := m.open(); err != nil {
				return err
			}
			p.speed, err = measure(&m)
			return err
		})
	})
	return p.speed, p.err
}

const (
	probeRepeats  = 5
	minProbeBytes = 16 << 20 // of a copy, however small the cache is
)

// measurement holds the resources of one speed measurement.
type measurement struct {
	*device
	cache  int // size of the L2 cache in bytes
	stream *cuda.Stream
	events [2]*cuda.Event // before and after the timed work
	memory []cuda.Pointer // freed by close
}

func (b *measurement) open() (err error) {
	if b.cache, err = b.Device().Get(cuda.L2Bytes); err != nil {
		return err
	}
	if b.stream, err = b.Stream(); err != nil {
		return err
	}
	b.events, err = b.newEvents()
	return err
}

// newEvents returns two events, to be recorded before and after timed work.
func (d *device) newEvents() (events [2]*cuda.Event, err error) {
	for i := range events {
		if events[i], err = d.Event(); err != nil {
			return events, err
		}
	}
	return events, nil
}

// alloc returns zeroed memory that close frees.
func (b *measurement) alloc(bytes int) (cuda.Pointer, error) {
	p, err := b.Alloc(bytes)
	if err == nil {
		b.memory = append(b.memory, p)
		err = b.Fill(p, 0, bytes)
	}
	return p, err
}

// best times start, which moves the given bytes, several times and returns the highest speed.
func (b *measurement) best(bytes int, start func() error) (speed float64, err error) {
	for range probeRepeats {
		if err := errors.Join(b.events[0].Record(b.stream), start(), b.events[1].Record(b.stream),
			b.stream.Synchronize()); err != nil {
			return 0, err
		}
		us, err := b.events[1].Since(b.events[0])
		if err != nil {
			return 0, err
		}
		if us > 0 {
			speed = max(speed, float64(bytes)/us)
		}
	}
	if speed == 0 {
		return 0, errors.New("the GPU's timer did not advance")
	}
	return speed, nil
}

func (b *measurement) close() error {
	faults := lists.Map(b.memory, b.Free)
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

// measureCopy times copies of memory much larger than the cache.
func (b *measurement) measureCopy() (float64, error) {
	const copies = 8 // per sample, so that the time to start them does not matter
	bytes := max(minProbeBytes, 4*b.cache)
	from, err := b.alloc(bytes)
	if err != nil {
		return 0, err
	}
	to, err := b.alloc(bytes)
	if err != nil {
		return 0, err
	}
	return b.best(2*bytes*copies, func() error {
		var faults []error
		for range copies {
			faults = append(faults, b.stream.Copy(to, from, bytes))
		}
		return errors.Join(faults...)
	})
}

const (
	cacheThreads = 512  // per block
	cacheRounds  = 1024 // takes about a millisecond on an H200
)

// measureCache times loads, and loads with stores, of memory that is at most an eighth of the cache. The
// L2 of some GPUs has two halves, and data in the far half takes longer; a small part stays near.
func (b *measurement) measureCache(readers int) (speed float64, err error) {
	grid := max(readers, 2*b.multiprocessors/readers*readers)
	own := grid / readers * cacheThreads * gpu.CacheFlight
	p := &gpu.CacheParams{Packs: uint64(min(own, max(1, b.cache/8/packBytes))), Rounds: cacheRounds,
		Readers: uint32(readers)}
	memory, err := b.alloc(2*int(p.Packs)*packBytes + packBytes)
	if err != nil {
		return 0, err
	}
	p.Memory, p.Sink = uint64(memory), uint64(memory)+2*p.Packs*packBytes
	for _, k := range []struct {
		name     string
		accesses int // per pack
	}{{gpu.CacheRead, 1}, {gpu.CacheCopy, 2}} {
		kernel, err := b.kernel(gpu.Cache, k.name, false)
		if err != nil {
			return 0, err
		}
		bytes := k.accesses * grid * cacheThreads * gpu.CacheFlight * packBytes * cacheRounds
		launch := cuda.NewLaunch(kernel, grid, cacheThreads, 0, false, p)
		found, err := b.best(bytes, func() error { return launch.Start(b.stream) })
		if err != nil {
			return 0, err
		}
		speed = max(speed, found)
	}
	return speed, b.checkPlausible(speed)
}

// checkPlausible returns an error if a cache speed, in bytes per microsecond, exceeds what the
// multiprocessors can receive: 128 bytes each per cycle. Then the compiler has removed the loads.
func (b *measurement) checkPlausible(speed float64) error {
	rate, err := b.Device().Get(cuda.ClockRate)
	if maxSpeed := float64(b.multiprocessors) * 128 * float64(rate) / 1e3; err == nil && rate > 0 && speed > maxSpeed {
		return fmt.Errorf("measured %.0f GB/s, more than the %.0f GB/s that %d multiprocessors at %d MHz can receive",
			speed/1e3, maxSpeed/1e3, b.multiprocessors, rate/1000)
	}
	return nil
}
