package run

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/remeasure"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// runSlot runs one launch after the other. A run that measures has one slot: what
// it measures must have the machine for itself. Simulated time does not depend on
// what else happens, so a simulated run has as many as there are cores.
type runSlot struct {
	*runner
	agent  *launch.Agent
	launch int // number of its current launch
	// failedStarts counts the launches in a row of the current group whose workers
	// did not even become ready.
	failedStarts int
	native       *plan.Group // whose ranks have joined the launcher's job
	again        remeasure.Budget
}

// backlog is the attempts of a launch group that no slot has taken yet.
type backlog struct {
	group *plan.Group
	mu    sync.Mutex
	todo  []attempt
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

// runSlots works the backlogs off. Every slot goes through all of them in order
// and takes what the others have left; the first error ends all.
func (r *runner) runSlots(ctx context.Context, work []*backlog) error {
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
		s := &runSlot{runner: r, again: remeasure.Budget{Most: r.opts.Remeasure}}
		group.Go(func() error {
			defer s.close()
			for _, b := range work {
				if err := s.runGroup(ctx, b); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := group.Wait()
	if left := dist.Sweep(); left != nil { // ranks that were killed could not
		r.opts.Observe(Event{Note: "something of this run is left: " + left.Error()})
	}
	return err
}

func (s *runSlot) close() {
	if s.agent != nil {
		s.agent.Close()
	}
}

// runGroup runs tasks of one launch group, starting fresh processes as often as
// broken ones must be replaced.
func (s *runSlot) runGroup(ctx context.Context, b *backlog) error {
	s.failedStarts = 0
	for b.left() > 0 {
		if err := ctx.Err(); err != nil {
			if lost := s.lost(b.group); lost != nil { // the launcher made an interrupt of it
				return &brokenError{lost.Error()}
			}
			return err
		}
		if skipped, err := s.skipRejoin(b); skipped || err != nil {
			return err
		}
		if err := s.cannotGoOn(b); err != nil {
			return err
		}
		if err := s.ensureAgent(ctx); err != nil {
			return err
		}
		if s.joined(b.group) && s.opts.Joined.Native {
			s.native = b.group
		}
		s.nextLaunch()
		once := s.bodies
		if b.group.Part.Command != nil {
			once = s.program
		}
		if err := once(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

func (s *runSlot) ensureAgent(ctx context.Context) error {
	if s.agent != nil {
		select {
		case <-s.agent.Done():
			s.agent.Close()
			s.agent = nil
		default:
			return nil
		}
	}
	var err error
	s.agent, err = launch.Start(ctx)
	return err
}

func (s *runSlot) nextLaunch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runner.launch++
	s.launch = s.runner.launch
}
