package run

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// lane runs one launch after the other. A run that measures has one lane: what
// it measures must have the machine for itself. Simulated time does not depend on
// what else happens, so that a simulated run has as many as there are cores.
type lane struct {
	*runner
	agent  *launch.Agent
	launch int // number of its current launch
	// badStarts counts the launches in a row of the current group whose workers
	// did not even become ready.
	badStarts int
	native    *plan.Group // whose ranks have joined the launcher's job
}

// backlog is the attempts of a launch group that no lane has taken yet.
type backlog struct {
	group  *plan.Group
	number int // of the group
	known  sync.Once

	mu   sync.Mutex
	todo []attempt
}

// take gives the next n attempts, or as many as there are.
func (b *backlog) take(n int) []attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, len(b.todo))
	taken := b.todo[:n:n]
	b.todo = b.todo[n:]
	return taken
}

// putBack returns attempts, to be made next.
func (b *backlog) putBack(again []attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.todo = append(again, b.todo...)
}

func (b *backlog) left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.todo)
}

// lanes works the backlogs off. Every lane goes through all of them in order and
// takes what the others have left; the first error ends all.
func (r *runner) lanes(ctx context.Context, work []*backlog) error {
	count := 1
	if r.plan.Shape.Simulated {
		tasks := 0
		for _, b := range work {
			tasks += len(b.todo)
		}
		count = max(1, min(int(r.host.CPU.Usable), tasks))
	}
	group, ctx := errgroup.WithContext(ctx)
	for range count {
		l := &lane{runner: r}
		group.Go(func() error {
			defer l.close()
			for _, b := range work {
				if err := l.group(ctx, b); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func (r *lane) close() {
	if r.agent != nil {
		r.agent.Close()
	}
}

// group runs tasks of one launch group, starting fresh processes as often as
// broken ones must be replaced.
func (r *lane) group(ctx context.Context, b *backlog) error {
	r.badStarts = 0
	for b.left() > 0 {
		if err := ctx.Err(); err != nil {
			if lost := r.lost(b.group); lost != nil { // of which the interrupt is what the launcher makes
				return &brokenError{lost.Error()}
			}
			return err
		}
		if spent, err := r.spent(b); spent || err != nil {
			return err
		}
		if err := r.hopeless(b); err != nil {
			return err
		}
		if err := r.ensureAgent(ctx); err != nil {
			return err
		}
		if r.joined(b.group) && r.opts.Joined.Native {
			r.native = b.group
		}
		b.known.Do(func() { r.announceLaunch(b) })
		r.nextLaunch()
		once := r.bodies
		if b.group.Part.Command != nil {
			once = r.program
		}
		if err := once(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

func (r *lane) ensureAgent(ctx context.Context) error {
	if r.agent != nil {
		select {
		case <-r.agent.Done():
			r.agent.Close()
			r.agent = nil
		default:
			return nil
		}
	}
	var err error
	r.agent, err = launch.Start(ctx)
	return err
}

func (r *runner) announceLaunch(b *backlog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := b.group
	r.opts.Observe(Event{Launch: &Launching{Number: b.number, Of: len(r.plan.Groups), Ranks: g.Ranks, Env: g.Env, Trial: g.Trial}})
}

func (r *lane) nextLaunch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runner.launch++
	r.launch = r.runner.launch
}
