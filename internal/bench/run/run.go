// Package run executes a plan and writes the journal. It starts each launch group, sends it its points,
// watches it, and records a row for every point, whatever happens to the processes. It decides what a
// crash, a hang or an unplanned environment means for the row. Package launch starts and kills the
// processes. Package run prints nothing; an observer receives events.
package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/result/verdict"
)

// Options are the choices of a run that do not change the meaning of its points.
type Options struct {
	Dir     string        // the RUN folder
	Argv    []string      // the command line, for the record
	Environ []string      // base of the workers' environment
	Timeout time.Duration // per point and trial; 0 for the declared one
	// Heartbeat is how long a rank may be silent before it is lost, if it does not merely wait for a processor; 0 for
	// connection.SilenceLimit.
	Heartbeat time.Duration
	// JoinTimeout limits the start of the workers; 0 for StartLimit.
	JoinTimeout time.Duration
	Grace       time.Duration // between SIGTERM and SIGKILL; 0 for launch.DefaultGrace
	Retries     int           // additional attempts after a failed one
	// ImportLimit limits the import of a Python file in a worker; 0 for the default.
	ImportLimit time.Duration
	FailFast    bool // stop after the first failed row
	// Remeasure is the maximum number of times that a disturbed point is measured again.
	Remeasure   int
	Resume      bool // continue the folder's latest run, if it began after ResumeSince
	ResumeSince time.Time
	// RetryFailed makes a resumed run retry every failed point, even a point that failed twice.
	RetryFailed bool
	Ports       connection.PortRange // to listen on for other hosts
	Launcher    *Launcher            // starts the ranks; nil if this process does
	Joined      *Joined              // existing job whose ranks are used; nil for none
	// AllowOtherBuild accepts workers of other hosts that run another executable.
	AllowOtherBuild bool
	Inputs          map[string]string
	Tags            []string // labels of the run, see journal.ParseTags
	Note            string
	// Replan plans the run again after its prepare program, which may have built the program to be
	// measured. Without Replan, rows record the inputs as they were before.
	Replan  func() (*plan.Plan, error)
	Source  Source // decides what to launch; nil for the plan
	Turn    *Turn  // waits for other runs of this process before each launch; nil for none
	Observe func(Event)

	unwatched bool // for tests: do not observe the load of the host
}

// Source decides what a run launches, based on the results so far.
type Source interface {
	// Next returns the launches to make now, none at the end. rows are all valid rows so far; starts
	// are the times at which the run was started and resumed. A resumed run calls Next again from the
	// beginning and does not repeat launches that have rows, so Next must be deterministic.
	Next(rows []journal.Row, starts []time.Time) []*plan.Group
	// Found returns the note to record when the run ends or is interrupted.
	Found(rows []journal.Row, starts []time.Time) journal.Note
	// Expected returns the approximate total number of rows.
	Expected() int
}

// Result is the outcome of a run.
type Result struct {
	Run         string
	Counts      map[journal.Status]int // of the last attempts, including rows of a resumed run
	Missing     int                    // required rows that were not executed
	GivenUp     int                    // rows that failed in earlier invocations and are not retried any more
	Interrupted bool
	Broken      string // why the joined job could not continue; "" if it could
}

type runner struct {
	plan  *plan.Plan
	opts  Options
	id    string
	host  hostinfo.Host
	watch *hostWatch
	hold  *journal.Hold // claim on the run

	mu           sync.Mutex // guards the fields below, which run slots share
	journal      *journal.Writer
	launch       int // number of the latest launch, over all resumptions
	nextTurn     int // turn of the next task; turns order the rows in the journal
	recordedTurn int // turn whose rows are recorded next
	heldByTurn   map[int][]heldRows
	counts       map[journal.Status]int
	rows         []journal.Row
	starts       []time.Time // of the run and its resumptions
	givenUp      int         // failed rows of earlier invocations among rows
}

// ClaimName is the name under which a run claims the host for measuring. Tests that compare whole
// tables use other names, so that they do not warn about each other.
var ClaimName = hostinfo.ClaimName

// LoadRoot is the file tree from which a run reads how busy the host is. Tests that compare tables
// use an empty one, so that a busy host does not change their rows.
var LoadRoot = hostinfo.Root()

