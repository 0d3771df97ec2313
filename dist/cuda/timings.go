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
	// sampleUS is about how long a sample lasts, so that what launch and events add to it
	// is lost in the calls.
	sampleUS = 3000
	// A sample has at least fewCalls, and at most manyCalls unless more buffers are used
	// in turn.
	fewCalls, manyCalls = 4, 4096
	// graphCalls are in a graph.
	graphCalls = 48
)

// Timings are three ways to time an all-reduce that is done by one launch: many calls in
// one launch, on the call's own buffers and on many in turn, and a graph of launches.
func (e *engine) Timings(p dist.Plan) ([]instrument.Timing, error) {
	if p.Op != dist.AllReduce || p.Count == 0 || p.Epilogue != nil {
		return nil, nil
	}
	c, err := e.newCall(p)
	if err != nil {
		return nil, err
	}
	w := c.way()
	if c.staged || w.own || w.bits > 0 || e.fault != "" || c.piece < p.Count || w.apart && p.InPlace {
		return nil, nil // it takes copies or several launches
	}
	if w.switched {
		if err := c.meet(); err != nil || !c.direct {
			return nil, err // copies again
		}
	}
	t := &timer{call: c, way: w}
	err = e.device.Do(func() error {
		for i := range t.events {
			if t.events[i], err = e.device.Event(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	bytes := maxBlocks * gpu.FlagBytes
	if w.kernel == gpu.Lamport {
		bytes = 2 * lamportSlot(e.size)
	}
	if t.flags, err = e.allocate("the flags of a graph", bytes); err != nil {
		return nil, err
	}
	cold := *t
	if err := cold.rotate(); err != nil {
		return nil, err
	}
	limit, what, err := cold.limit()
	if err != nil {
		return nil, err
	}
	return []instrument.Timing{
		{Name: "kernel_us", Help: "calls inside one launch, on the same buffers", Sample: t.inLaunch, Close: nothing},
		{Name: "kernel_cold_us", Help: "calls inside one launch, on buffers in turn that are twice the cache together",
			Sample: cold.inLaunch, Check: cold.check, LimitUS: limit, Limit: what, Close: cold.free},
		{Name: "graph_us", Help: "calls that a graph launches one after the other", Sample: t.inGraph, Close: t.close},
	}, nil
}

func nothing() error { return nil }

// timer times a call.
type timer struct {
	*call
	way    way
	events [2]*cuda.Event
	calls  int // of a sample; 0: not yet known

	rotation, stride int // of the buffers in turn
	in, out          *allocation
	filled           bool

	flags *allocation // of the graph; of Lamport, the slots, whose words have flags
	graph *cuda.Graph
}

// inLaunch is the time of a call among many of one launch.
func (t *timer) inLaunch() (us float64, err error) {
	err = t.e.device.Do(func() error {
		if t.calls == 0 {
			if err := t.settle(); err != nil {
				return err
			}
		}
		us, err = t.launched(t.calls)
		return err
	})
	return us, err
}

// settle decides how many calls a sample has. Rank 0's time decides for all.
func (t *timer) settle() error {
	us, err := t.launched(fewCalls)
	if err != nil {
		return err
	}
	all, err := t.e.agreement.AllGather("the time of a call", binary.LittleEndian.AppendUint64(nil, math.Float64bits(us)))
	if err != nil {
		return err
	}
	us = math.Float64frombits(binary.LittleEndian.Uint64(all[0]))
	t.calls = max(fewCalls, min(manyCalls, int(sampleUS/max(us, 0.1))), t.rotation)
	return nil
}

// launched makes one launch of so many calls and gives the time of one.
func (t *timer) launched(calls int) (us float64, err error) {
	if err := t.ready(); err != nil {
		return 0, err
	}
	t.count(uint32(calls))
	us, err = t.timed(func() error { return t.launch.Start(t.e.stream) })
	return us / float64(calls), err
}

// ready meets the other ranks and completes the argument.
func (t *timer) ready() error {
	if t.rotation > 1 && !t.filled {
		if err := t.fill(); err != nil {
			return t.e.broken(t.label.Text(), err)
		}
	}
	if err := t.meet(); err != nil {
		return err
	}
	if err := t.gather(t.way, 0, 0); err != nil {
		return err
	}
	t.params.Count, t.params.Base = uint64(t.plan.Count), 0
	if t.rotation > 1 {
		t.params.Rotation, t.params.Stride = uint32(t.rotation), uint64(t.stride)
		for r := range t.e.size {
			t.params.In[r], t.params.Out[r] = uint64(t.in.at[r]), uint64(t.out.at[r])
		}
		if t.way.switched {
			t.params.In[0], t.params.Out[0] = uint64(t.in.multi.All), uint64(t.out.multi.All)
		}
	}
	return nil
}

// timed has the device time what is started.
func (t *timer) timed(start func() error) (us float64, err error) {
	e := t.e
	if e.launches() {
		if err := errors.Join(t.events[0].Record(e.stream), start(), t.events[1].Record(e.stream)); err != nil {
			return 0, e.broken(t.label.Text(), err)
		}
	}
	if err := t.ended(); err != nil || !e.launches() {
		return 0, err
	}
	return t.events[1].Since(t.events[0])
}

// inGraph is the time of a call in a graph. The launches' numbers are part of the graph,
// so they meet on flags of their own, which are at zero whenever it starts.
func (t *timer) inGraph() (us float64, err error) {
	err = t.e.device.Do(func() error {
		if err := t.e.device.Fill(t.flags.at[t.e.rank], 0, t.flags.bytes); err != nil {
			return err
		}
		if err := t.ready(); err != nil {
			return err
		}
		if t.e.launches() && t.graph == nil {
			if err := t.record(); err != nil {
				return t.e.broken(t.label.Text(), err)
			}
		}
		us, err = t.timed(func() error { return t.graph.Start(t.e.stream) })
		us /= graphCalls
		return err
	})
	return us, err
}

// record makes the graph.
func (t *timer) record() (err error) {
	flags, scratch := t.params.Flags, t.params.Scratch
	defer func() { t.params.Flags, t.params.Scratch = flags, scratch }()
	for r := range t.e.size {
		t.params.Flags[r] = uint64(t.flags.at[r])
		if t.way.kernel == gpu.Lamport {
			t.params.Scratch[r] = t.params.Flags[r]
		}
	}
	t.params.Iterations = 1
	t.graph, err = t.e.stream.Capture(func() error {
		for i := range uint32(graphCalls) {
			t.params.Epoch = t.each * i
			if err := t.launch.Start(t.e.stream); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// rotate makes buffers of which a launch's calls use one after the other, as many as are
// twice the cache together, so that no call finds its elements there.
func (t *timer) rotate() error {
	cache, err := t.e.device.Device().Get(cuda.L2Bytes)
	if err != nil {
		return err
	}
	width := t.plan.DType.Size()
	t.stride = (t.plan.Count*width + 255) &^ 255
	all := unique(t.plan, t.e.size) * width
	if t.plan.InPlace {
		all /= 2
	}
	if t.rotation = (2*cache + all - 1) / all; t.rotation == 1 {
		return nil
	}
	if t.in, err = t.e.allocateForAll("buffers in turn", t.rotation*t.stride); err != nil {
		return err
	}
	if t.out = t.in; !t.plan.InPlace {
		t.out, err = t.e.allocateForAll("buffers in turn", t.rotation*t.stride)
	}
	if err == nil && t.way.switched && (t.in.multi == nil || t.out.multi == nil) {
		err = errors.New("there is no multicast memory left for buffers in turn")
	}
	return err
}

// fill gives all buffers the call's input.
func (t *timer) fill() error {
	e := t.e
	for i := range t.rotation {
		if err := e.stream.Copy(t.in.at[e.rank]+cuda.Pointer(i*t.stride), t.call.in.pointer(e.rank),
			t.plan.Count*t.plan.DType.Size()); err != nil {
			return err
		}
	}
	t.filled = true
	return e.stream.Synchronize()
}

// check makes the call itself, whose result what was timed must have too: in the first,
// the middle and the last of the buffers.
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
			return fmt.Errorf("rank %d: buffer %d of %d, which calls in one launch use in turn, has another result than "+
				"the call alone", rank, i, t.rotation)
		}
	}
	return nil
}

// limit is the least time of a call whose elements are not in the cache. Rank 0 measures
// the speed of a copy while the others wait.
func (t *timer) limit() (us float64, what string, err error) {
	if t.e.rank == 0 && t.e.sharing == t.e.size {
		us, what, err = t.e.coldLimit(t.plan)
	}
	return us, what, errors.Join(err, t.e.agreement.Check(measured))
}

var measured = shm.NewLabel("what limits a call")

func (t *timer) free() error {
	for _, a := range []*allocation{t.in, t.out} {
		if a != nil {
			a.freed = true
		}
	}
	return nil
}

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
