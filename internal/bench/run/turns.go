package run

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
)

// Turns interleaves the launches of several runs that are compared, so that a slow drift of the
// machine affects all of them equally. The runs are active at the same time in this process, but only
// one launch runs at a time. Each block has one launch of each run, in random order.
type Turns struct {
	mu    sync.Mutex // guards all fields
	freed *sync.Cond // signals that a turn or a run has ended
	rng   *rand.Rand
	ended []bool // runs that make no more launches
	block []int  // runs whose launch in the current block is still to come
	busy  bool   // a launch is running

	watch *hostWatch // shared by all runs, so that they do not report each other as a disturbance
}

// NewTurns returns the turns of a number of runs.
func NewTurns(runs int, seed uint64) *Turns {
	t := &Turns{ended: make([]bool, runs), rng: rand.New(rand.NewPCG(seed, uint64(runs)))}
	t.freed = sync.NewCond(&t.mu)
	return t
}

// Of returns the turns of one run, for Options.Turn. Every run must end with Turn.Leave, or the
// others wait for it.
func (t *Turns) Of(run int) *Turn { return &Turn{t, run} }

// Turn is one run's access to Turns. A nil Turn never waits.
type Turn struct {
	all *Turns
	run int
}

// take waits until the run may make its next launch. The caller calls done after the launch.
func (t *Turn) take(ctx context.Context) (done func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	a := t.all
	stop := context.AfterFunc(ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.freed.Broadcast()
	})
	defer stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.busy || a.next() != t.run {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		a.freed.Wait()
	}
	a.block = a.block[1:]
	a.busy = true
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.busy = false
		a.freed.Broadcast()
	}, nil
}

// next returns the run whose turn it is, or -1 if no run makes any more launches. It starts a new block
// if the current one is over.
func (a *Turns) next() int {
	ended := func(run int) bool { return a.ended[run] }
	a.block = slices.DeleteFunc(a.block, ended)
	if len(a.block) == 0 {
		a.block = slices.DeleteFunc(a.rng.Perm(len(a.ended)), ended)
	}
	if len(a.block) == 0 {
		return -1
	}
	return a.block[0]
}

// Leave declares that the run makes no more launches.
func (t *Turn) Leave() {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	t.all.ended[t.run] = true
	t.all.freed.Broadcast()
}

// hostWatch returns the watch that all runs share. open makes it for the first run.
func (t *Turn) hostWatch(open func() *hostWatch) *hostWatch {
	if t == nil {
		return open()
	}
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	if w := t.all.watch; w != nil && w.share() {
		return w
	}
	t.all.watch = open()
	return t.all.watch
}
