package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kernbench/kernbench/dist"
)

func init() {
	dist.Register(dist.Description{
		Name:         "threads",
		Help:         "goroutines of one process, which read each other's memory",
		Capabilities: capabilities(),
		InProcess:    true, // one worker process has all ranks
	}, &threads{groups: map[string]*group{}})
}

// capabilities returns what every group can do: sums of f32. Package dist rejects all other calls
// with the reason.
func capabilities() dist.Capabilities {
	return dist.Capabilities{
		Ops:        []dist.Collective{dist.AllReduce, dist.Barrier},
		DTypes:     []dist.DType{dist.F32},
		Reductions: []dist.Reduction{dist.Sum},
	}
}

// threads is the backend. It stores the groups whose ranks are still joining.
type threads struct {
	mu     sync.Mutex
	groups map[string]*group
}

// Join implements dist.Backend.
func (t *threads) Join(_ context.Context, c dist.Config) (dist.Engine, error) {
	t.mu.Lock()
	g := t.groups[c.ID]
	if g == nil {
		g = &group{size: c.Size, inputs: make([][]float32, c.Size)}
		g.moved.L = &g.mu
		t.groups[c.ID] = g
	}
	if g.joined++; g.joined == c.Size {
		delete(t.groups, c.ID) // the ID may be used again
	}
	t.mu.Unlock()
	e := &engine{group: g, rank: c.Rank, timeout: c.Timeout}
	return e, e.meet()
}

// group is the state that all ranks of a group share.
type group struct {
	size, joined int
	inputs       [][]float32 // of the current call, by rank

	mu     sync.Mutex
	moved  sync.Cond
	here   int   // ranks that wait in the current barrier
	round  int   // number of completed barriers
	failed error // the first error; the group stays failed
}

// engine is one rank of a group.
type engine struct {
	*group
	rank    int
	timeout time.Duration
	sum     []float32
}

// meet is a barrier. It returns when all ranks have called it or the group has failed.
func (e *engine) meet() error {
	late := time.AfterFunc(e.timeout, func() { e.Refuse(fmt.Errorf("some ranks did not come within %v", e.timeout)) })
	defer late.Stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	round := e.round
	if e.here++; e.here == e.size {
		e.here, e.round = 0, round+1
		e.moved.Broadcast()
	}
	for e.round == round && e.failed == nil {
		e.moved.Wait()
	}
	if e.round > round { // all ranks came, even if the group has failed afterwards
		return nil
	}
	return e.failed
}

// Prepare implements dist.Engine. Package dist has checked the call.
func (e *engine) Prepare(p dist.Plan) (func() error, error) {
	if p.Op == dist.Barrier {
		return e.meet, nil
	}
	in, out := dist.Slice[float32](p.In), dist.Slice[float32](p.Out)
	return func() error {
		e.inputs[e.rank] = in
		if err := e.meet(); err != nil {
			return err
		}
		e.sum = append(e.sum[:0], e.inputs[0]...)
		for _, other := range e.inputs[1:] {
			for i, x := range other {
				e.sum[i] += x
			}
		}
		if err := e.meet(); err != nil { // nobody overwrites an input that another rank still reads
			return err
		}
		copy(out, e.sum)
		return nil
	}, nil
}

// Refuse implements dist.Engine: it makes the group fail, and waiting ranks return the error.
func (e *engine) Refuse(reason error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failed == nil {
		e.failed = fmt.Errorf("rank %d: %w", e.rank, reason)
	}
	e.moved.Broadcast()
}

func (e *engine) Close() error {
	e.Refuse(errors.New("has left the group"))
	return nil
}

func (e *engine) Rank() int                       { return e.rank }
func (e *engine) Size() int                       { return e.size }
func (e *engine) Capabilities() dist.Capabilities { return capabilities() }

// Alloc implements dist.Engine. Ordinary memory is sufficient.
func (e *engine) Alloc(_ dist.DType, count int) (dist.Buffer, error) {
	return dist.Of(make([]float32, count)), nil
}

func (e *engine) Free(dist.Buffer) error { return nil }

func (e *engine) Split(int, int) (dist.Engine, error) {
	return nil, errors.New("groups of threads cannot be split")
}
