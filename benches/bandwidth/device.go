package bandwidth

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/collectives"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpustream"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// gpu is the first GPU with the memory of an operation. Its methods must run inside of cuda.Context.Do.
type gpu struct {
	*cuda.Context
	streams [2]*cuda.Stream // the second one is used for the other direction of "both"
	events  [3]*cuda.Event
	memory  []cuda.Pointer
	pinned  []*cuda.Shared
	size    int64
}

// onDevice prepares an operation on the first GPU.
func onDevice(s *bench.State) (*work, error) {
	var context *cuda.Context
	list, err := visible()
	if err == nil {
		context, err = list[0].Context()
	}
	if err != nil {
		return nil, bench.NotExecuted(false, "%v", err)
	}
	s.Detail(journal.DeviceDetail, context.Device().Name)
	collectives.Observe(s, context.Device(), "before")
	g := &gpu{Context: context, size: s.Value("size").Int()}
	op := s.Str("op")
	var w *work
	err = g.Do(func() (err error) {
		if err := g.open(); err != nil {
			return err
		}
		switch {
		case slices.Contains(transfers, op):
			w, err = g.transfer(op, s.Seed())
		case op == deviceToDevice:
			w, err = g.copyEngine(s.Seed())
		case op == chase:
			w, err = g.chase(s.Seed())
		default:
			w, err = g.loop(op, s.Seed())
		}
		return err
	})
	if err != nil {
		g.close()
		if cuda.Code(err) == cuda.CodeOutOfMemory {
			return nil, bench.NotExecuted(false, "arrays of %d bytes do not fit: %v", g.size, err)
		}
		return nil, err
	}
	check := w.check
	w.check = func() error { return g.Do(check) }
	w.close = g.close
	if !slices.Contains(transfers, op) && !g.cached(w.bytes) {
		w.peak = context.Device().PeakBandwidth()
	}
	return w, nil
}

// cached reports whether a notable part of an operation's bytes can stay in the GPU's cache from one call to the next.
// Such calls may be faster than the memory.
func (g *gpu) cached(bytes int64) bool {
	cache, err := g.Device().Get(cuda.L2Bytes)
	return err == nil && bytes < 2*int64(cache)
}

// visible lists the GPUs of this process, at least one.
func visible() ([]*cuda.Device, error) {
	driver, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	list, err := driver.Devices()
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%v has no GPU for this process", driver)
	}
	return list, nil
}

func (g *gpu) open() (err error) {
	for i := 0; i < len(g.streams) && err == nil; i++ {
		g.streams[i], err = g.Stream()
	}
	for i := 0; i < len(g.events) && err == nil; i++ {
		g.events[i], err = g.Event()
	}
	return err
}

// close releases everything. Errors are ignored, because the process is about to end or the GPU is lost.
func (g *gpu) close() {
	_ = g.Do(func() error {
		for _, p := range g.memory {
			_ = g.Free(p)
		}
		for _, p := range g.pinned {
			_ = p.Free()
		}
		for _, e := range g.events {
			if e != nil {
				_ = e.Destroy()
			}
		}
		for _, s := range g.streams {
			if s != nil {
				_ = s.Destroy()
			}
		}
		return nil
	})
}

// spoiltMemory allocates device memory and sets all its bytes to spoilt.
func (g *gpu) spoiltMemory(bytes int) (cuda.Pointer, error) {
	p, err := g.Alloc(bytes)
	if err != nil {
		return 0, err
	}
	g.memory = append(g.memory, p)
	return p, g.Fill(p, spoilt, bytes)
}

// array allocates device memory and fills it with a repeated pattern, or with the byte spoilt if contents is nil.
func (g *gpu) array(contents []byte) (cuda.Pointer, error) {
	p, err := g.spoiltMemory(int(g.size))
	if err != nil || contents == nil {
		return p, err
	}
	for first := int64(0); first < g.size; first += blockBytes {
		if err := g.Write(p+cuda.Pointer(first), contents[:min(blockBytes, g.size-first)]); err != nil {
			return 0, err
		}
	}
	return p, nil
}

// spoilt is the value of every byte of a result that has not been written yet.
const spoilt = 0xff

// checkArray compares an array on the GPU and spoils it.
func (g *gpu) checkArray(p cuda.Pointer, want []byte) error {
	got := make([]byte, len(want))
	for first := int64(0); first < g.size; first += blockBytes {
		part := got[:min(blockBytes, g.size-first)]
		if err := g.Read(part, p+cuda.Pointer(first)); err != nil {
			return err
		}
		if err := compare(part, want, first); err != nil {
			return err
		}
	}
	return g.Fill(p, spoilt, int(g.size))
}

// hostArray allocates host memory and fills it like array.
func (g *gpu) hostArray(pinned bool, contents []byte) (b []byte, err error) {
	if pinned {
		p, err := g.Share(int(g.size))
		if err != nil {
			return nil, err
		}
		g.pinned = append(g.pinned, p)
		b = p.Bytes
	} else {
		b = make([]byte, g.size)
	}
	fillBytes(b, contents)
	return b, nil
}

// spoiltBlock fills results that have not been written yet.
var spoiltBlock = bytes.Repeat([]byte{spoilt}, 1<<20)

func fillBytes(b, contents []byte) {
	for len(b) > 0 {
		b = b[copy(b, contents):]
	}
}

