package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
)

const (
	// sampleUS is the approximate duration of a sample in µs. It is long enough to make the overhead of
	// launch and events negligible.
	sampleUS = 3000
	// minCalls and maxCalls limit the calls of a sample. There are more if more buffers are rotated.
	minCalls, maxCalls = 4, 4096
	// graphCalls is the number of launches in a graph.
	graphCalls = 48
)

// Timings returns three ways to time an all-reduce that consists of one launch: many calls in one launch,
// on the call's own buffers; the same on many buffers in rotation, so that the cache is cold; and a CUDA
// graph of launches.
func (e *engine) Timings(p dist.Plan) ([]instrument.Timing, error) {
	if p.Op != dist.AllReduce || p.Count == 0 || p.Epilogue != nil {
		return nil, nil
	}
	c, err := e.newCall(p)
	if err != nil {
		return nil, err
	}
	v := c.variant()
	if c.staged || v.copiesInputs || v.bits > 0 || e.fault != "" || c.piece < p.Count || v.outOfPlace && p.InPlace {
		return nil, nil // needs copies or several launches
	}
	if v.inSwitch {
		if err := c.exchangeAddresses(); err != nil || !c.direct {
			return nil, err // needs copies
		}
	}
	t := &timer{call: c, variant: v}
	if err := e.device.Do(func() (err error) { t.events, err = e.device.newEvents(); return err }); err != nil {
		return nil, err
	}
	bytes := maxBlocks * gpu.FlagBytes
	if v.kernel == gpu.Lamport {
		bytes = 2 * lamportSlot(e.size)
	}
	if t.flags, err = e.allocate("the flags of a graph", bytes); err != nil {
		return nil, err
	}
	cold := *t
	if err := cold.allocateRotation(); err != nil {
		return nil, err
	}
	limit, what, err := cold.limit()
	if err != nil {
		return nil, err
	}
	return []instrument.Timing{
		{Name: "kernel_us", Help: "calls inside one launch, on the same buffers", Sample: t.sampleLaunch,
			Close: func() error { return nil }},
		{Name: "kernel_cold_us", Help: "calls inside one launch, rotating through buffers that are together twice the cache",
			Sample: cold.sampleLaunch, Check: cold.check, LimitUS: limit, Limit: what, Close: cold.free},
		{Name: "graph_us", Help: "launches in a CUDA graph, one after the other", Sample: t.sampleGraph, Close: t.close},
	}, nil
}

// timer times a call on the GPU.
type timer struct {
	*call
	variant variant
	events  [2]*cuda.Event
	calls   int // calls per sample; 0 until chooseCalls

	rotation, stride int // number of rotating buffers, and their distance in bytes
	in, out          *allocation
	filled           bool // the rotating inputs are filled

	flags *allocation // flags for the graph; for Lamport, slots, whose words contain flags
	graph *cuda.Graph
}

// sampleLaunch returns the time of one call among many in one launch.
func (t *timer) sampleLaunch() (us float64, err error) {
	err = t.e.device.Do(func() error {
		if t.calls == 0 {
			if err := t.chooseCalls(); err != nil {
				return err
			}
		}
		us, err = t.timeLaunch(t.calls)
		return err
	})
	return us, err
}

// chooseCalls sets the number of calls per sample from a short measurement. All ranks use rank 0's time.
func (t *timer) chooseCalls() error {
	us, err := t.timeLaunch(minCalls)
	if err != nil {
		return err
	}
	all, err := t.e.Checker.AllGather("the time of a call", binary.LittleEndian.AppendUint64(nil, math.Float64bits(us)))
	if err != nil {
		return err
	}
	us = math.Float64frombits(binary.LittleEndian.Uint64(all[0]))
	t.calls = max(minCalls, min(maxCalls, int(sampleUS/max(us, 0.1))), t.rotation)
	return nil
}

// timeLaunch makes one launch with the given number of calls and returns the time of one call.
func (t *timer) timeLaunch(calls int) (us float64, err error) {
	if err := t.prepareLaunch(); err != nil {
		return 0, err
	}
	t.advanceEpoch(uint32(calls))
	us, err = t.timeOnGPU(func() error { return t.launch.Start(t.e.stream) })
	return us / float64(calls), err
}

// prepareLaunch exchanges addresses with the other ranks and completes the kernel's parameters.
func (t *timer) prepareLaunch() error {
	if t.rotation > 1 && !t.filled {
		if err := t.fill(); err != nil {
			return t.e.fail(t.label.Text(), err)
		}
	}
	if err := t.exchangeAddresses(); err != nil {
		return err
	}
	if err := t.setBuffers(t.variant, 0, 0); err != nil {
		return err
	}
	t.setRange(0, t.plan.Count)
	if t.rotation > 1 {
		t.params.Rotation, t.params.Stride = uint32(t.rotation), uint64(t.stride)
		for r := range t.e.size {
			t.params.In[r], t.params.Out[r] = uint64(t.in.addr[r]), uint64(t.out.addr[r])
		}
		if t.variant.inSwitch {
			t.params.In[0], t.params.Out[0] = uint64(t.in.multicast.Multicast), uint64(t.out.multicast.Multicast)
		}
	}
	return nil
}