// errFailFast ends the run after a failed row under --fail-fast.
var errFailFast = errors.New("stopped after the first failed row")

// Run executes the plan. The error concerns the run itself, such as an unwritable journal; failed
// rows are part of the result. If ctx is cancelled, the result is Interrupted and everything
// recorded so far is kept.
func Run(ctx context.Context, p *plan.Plan, opts Options) (Result, error) {
	if opts.Observe == nil {
		opts.Observe = func(Event) {}
	}
	if opts.Launcher != nil && p.InProcess {
		return Result{}, fmt.Errorf("backend %s has all ranks in one process, which %s cannot start: omit --launcher",
			p.Backend, opts.Launcher.Name())
	}
	r := &runner{plan: p, opts: opts, counts: map[journal.Status]int{}, heldByTurn: map[int][]heldRows{},
		host: hostinfo.Local()}
	var err error
	if r.journal, err = journal.Open(opts.Dir); err != nil {
		return Result{}, err
	}
	defer r.journal.Close()
	last, err := r.claim()
	if err != nil {
		return Result{}, err
	}
	defer r.hold.Release()
	left, prepareErr := r.prepare(ctx)
	resumed := r.loadResumeState(last)
	r.announce(resumed)
	defer func() { r.watch.close() }()
	header := r.header(len(resumed.done) > 0)
	r.starts = append(r.starts, header.Time)
	if err := r.journal.Append(header); err != nil {
		return Result{}, err
	}
	start := time.Now()

	for _, c := range left {
		if err := r.note(c.Sentence()); err != nil {
			return Result{}, err
		}
	}
	if err = prepareErr; err == nil {
		err = joinOnce(r.execute(ctx, resumed), r.recordHeld())
	}
	outcome, broken, err := r.outcome(ctx, err)
	if opts.Source != nil {
		n := opts.Source.Found(r.rows, r.starts)
		n.Run, n.Time = r.id, time.Now().UTC()
		err = joinOnce(err, r.journal.Append(n))
	}
	end := journal.End{Run: r.id, Outcome: outcome, Counts: r.counts, Missing: dataset.All(r.rows).Missing(),
		Seconds: time.Since(start).Seconds(), Time: time.Now().UTC()}
	err = joinOnce(err, r.journal.Append(end))
	res := Result{Run: r.id, Counts: r.counts, Missing: end.Missing, GivenUp: r.givenUp,
		Interrupted: outcome == "interrupted", Broken: broken}
	return res, err
}

// outcome classifies the end of the execution and records notes about it. broken is the reason if the
// run could not continue (see jobError). The returned error is only for faults of the harness:
// interrupts, broken jobs and --fail-fast are outcomes.
func (r *runner) outcome(ctx context.Context, err error) (outcome, broken string, _ error) {
	var job *jobError
	switch {
	case errors.As(err, &job):
		return "failed", job.reason, r.note("the job cannot continue: " + job.reason)
	case ctx.Err() != nil:
		return "interrupted", "", nil
	case errors.Is(err, errFailFast):
		return "failed", "", nil
	case err != nil:
		return "failed", "", err
	case r.opts.Source == nil:
		metrics, _ := r.plan.Bench.Metrics()
		rows := dataset.All(r.rows)
		notes := verdict.Effects(rows, metrics)
		if main, ok := dataset.MainMetric(&journal.Header{Metrics: metrics}, rows); ok {
			for _, d := range judge.Drifts(rows, main.Name) {
				notes = append(notes, "drift over trials: "+d.String())
			}
		}
		for _, text := range notes {
			err = errors.Join(err, r.note(text))
		}
	}
	return "complete", "", err
}

// announce claims the host for measuring and tells the observer how many rows and launches there will be.
func (r *runner) announce(e *resumeState) {
	if !r.opts.unwatched {
		r.watch = r.opts.Turn.hostWatch(func() *hostWatch {
			return newHostWatch(ClaimName, watchSubject{
				Local: r.opts.Launcher == nil && r.opts.Joined == nil, Simulated: r.plan.Simulated,
				GPUs: dist.Describe(r.plan.Backend).Has(dist.OnDevice)})
		})
	}
	metrics, _ := r.plan.Bench.Metrics()
	started := &Started{Run: r.id, Dir: r.opts.Dir, Rows: r.plan.Rows(), Done: len(e.done),
		Launches: r.plan.Launches(), Metrics: metrics, Defaults: r.plan.AtDefault()}
	if r.opts.Source != nil {
		started.Rows = r.opts.Source.Expected()
	}
	r.opts.Observe(Event{Started: started})
	for _, text := range e.changes {
		r.opts.Observe(Event{Note: text})
	}
	if other := r.watch.others(); other != nil {
		consequence := "the measurements of both will be disturbed"
		if r.plan.Simulated {
			consequence = "this simulation will disturb it"
		}
		r.opts.Observe(Event{Note: other.Error() + ": " + consequence})
	}
}

