package worker

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
)

// rank is one of the ranks that a worker process has, and what it is at.
type rank struct {
	worker *worker
	number int // among the ranks of this process
	group  syncgroup.Group
	phase  atomic.Pointer[string]
	wait   atomic.Bool
}

func newRank(w *worker, number int, g syncgroup.Group) *rank {
	r := &rank{worker: w, number: number, group: g}
	start := "start"
	r.phase.Store(&start)
	return r
}

func (r *rank) say(e Event) error {
	e.Rank = r.number
	return r.worker.conn.Send(message{Event: &e})
}

func (r *rank) beat() error {
	return r.say(Event{Heartbeat: true, Phase: *r.phase.Load(), Waiting: r.wait.Load()})
}

// setPhase also tells the supervisor at once, so that a crash right after is
// placed rightly. It is called a few times per task, not per sample.
func (r *rank) setPhase(phase string) {
	if old := r.phase.Swap(&phase); old == nil || *old != phase {
		r.beat()
	}
}

// perform runs the body at one point and reports the outcome.
func (r *rank) perform(ctx context.Context, t *Task) error {
	r.setPhase("set-up")
	w := r.worker
	out, err := w.body(ctx, decl.Setting{
		Point: slices.Clone(t.Point), Group: watched{r.group, &r.wait}, LocalRank: w.local + r.number, Backend: w.job.Backend,
		Ranks: w.job.Size, Session: w.job.Session, Seed: w.job.Seed, Measure: w.job.Measure,
		Metrics: w.metrics, Inputs: w.job.Inputs, Phase: r.setPhase,
	})
	cancelled := err != nil && ctx.Err() != nil
	if out.Phase = *r.phase.Load(); out.Status.Bad() {
		r.group.Abort(out.Reason)
	}
	// Whoever aborted the group or left it has an error of its own; all others
	// only follow, and so does whatever comes after the body was told to end.
	var aborted *syncgroup.AbortedError
	var peer *dist.PeerError
	follows := cancelled || errors.As(err, &aborted) || errors.As(err, &peer) || errors.Is(err, decl.ErrElsewhere)
	var culprit *int
	if aborted != nil && aborted.Rank != syncgroup.HubRank {
		culprit = &aborted.Rank
	}
	r.setPhase("idle")
	return r.say(Event{Done: &out, Index: t.Index, Secondary: follows, Culprit: culprit})
}

// watched notes when a rank only waits for the others, so that the one that
// hangs is named and not the one that waits for it.
type watched struct {
	syncgroup.Group
	waiting *atomic.Bool
}

func (g watched) Barrier(ctx context.Context) error {
	g.waiting.Store(true)
	err := g.Group.Barrier(ctx)
	g.waiting.Store(false)
	return err
}

func (g watched) Exchange(ctx context.Context, mine []int64) ([][]int64, error) {
	g.waiting.Store(true)
	all, err := g.Group.Exchange(ctx, mine)
	g.waiting.Store(false)
	return all, err
}

var _ syncgroup.Group = watched{}
