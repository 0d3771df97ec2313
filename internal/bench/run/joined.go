package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/process/rankhost"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Joined is a job that another launcher has started, and that this process leads
// as its rank 0: workers and programs start at the places of its ranks.
type Joined struct {
	Leader   *rankhost.Leader
	Launcher jobenv.Launcher
	Size     int
	// Native: the backend joins the launcher's own job by its variables, which every
	// rank can do only once. So there is one launch.
	Native bool
}

// started is a launch under way, wherever its processes are.
type started interface {
	Events() <-chan launch.Event
	Stop(reason string, dump bool)
	Wait() (launch.Outcome, error)
}

// spawn is what the processes of a launch have in common.
type spawn struct {
	logs          string
	argv          []string
	dir           string
	extra         map[string]string // variables besides the planned ones
	files         []*os.File
	watch         []string
	stopOnFailure bool
}

// joined tells whether the group's processes start at the ranks of a job.
func (r *runner) joined(g *plan.Group) bool {
	return r.opts.Joined != nil && g.Ranks > 0 && r.plan.Processes(g) == r.opts.Joined.Size
}

// start launches a group's processes: here, through a launcher, or at the places
// of a job.
func (r *lane) start(ctx context.Context, g *plan.Group, s spawn) (started, error) {
	if r.joined(g) {
		l, err := r.startJoined(ctx, g, s)
		if err != nil {
			return nil, err // and no launch that is nil in disguise
		}
		return l, nil
	}
	procs, err := r.processes(g, s)
	if err != nil {
		return nil, err
	}
	l, err := r.agent.Launch(ctx, launch.Spec{Procs: procs, WatchEnv: s.watch, StopOnFailure: s.stopOnFailure})
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (r *lane) startJoined(ctx context.Context, g *plan.Group, s spawn) (*rankhost.Launch, error) {
	job := r.opts.Joined
	port, err := launch.FreePort()
	if err != nil {
		return nil, err
	}
	spec := rankhost.Spec{WatchEnv: s.watch, StopOnFailure: s.stopOnFailure}
	set := variables(g, s.extra)
	for rank := range g.Ranks {
		p := rankhost.Proc{
			Argv: s.argv, Dir: s.dir, Set: set, Native: job.Native,
			Vars:   launch.RankVars{Rank: rank, WorldSize: g.Ranks, MasterAddr: job.Leader.Addr(), MasterPort: port},
			Stdout: filepath.Join(s.logs, fmt.Sprintf("rank%d.out", rank)),
			Stderr: filepath.Join(s.logs, fmt.Sprintf("rank%d.err", rank)),
		}
		for _, f := range s.files { // on one host, a process of the same user can open what this one has open
			p.Files = append(p.Files, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()))
		}
		spec.Procs = append(spec.Procs, p)
	}
	return job.Leader.Launch(ctx, spec)
}

// brokenError says why a job cannot go on. What is not done stays so.
type brokenError struct{ reason string }

func (e *brokenError) Error() string { return e.reason }

// hopeless says why the rest of a group cannot be run in a job: it has lost a
// rank, or its ranks would have to join the launcher's job a second time.
func (r *lane) hopeless(b *backlog) error {
	job := r.opts.Joined
	if job == nil {
		return nil
	}
	if lost := job.Leader.Lost(); lost != nil {
		return &brokenError{lost.Error()}
	}
	if job.Native && r.native == b.group {
		return &brokenError{fmt.Sprintf("the ranks that %s has started cannot be replaced", job.Launcher)}
	}
	return nil
}

// spent settles a group that would need the ranks to join the launcher's job once
// more, and tells whether it was one.
func (r *lane) spent(b *backlog) (bool, error) {
	job := r.opts.Joined
	if job == nil || !job.Native || r.native == nil || r.native == b.group || b.group.Part.Command != nil {
		return false, nil
	}
	for _, a := range b.take(b.left()) {
		row := r.row(a.task)
		row.Status = journal.Skipped
		row.Reason = fmt.Sprintf("needs respawn: backend %s joins the job of %s once, with one environment; start kernbench alone, with --launcher %s, for the others", r.plan.Backend, job.Launcher, job.Launcher)
		if _, err := r.settle(a, row); err != nil {
			return true, err
		}
	}
	return true, nil
}

// lost says which place is gone, nil for a launch that has no places.
func (r *runner) lost(g *plan.Group) *rankhost.LostError {
	if !r.joined(g) {
		return nil
	}
	return r.opts.Joined.Leader.Lost()
}

// lostPlace makes trouble of a place that has ended the launch by its loss.
func (c *crew) lostPlace() *trouble {
	lost := c.r.lost(c.group)
	if lost == nil {
		return nil
	}
	return &trouble{status: journal.Failed, rank: &lost.Rank, phase: c.ranks[lost.Rank].phase, reason: lost.Error()}
}

// Within a job, an interrupt often comes from a launcher that kills a second
// later: the reason is looked for, and what runs is waited for, for less.
const (
	deathbedLimit = 500 * time.Millisecond
	hurryLimit    = 300 * time.Millisecond
)

// await waits for the launch's end, at most for the limit if there is one. When
// in a hurry it does not wait long: the places kill what is left as soon as this
// process has gone.
func (c *crew) await(limit time.Duration) (ended bool) {
	if limit == 0 && !c.hurry() {
		c.launch.Wait()
		return true
	}
	if c.hurry() {
		limit = hurryLimit
	}
	end := make(chan struct{})
	go func() { c.launch.Wait(); close(end) }()
	select {
	case <-end:
		return true
	case <-time.After(limit):
		return false
	}
}

// deathbed looks for the reason of an interrupt within a job: a launcher that
// sees a rank die ends all the others, this one included. Only when every place
// has told the end of its process was it nothing but the interrupt: the loss of
// one may be heard of last.
func (c *crew) deathbed() *trouble {
	if !c.r.joined(c.group) {
		return nil
	}
	limit := time.After(deathbedLimit)
	stopped := false // by the interrupt
	for {
		select {
		case e := <-c.events:
			x, is := e.(launch.Exit)
			stopped = stopped || is && x.Stopped
			switch {
			case stopped && e == nil:
				return c.lostPlace()
			case is && x.Stopped:
				if tr := c.lostPlace(); tr != nil {
					return tr
				}
			default:
				if tr := c.watch(e); tr != nil || e == nil {
					return tr
				}
			}
		case e := <-c.hub.Events():
			c.hear(e)
		case <-limit:
			return c.lostPlace()
		}
	}
}