// execute records the dropped points, then runs every group that has work left.
func (r *runner) execute(ctx context.Context, e *resumeState) error {
	for _, t := range r.plan.Dropped {
		for t.Trial = range r.plan.TrialsOf(t.Part) {
			if e.isDone(t) {
				continue
			}
			row := r.row(t)
			row.Status, row.Reason = journal.Skipped, journal.Text(t.Reason)
			if _, err := r.finishAttempt(r.attempt(t, 0), row); err != nil {
				return err
			}
		}
	}
	if r.opts.Source == nil {
		return r.runGroups(ctx, e, r.plan.Groups)
	}
	for {
		next := r.opts.Source.Next(r.rows, r.starts)
		if len(next) == 0 {
			return nil
		}
		if err := r.runGroups(ctx, e, next); err != nil {
			return err
		}
	}
}

// runGroups runs the tasks of the groups that are not done yet.
func (r *runner) runGroups(ctx context.Context, e *resumeState, groups []*plan.Group) error {
	var work []*backlog
	for _, g := range groups {
		b := &backlog{group: g}
		for _, t := range g.Tasks {
			if !e.isDone(t) {
				next := r.attempt(t, e.nextAttempt(t))
				next.failed = e.lastFailure(t)
				b.todo = append(b.todo, next)
			}
		}
		if len(b.todo) > 0 {
			work = append(work, b)
		}
	}
	return r.runSlots(ctx, work)
}

// attempt is one execution of a task.
type attempt struct {
	task   plan.Task
	number int    // number of earlier attempts, over all invocations
	budget int    // number of retries used in this invocation
	turn   int    // position of its rows in the journal
	failed string // how the previous attempt failed; "" if it did not
}

func (r *runner) attempt(t plan.Task, number int) attempt {
	r.nextTurn++
	return attempt{task: t, number: number, turn: r.nextTurn - 1}
}

// row returns a task's row without a result.
func (r *runner) row(t plan.Task) journal.Row {
	row := journal.Row{
		Schema: journal.Schema, Run: r.id, Bench: r.plan.Bench.Name, Part: t.Part, Point: t.Point,
		Backend: r.plan.Backend, Env: t.Env, Options: r.plan.Identity(), Trial: t.Trial, Index: t.Index,
		Kind: journal.Measured, Metrics: map[string]float64{}, Units: map[string]string{},
		Host: r.host.Hostname, Key: t.Key, Inputs: t.Inputs,
	}
	if dist.Describe(row.Backend).Simulated {
		row.Kind = journal.Simulated
	}
	if t.Ranks > 0 {
		row.NumRanks = &t.Ranks
	}
	return row
}

func (r *runner) header(resumed bool) journal.Header {
	load := hostinfo.Snapshot(LoadRoot)
	metrics, _ := r.plan.Bench.Metrics()
	h := journal.Header{
		Schema: journal.Schema, Run: r.id, Bench: r.plan.Bench.Name, Version: r.plan.Bench.Version,
		Time: time.Now().UTC(), Argv: r.opts.Argv, Commit: hostinfo.Commit("."), Host: r.host, Load: load.Load1,
		Environ: hostinfo.RecordedEnv(r.opts.Environ, r.plan.Envs),
		Axes:    r.plan.Axes, Envs: r.plan.Envs, Metrics: metrics, Inputs: r.opts.Inputs,
		Fingerprints: r.plan.Fingerprints,
		Backend:      r.plan.Backend, Launcher: "local", Seed: r.plan.Seed, Trials: r.plan.Trials,
		Points: r.plan.Points, Launches: r.plan.Launches(), Resumed: resumed, Tags: r.opts.Tags, Note: r.opts.Note,
	}
	if n := r.plan.Tasks(); n != h.Points*h.Trials {
		h.Tasks = n
	}
	if groups := r.plan.Groups; len(groups) > 0 {
		h.Bind = string(groups[0].Bind)
	}
	switch {
	case r.opts.Launcher != nil:
		h.Launcher = r.opts.Launcher.Name()
	case r.opts.Joined != nil:
		h.Launcher = "join " + string(r.opts.Joined.Launcher)
	}
	return h
}

