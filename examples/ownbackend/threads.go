package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
		g = &group{size: c.Size, inputs: make([][]float32, c.Size), calls: make([]string, c.Size)}
		g.changed.L = &g.mu
		t.groups[c.ID] = g
	}
	if g.joined++; g.joined == c.Size {
		delete(t.groups, c.ID) // the ID may be used again
	}
	t.mu.Unlock()
	e := &engine{group: g, rank: c.Rank, timeout: c.Timeout}
	e.late = time.AfterFunc(c.Timeout, e.blame)
	return e, e.barrier("join")
}

// group is the state that all ranks of a group share.
type group struct {
	size, joined int
	inputs       [][]float32 // of the current call, by rank

	mu      sync.Mutex
	changed sync.Cond // round or failed has changed
	calls   []string  // by rank: the call in which it waits for the others; "" if it does not wait
	round   int       // number of completed barriers
	failed  error     // the first failure; the group stays failed
}

// engine is one rank of a group.
type engine struct {
	*group
	rank    int
	timeout time.Duration
	late    *time.Timer // calls blame; made once, because calls must not allocate
	sum     []float32
}

// barrier returns when all ranks have called it, or when the group has failed. If ranks arrive with
// different calls, the group fails.
func (e *engine) barrier(call string) error {
	e.late.Reset(e.timeout)
	defer e.late.Stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	round := e.round
	e.calls[e.rank] = call
	if !slices.Contains(e.calls, "") {
		for other, its := range e.calls {
			if its != call {
				e.fail(&dist.MisuseError{Text: fmt.Sprintf("ranks disagree: rank %d calls %s, rank %d calls %s",
					e.rank, call, other, its)})
			}
		}
		if e.failed == nil {
			clear(e.calls)
			e.round++
			e.changed.Broadcast()
		}
	}
	for e.round == round && e.failed == nil {
		e.changed.Wait()
	}
	if e.round > round { // all ranks came, even if the group has failed afterwards
		return nil
	}
	var misuse *dist.MisuseError
	mine := fmt.Sprintf("rank %d calls %s", e.rank, call)
	if errors.As(e.failed, &misuse) && !strings.Contains(misuse.Text, mine) {
		return &dist.MisuseError{Text: misuse.Text + "; " + mine}
	}
	return e.failed
}

// blame makes the group fail because a rank did not arrive in time. It names the first such rank.
func (e *engine) blame() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if missing := slices.Index(e.calls, ""); missing >= 0 && e.calls[e.rank] != "" {
		e.fail(&dist.PeerError{Rank: missing, Text: fmt.Sprintf("rank %d did not arrive within %v", missing, e.timeout)})
	}
}

// fail makes the group fail, unless it has failed before. Waiting ranks return the error. The caller
// holds the lock.
func (g *group) fail(err error) {
	if g.failed == nil {
		g.failed = err
	}
	g.changed.Broadcast()
}

// Prepare implements dist.Engine. Package dist has checked the call.
func (e *engine) Prepare(p dist.Plan) (run, release func() error, err error) {
	call := p.Terms()
	if p.Op == dist.Barrier {
		return func() error { return e.barrier(call) }, nil, nil
	}
	in, out := dist.Slice[float32](p.In), dist.Slice[float32](p.Out)
	return func() error {
		e.inputs[e.rank] = in
		if err := e.barrier(call); err != nil {
			return err
		}
		e.sum = append(e.sum[:0], e.inputs[0]...)
		for _, other := range e.inputs[1:] {
			for i, x := range other {
				e.sum[i] += x
			}
		}
		if err := e.barrier(call); err != nil { // nobody overwrites an input that another rank still reads
			return err
		}
		copy(out, e.sum)
		return nil
	}, nil, nil
}

// Refuse implements dist.Engine. Ranks that wait for this one return the reason.
func (e *engine) Refuse(reason error) (first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	first = e.failed == nil
	e.fail(&dist.MisuseError{Text: fmt.Sprintf("rank %d cannot make its call: %v", e.rank, reason)})
	return first
}

// Close implements dist.Engine. Ranks that wait for this one return an error that names it.
func (e *engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail(&dist.PeerError{Rank: e.rank, Text: fmt.Sprintf("rank %d has left the group", e.rank)})
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