// transfer prepares copies between host and device.
func (g *gpu) transfer(op string, seed uint64) (*work, error) {
	pinned := op != pageableUp && op != pageableDown
	up, down := block(g.size, seed), block(g.size, seed+1)
	from, err := g.hostArray(pinned, up)
	if err != nil {
		return nil, err
	}
	to, err := g.hostArray(pinned, spoiltBlock)
	if err != nil {
		return nil, err
	}
	target, err := g.array(nil)
	if err != nil {
		return nil, err
	}
	source, err := g.array(down)
	if err != nil {
		return nil, err
	}
	upload := func(s *cuda.Stream) error { return s.Upload(target, from) }
	download := func(s *cuda.Stream) error { return s.Download(to, source) }
	checkUp := func() error { return g.checkArray(target, up) }
	checkDown := func() error {
		err := compareAll(to, down)
		fillBytes(to, spoiltBlock)
		return err
	}
	switch op {
	case hostToDevice, pageableUp:
		return g.timed(func() error { return upload(g.streams[0]) }, checkUp, g.size), nil
	case deviceToHost, pageableDown:
		return g.timed(func() error { return download(g.streams[0]) }, checkDown, g.size), nil
	}
	return g.timed(func() error { return errors.Join(download(g.streams[1]), upload(g.streams[0])) },
		func() error { return errors.Join(checkUp(), checkDown()) }, 2*g.size), nil
}

// timed returns the work whose calls start launches. moved is the number of bytes that a call moves. A call may use
// both streams. They begin a sample together, and its end waits for both; in between, neither waits for the other.
func (g *gpu) timed(start func() error, check func() error, moved int64) *work {
	begin, end, second := g.events[0], g.events[1], g.events[2]
	first, other := g.streams[0], g.streams[1]
	sample := func(calls int) (us float64, err error) {
		err = g.Do(func() error {
			if err := errors.Join(begin.Record(first), other.Wait(begin)); err != nil {
				return err
			}
			for range calls {
				if err := start(); err != nil {
					return err
				}
			}
			if err := errors.Join(second.Record(other), first.Wait(second), end.Record(first), first.Synchronize()); err != nil {
				return err
			}
			us, err = end.Since(begin)
			return err
		})
		return us, err
	}
	return &work{sample: sample, check: check, bytes: moved,
		call: func() error { _, err := sample(1); return err }}
}

// copyEngine prepares copies within the GPU. The driver chooses whether a copy engine or a kernel performs them.
func (g *gpu) copyEngine(seed uint64) (*work, error) {
	contents := block(g.size, seed)
	from, err := g.array(contents)
	if err != nil {
		return nil, err
	}
	to, err := g.array(nil)
	if err != nil {
		return nil, err
	}
	return g.timed(func() error { return g.streams[0].Copy(to, from, int(g.size)) },
		func() error { return g.checkArray(to, contents) }, 2*g.size), nil
}

// loop prepares a loop over arrays.
func (g *gpu) loop(op string, seed uint64) (*work, error) {
	kernels, err := gpustream.New(g.Context)
	if err != nil {
		return nil, err
	}
	a, b := block(g.size, seed), block(g.size, seed+1)
	p := &gpustream.Params{Packs: uint64(g.size / gpustream.PackBytes), Scalar: scalar}
	if op != write {
		if p.A, err = g.array(a); err != nil {
			return nil, err
		}
	}
	if arraysOf(op) == 3 {
		if p.B, err = g.array(b); err != nil {
			return nil, err
		}
	}
	var check func() error
	if op == read {
		p.Sums, err = g.spoiltMemory(8 * kernels.Blocks)
		check = func() error { return g.checkWords(p.Sums, kernels.Blocks, sumOf(a, g.size)) }
	} else {
		p.C, err = g.array(nil)
		want := expected(op, a, b)
		check = func() error { return g.checkArray(p.C, want) }
	}
	if err != nil {
		return nil, err
	}
	launch, err := kernels.Launch(op, p)
	if err != nil {
		return nil, err
	}
	return g.timed(func() error { return launch.Start(g.streams[0]) }, check, g.size*arraysOf(op)), nil
}

// checkWords compares the sum of words and spoils them.
func (g *gpu) checkWords(p cuda.Pointer, n int, want uint64) error {
	raw, parts := make([]byte, 8*n), make([]uint64, n)
	if err := g.Read(raw, p); err != nil {
		return err
	}
	for i := range parts {
		parts[i] = binary.LittleEndian.Uint64(raw[8*i:])
	}
	return errors.Join(checkSum(parts, want), g.Fill(p, spoilt, 8*n))
}

// chase prepares dependent loads by one thread.
func (g *gpu) chase(seed uint64) (*work, error) {
	kernels, err := gpustream.New(g.Context)
	if err != nil {
		return nil, err
	}
	c, lines := newChain(g.size, seed)
	at, err := g.spoiltMemory(len(lines))
	if err != nil {
		return nil, err
	}
	if err := g.Write(at, lines); err != nil {
		return nil, err
	}
	p := &gpustream.Params{A: at, Hops: uint64(c.hops)}
	if p.Sums, err = g.spoiltMemory(8); err != nil {
		return nil, err
	}
	launch, err := kernels.Launch(chase, p)
	if err != nil {
		return nil, err
	}
	start := func() error {
		c.count()
		err := launch.Start(g.streams[0])
		if c.long { // line 0 leads to the line at the end; the copy takes microseconds, the loads milliseconds
			err = errors.Join(err, g.streams[0].Copy(p.A, p.Sums, 8))
		}
		return err
	}
	w := g.timed(start, func() error { return g.checkWords(p.Sums, 1, uint64(c.last)) }, 0)
	w.hops = c.hops
	return w, nil
}