// logDir creates the log folder of the current launch. name is its name in the rows, path its absolute
// path. The folder is always new, so that everything read from it comes from this launch.
func (s *runSlot) logDir() (name, path string, err error) {
	for {
		name = filepath.Join(s.id, fmt.Sprintf("%04d", s.launch))
		path = filepath.Join(s.opts.Dir, "logs", name)
		err := journal.MakeNewIn(s.opts.Dir, filepath.ToSlash(filepath.Join("logs", name)))
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", "", fmt.Errorf("making the folder for logs: %w", err)
		}
		s.nextLaunch()
	}
	// The agent may have another working directory.
	path, err = filepath.Abs(path)
	return name, path, err
}

// timeout is how long a task of a group may take.
func (r *runner) timeout(g *plan.Group) time.Duration {
	if r.opts.Timeout > 0 {
		return r.opts.Timeout
	}
	return plan.Timeout(g.Part)
}

// runSlot runs one launch after another. A run that measures has one slot, because each measurement
// needs the whole machine. Simulated time does not depend on the load, so a simulated run has one slot
// for every core.
type runSlot struct {
	*runner
	agent  *launch.Agent
	launch int // number of its current launch
	// failedStarts counts the consecutive launches of the current group whose workers did not become
	// ready.
	failedStarts int
	native       *plan.Group // group whose ranks have joined the launcher's job
	budget       remeasureBudget
}

// runSlots runs all attempts of the backlogs. Every slot goes through the backlogs in order and takes
// attempts that no other slot has taken. The first error ends all slots.
func (r *runner) runSlots(ctx context.Context, work []*backlog) error {
	count := 1
	if r.plan.Simulated {
		tasks := 0
		for _, b := range work {
			tasks += len(b.todo)
		}
		count = max(1, min(int(r.host.CPU.Usable), tasks))
	}
	group, ctx := errgroup.WithContext(ctx)
	for range count {
		s := &runSlot{runner: r, budget: remeasureBudget{maxRepeats: r.opts.Remeasure}}
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
	if left := instrument.Sweep(); left != nil { // killed ranks could not clean up after themselves
		r.opts.Observe(Event{Note: "cleaning up after this run: " + left.Error()})
	}
	return err
}

func (s *runSlot) close() {
	if s.agent != nil {
		s.agent.Close()
	}
}

// runGroup runs the tasks of one launch group. After a failure it continues with new processes.
func (s *runSlot) runGroup(ctx context.Context, b *backlog) error {
	s.failedStarts = 0
	for b.left() > 0 {
		if err := ctx.Err(); err != nil {
			if lost := s.lost(b.group); lost != nil { // the launcher interrupted the job because of this loss
				return &jobError{lost.Error()}
			}
			return err
		}
		if skipped, err := s.skipSecondJoin(b); skipped || err != nil {
			return err
		}
		if err := s.checkJob(b); err != nil {
			return err
		}
		if err := s.ensureAgent(ctx); err != nil {
			return err
		}
		if s.joined(b.group) && s.opts.Joined.Native {
			s.native = b.group
		}
		done, err := s.opts.Turn.take(ctx)
		if err != nil {
			return err
		}
		s.nextLaunch()
		runLaunch := s.runBodies
		if b.group.Part.Command != nil {
			runLaunch = s.runProgram
		}
		err = runLaunch(ctx, b)
		done()
		if err != nil {
			return err
		}
	}
	return nil
}

// ensureAgent starts the agent of this slot, or replaces it if it has ended.
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
	s.agent, err = launch.Start(ctx, filepath.Join(s.opts.Dir, "logs", s.id))
	return err
}

// nextLaunch gives the slot the next launch number of the run.
func (s *runSlot) nextLaunch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runner.launch++
	s.launch = s.runner.launch
}