// timeOnGPU returns the GPU time of the work that start starts, or 0 on ranks that do not launch kernels.
func (t *timer) timeOnGPU(start func() error) (us float64, err error) {
	e := t.e
	if e.launches() {
		if err := errors.Join(t.events[0].Record(e.stream), start(), t.events[1].Record(e.stream)); err != nil {
			return 0, e.fail(t.label.Text(), err)
		}
	}
	if err := t.awaitLaunch(); err != nil || !e.launches() {
		return 0, err
	}
	return t.events[1].Since(t.events[0])
}

// sampleGraph returns the time of one call in a graph. The epochs are fixed in the graph, so its launches
// use separate flags, which are reset before every start.
func (t *timer) sampleGraph() (us float64, err error) {
	err = t.e.device.Do(func() error {
		if err := t.e.device.Fill(t.flags.addr[t.e.rank], 0, t.flags.bytes); err != nil {
			return err
		}
		if err := t.prepareLaunch(); err != nil {
			return err
		}
		if t.e.launches() && t.graph == nil {
			if err := t.captureGraph(); err != nil {
				return t.e.fail(t.label.Text(), err)
			}
		}
		us, err = t.timeOnGPU(func() error { return t.graph.Start(t.e.stream) })
		us /= graphCalls
		return err
	})
	return us, err
}

// captureGraph records the launches in a graph.
func (t *timer) captureGraph() (err error) {
	flags, scratch := t.params.Flags, t.params.Scratch
	defer func() { t.params.Flags, t.params.Scratch = flags, scratch }()
	for r := range t.e.size {
		t.params.Flags[r] = uint64(t.flags.addr[r])
		if t.variant.kernel == gpu.Lamport {
			t.params.Scratch[r] = t.params.Flags[r]
		}
	}
	t.params.Iterations = 1
	t.graph, err = t.e.stream.Capture(func() error {
		for i := range uint32(graphCalls) {
			t.params.Epoch = t.epochStep * i
			if err := t.launch.Start(t.e.stream); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// allocateRotation allocates the buffers through which the calls of a launch rotate. Together they are
// twice the size of the cache, so that no call finds its elements there.
func (t *timer) allocateRotation() error {
	cache, err := t.e.device.Device().Get(cuda.L2Bytes)
	if err != nil {
		return err
	}
	width := t.plan.DType.Size()
	t.stride = (t.plan.Count*width + 255) &^ 255
	all := bufferElements(t.plan, t.e.size) * width
	if t.plan.InPlace {
		all /= 2
	}
	if t.rotation = (2*cache + all - 1) / all; t.rotation == 1 {
		return nil
	}
	if t.in, err = t.e.allocateMulticast("rotating buffers", t.rotation*t.stride); err != nil {
		return err
	}
	if t.out = t.in; !t.plan.InPlace {
		t.out, err = t.e.allocateMulticast("rotating buffers", t.rotation*t.stride)
	}
	if err == nil && t.variant.inSwitch && (t.in.multicast == nil || t.out.multicast == nil) {
		err = errors.New("there is no multicast memory left for the rotating buffers")
	}
	return err
}

// fill copies the call's input to all rotating buffers.
func (t *timer) fill() error {
	e := t.e
	for i := range t.rotation {
		if err := e.stream.Copy(t.in.addr[e.rank]+cuda.Pointer(i*t.stride), t.call.in.pointer(e.rank),
			t.plan.Count*t.plan.DType.Size()); err != nil {
			return err
		}
	}
	t.filled = true
	return e.stream.Synchronize()
}

// check performs the call itself and compares its result with the timed results in the first, the middle
// and the last rotating buffer.
func (t *timer) check() error {
	if t.rotation == 1 || t.plan.InPlace {
		return nil
	}
	if err := t.run(); err != nil {
		return err
	}
	size, rank := t.plan.Count*t.plan.DType.Size(), t.e.rank
	want, have := make([]byte, size), make([]byte, size)
	if err := t.call.out.Read(want, t.call.out.off); err != nil {
		return err
	}
	for _, i := range []int{0, t.rotation / 2, t.rotation - 1} {
		if err := t.out.Read(have, i*t.stride); err != nil {
			return err
		}
		if !bytes.Equal(have, want) {
			return fmt.Errorf("rank %d: rotating buffer %d of %d has a different result than the call alone", rank, i,
				t.rotation)
		}
	}
	return nil
}

// limit returns the lower bound for a call whose elements are not in the cache. Rank 0 measures the speeds
// while the others wait.
func (t *timer) limit() (us float64, what string, err error) {
	if t.e.rank == 0 && t.e.ranksOnGPU == t.e.size {
		us, what, err = t.e.coldLimit(t.plan)
	}
	return us, what, errors.Join(err, t.e.Checker.Check(limitMeasured))
}

var limitMeasured = shm.NewLabel("what limits a call")

// free frees the rotating buffers.
func (t *timer) free() error {
	for _, a := range []*allocation{t.in, t.out} {
		if a != nil {
			a.freed = true
		}
	}
	return nil
}

// close frees the events, the graph and its flags.
func (t *timer) close() error {
	t.flags.freed = true
	return t.e.device.Do(func() error {
		faults := []error{t.events[0].Destroy(), t.events[1].Destroy()}
		if t.graph != nil {
			faults = append(faults, t.graph.Destroy())
		}
		return errors.Join(faults...)
	})
}
