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

// Limits is what the GPU's memory and its cache allow where all ranks share it: every byte
// of their buffers is read or written once, but for those that the cache can hold, at the
// speed of a copy within the GPU; and every access of the algorithm goes through the cache.
// Both speeds were measured beside this call. What goes between GPUs, or through the host,
// has no limit here.
func (*engine) Limits(p dist.Plan) ([]instrument.Limit, error) {
	a, ours := p.In.Memory().(*allocation)
	if !ours {
		a, ours = p.Out.Memory().(*allocation)
	}
	if !ours || p.Op == dist.Barrier {
		return nil, nil
	}
	e := a.e
	if e.sharing != e.size {
		return nil, nil // links limit it, which nothing here has measured
	}
	capacity, err := e.device.Device().Get(cuda.L2Bytes)
	if err != nil {
		return nil, err
	}
	l, err := e.limitsOf(p, capacity)
	if err != nil {
		return nil, err
	}
	return []instrument.Limit{{Name: "memory", US: l.memory.us()}, {Name: "cache", US: l.cache.us()}}, nil
}

// coldLimit is the limit of a call whose buffers are not in the cache, and what it is.
func (e *engine) coldLimit(p dist.Plan) (us float64, what string, err error) {
	l, err := e.limitsOf(p, 0)
	return max(l.memory.us(), l.cache.us()), fmt.Sprintf("memory: %v; cache: %v",
		l.memory.text("all ranks' buffers", "a copy"), l.cache.text("accesses", "the cache")), err
}

// limits are the least times of a call by what must be moved.
type limits struct{ memory, cache volume }

// volume is bytes, and how many of them go in a microsecond.
type volume struct{ bytes, speed float64 }

func (v volume) us() float64 {
	if v.speed == 0 {
		return 0
	}
	return v.bytes / v.speed
}

func (v volume) text(what, how string) string {
	return fmt.Sprintf("%.4g MB of %s at %.0f GB/s of %s: %.4g us", v.bytes/1e6, what, v.speed/1e3, how, v.us())
}

// limitsOf finds them where so many bytes of the buffers may be in the cache.
func (e *engine) limitsOf(p dist.Plan, cached int) (l limits, err error) {
	width := p.DType.Size()
	if bytes := unique(p, e.size)*width - cached; bytes > 0 {
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

// unique is how many elements all ranks' buffers have, inputs and outputs; in place,
// memory is read and written.
func unique(p dist.Plan, ranks int) int {
	switch p.Op {
	case dist.AllGather, dist.ReduceScatter, dist.Broadcast, dist.Reduce:
		return p.Count + ranks*p.Count
	case dist.Gather, dist.Scatter:
		return 2 * p.Count
	}
	if p.Op == dist.AllToAll && p.Counts != nil {
		return 2 * p.Count // which is of all ranks then
	}
	return 2 * ranks * p.Count
}

// accesses is how many elements all ranks load and store at least, and how many of them
// load the same ones at about the same time, which the GPU can answer at once.
func accesses(p dist.Plan, size int) (elements float64, readers int) {
	n, count := float64(size), float64(p.Count)
	switch p.Op {
	case dist.AllReduce:
	case dist.AllGather, dist.Broadcast:
		return 2 * n * count, size
	default:
		return float64(unique(p, size)), 1
	}
	w := wayOf(p)
	switch {
	case w.bits > 0: // encoded, stored at the owner, loaded there, stored at all and loaded again
		encoded := (float64(w.bits)/8 + 4./quant.Group) / float64(p.DType.Size())
		elements, readers = n*count*(2+4*encoded), 1
	case w.own: // copied by every rank, and then added up
		elements, readers = count*(3*n*n+n), size
	case w.kernel == gpu.Pull:
		elements, readers = count*(3*n+1), size
	case w.kernel == gpu.Lamport: // loaded, stored at all others and loaded there, each word with a flag
		elements, readers = count*(4*n*(n-1)+2*n), 1
	case w.kernel == gpu.Push:
		elements, readers = 2*n*count, 1
	default:
		elements, readers = count*(n*n+n), size
	}
	if w.apart && p.InPlace { // copied first
		elements += 2 * n * count
	}
	return elements, readers
}

// copySpeed is how many bytes a microsecond are read and written in the best of some
// copies of memory beyond the caches, measured once.
func (d *device) copySpeed() (float64, error) { return d.copies.of(d, measureCopy) }

// cacheSpeed is how many bytes a microsecond are loaded and stored of memory that stays in
// the cache: in the best of some reads, of reads by several of the same, and of copies.
func (d *device) cacheSpeed(readers int) (float64, error) {
	alone, err := d.caches[0].of(d, func(b *bench) (float64, error) { return b.measureCache(1) })
	if err != nil || readers < 2 {
		return alone, err
	}
	together, err := d.caches[readers-1].of(d, func(b *bench) (float64, error) { return b.measureCache(readers) })
	return max(alone, together), err
}

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
		return 0, errors.New("the device's clock stands still")
	}
	return speed, nil
}

func (b *bench) close() error {
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

const (
	cacheThreads = 512
	cacheRounds  = 1024 // about a millisecond on a GPU of 2023
)

// measureCache times loads, and loads and stores, of memory that is a small part of the
// cache: half of some caches is further away than the other half.
func (b *bench) measureCache(readers int) (speed float64, err error) {
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
		accesses int // of a pack
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
	return speed, b.plausible(speed)
}

// plausible refuses a speed of the cache, in bytes a microsecond, that the multiprocessors cannot
// take in: 128 bytes each in a cycle. Then the kernel did not do what it was timed for.
func (b *bench) plausible(speed float64) error {
	rate, err := b.Device().Get(cuda.ClockRate)
	if most := float64(b.multiprocessors) * 128 * float64(rate) / 1e3; err == nil && rate > 0 && speed > most {
		return fmt.Errorf("%.0f GB/s were found, more than the %.0f GB/s that %d multiprocessors at %d MHz can take in",
			speed/1e3, most/1e3, b.multiprocessors, rate/1000)
	}
	return nil
}
