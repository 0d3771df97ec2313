// Package run is the loop from plan to journal: it starts each launch group,
// gives it its points, watches it, and records a row for every point, whatever
// becomes of the processes. It decides what a crash, a hang or an environment
// other than the planned one means; package launch starts and kills processes. It
// prints nothing: an observer is told what happens.
package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/remeasure"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Options are the choices of a run that do not change what its points mean.
type Options struct {
	Dir      string        // the RUN folder
	Argv     []string      // the command line, for the record
	Environ  []string      // the environment that workers inherit from
	Timeout  time.Duration // per point and trial; 0: as declared
	Grace    time.Duration // between SIGTERM and SIGKILL; 0 is launch.DefaultGrace
	Retries  int           // attempts after a failed one
	FailFast bool          // stop after the first failed row
	// Remeasure is how often a point that something disturbed is measured again at most.
	Remeasure int
	Resume    bool // continue the folder's latest run
	// RetryFailed: a resumed run tries again what failed before, also what failed twice.
	RetryFailed bool
	// Follow: where the run to resume is still under way, its rows are observed until it ends.
	Follow   bool
	Ports    connection.PortRange // to listen on for other hosts
	Launcher *Launcher            // starts the ranks; nil: this process does
	Joined   *Joined              // the job whose ranks are there already; nil: none
	Inputs   map[string]string
	Source   Source // decides what is launched; nil: the plan
	Observe  func(Event)

	unwatched bool // tests: nothing but the samples can disturb a row
}

// Source decides what a run launches by what the launches before have given.
type Source interface {
	// Next gives the launches to make now, none at the end. Rows are all that count so
	// far; starts are when the run was started and resumed. A resumed run asks again
	// from the beginning, and what has a row is not launched again: so the same rows
	// have to give the same launches.
	Next(rows []journal.Row, starts []time.Time) []*plan.Group
	// Found is noted when the run ends or is interrupted.
	Found(rows []journal.Row, starts []time.Time) journal.Note
	// Expected is about how many rows there will be.
	Expected() int
}

// Event tells the observer what happens; one field is set.
type Event struct {
	Started  *Started
	Task     *plan.Task // an attempt of it starts
	Recorded *journal.Row
	Note     string
}

// Started is the start of a run.
type Started struct {
	Run      string
	Dir      string
	Rows     int // planned
	Done     int // of these, found in the journal by --resume
	Launches int
	Follows  *journal.HeldError // who does the work, if it is not this process
}

// Result is the outcome of a run.
type Result struct {
	Run         string
	Counts      map[journal.Status]int // of this invocation's rows and those it resumed, the last attempt of each
	Missing     int                    // of these, not executed although required
	GivenUp     int                    // rows that failed in earlier invocations and were not tried again
	Interrupted bool
	Broken      string // why the joined job could not go on; empty when it could
}

type runner struct {
	plan  *plan.Plan
	opts  Options
	id    string
	host  hostinfo.Host
	watch *remeasure.Watch
	hold  *journal.Hold // of the run

	prepared map[*decl.Part]bool

	mu      sync.Mutex // of what follows, which run slots share
	journal *journal.Writer
	launch  int // number of the latest launch, over all resumptions
	turns   int // attempts so far, each with its position in the journal
	turn    int // whose rows are recorded next
	held    map[int][]settled
	counts  map[journal.Status]int
	rows    []journal.Row
	starts  []time.Time // of the run and its resumptions
	givenUp int         // of rows, bad ones of earlier invocations
}

// ClaimName is the name under which a run claims the host for measuring. Tests
// that compare whole tables take names of their own, so that they do not warn of
// each other.
var ClaimName = hostinfo.ClaimName

// errFailFast ends the loop after a failed row under --fail-fast.
var errFailFast = errors.New("stopped after the first failed row")

// Run executes the plan. The error is about the run itself (the journal cannot
// be written, say); failed rows are in the result. A cancelled context gives
// Interrupted: what is done is kept.
func Run(ctx context.Context, p *plan.Plan, opts Options) (Result, error) {
	if opts.Observe == nil {
		opts.Observe = func(Event) {}
	}
	if opts.Launcher != nil && p.Shape.InProcess {
		return Result{}, fmt.Errorf("%s starts processes, but the ranks of backend %s are all in one: leave --launcher out",
			opts.Launcher.Name(), p.Backend)
	}
	r := &runner{plan: p, opts: opts, counts: map[journal.Status]int{}, held: map[int][]settled{},
		prepared: map[*decl.Part]bool{}, host: hostinfo.Local()}
	var err error
	if r.journal, err = journal.Open(opts.Dir); err != nil {
		return Result{}, err
	}
	defer r.journal.Close()
	earlier, err := r.earlier()
	var held *journal.HeldError
	switch {
	case opts.Follow && errors.As(err, &held):
		return r.follow(ctx, held)
	case err != nil:
		return Result{}, err
	}
	defer r.hold.Release()
	r.announce(earlier)
	header := r.header(len(earlier.done) > 0)
	r.starts = append(r.starts, header.Time)
	if err := r.journal.Append(header); err != nil {
		return Result{}, err
	}
	start := time.Now()
	defer r.watch.Close()

	outcome, broken, err := r.outcome(ctx, errors.Join(r.execute(ctx, earlier), r.recordHeld()))
	if opts.Source != nil {
		n := opts.Source.Found(r.rows, r.starts)
		n.Run, n.Time = r.id, time.Now().UTC()
		err = errors.Join(err, r.journal.Append(n))
	}
	end := journal.End{Run: r.id, Outcome: outcome, Counts: r.counts, Missing: Missing(r.rows),
		Seconds: time.Since(start).Seconds(), Time: time.Now().UTC()}
	err = errors.Join(err, r.journal.Append(end))
	res := Result{Run: r.id, Counts: r.counts, Missing: end.Missing, GivenUp: r.givenUp,
		Interrupted: outcome == "interrupted", Broken: broken}
	return res, err
}

// outcome words how the execution ended, and notes what there is to know about it. Broken is
// why a joined job could not go on; the error is what remains one.
func (r *runner) outcome(ctx context.Context, err error) (outcome, broken string, _ error) {
	var job *brokenError
	switch {
	case errors.As(err, &job):
		return "failed", job.reason, r.note("the job is broken: " + job.reason)
	case ctx.Err() != nil:
		return "interrupted", "", nil
	case errors.Is(err, errFailFast):
		return "failed", "", nil
	case err != nil:
		return "failed", "", err
	case r.opts.Source == nil:
		metrics, _ := r.plan.Bench.Metrics()
		for _, text := range effects(r.rows, metrics) {
			err = errors.Join(err, r.note(text))
		}
	}
	return "complete", "", err
}

// Missing counts the rows that should have been executed and were not.
func Missing(rows []journal.Row) (n int) {
	for i := range rows {
		if rows[i].Status == journal.NotExecuted && !rows[i].Optional {
			n++
		}
	}
	return n
}

// announce claims the host for measuring and tells the observer the size of
// the work.
func (r *runner) announce(e *earlier) {
	if !r.opts.unwatched {
		r.watch = remeasure.NewWatch(ClaimName, remeasure.Subject{
			Local: r.opts.Launcher == nil && r.opts.Joined == nil, Simulated: r.plan.Shape.Simulated})
	}
	started := &Started{Run: r.id, Dir: r.opts.Dir, Rows: r.plan.Rows(), Done: len(e.done), Launches: r.plan.Launches()}
	if r.opts.Source != nil {
		started.Rows = r.opts.Source.Expected()
	}
	r.opts.Observe(Event{Started: started})
	if crowd := r.watch.Crowd(); crowd != "" {
		r.opts.Observe(Event{Note: crowd + ": numbers of both will suffer"})
	}
}

// execute records the dropped points, then runs every group that has work left.
func (r *runner) execute(ctx context.Context, e *earlier) error {
	for _, t := range r.plan.Dropped {
		for t.Trial = range r.plan.Trials {
			if e.settled(t) {
				continue
			}
			row := r.row(t)
			row.Status, row.Reason = journal.Skipped, t.Reason
			if _, err := r.settle(r.attempt(t, 0), row); err != nil {
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

// runGroups runs what of the groups is not settled.
func (r *runner) runGroups(ctx context.Context, e *earlier, groups []*plan.Group) error {
	var work []*backlog
	for _, g := range groups {
		b := &backlog{group: g}
		for _, t := range g.Tasks {
			if !e.settled(t) {
				again := r.attempt(t, e.attempts(t))
				again.failed = e.failure(t)
				b.todo = append(b.todo, again)
			}
		}
		if len(b.todo) > 0 {
			work = append(work, b)
		}
	}
	if err := r.prepare(ctx, work); err != nil {
		return err
	}
	return r.runSlots(ctx, work)
}

// attempt is a task and how often it was tried before.
type attempt struct {
	task   plan.Task
	number int
	budget int    // retries used in this invocation
	turn   int    // its position in the journal
	failed string // how the attempt before failed; empty if it did not
}

func (r *runner) attempt(t plan.Task, number int) attempt {
	r.turns++
	return attempt{task: t, number: number, turn: r.turns - 1}
}

// row is a task's identity without a result.
func (r *runner) row(t plan.Task) journal.Row {
	row := journal.Row{
		Schema: journal.Schema, Run: r.id, Bench: r.plan.Bench.Name, Part: t.Part, Point: t.Point,
		Backend: r.plan.Backend, Env: t.Env, Options: r.plan.Options, Trial: t.Trial, Index: t.Index,
		Kind: journal.Measured, Metrics: map[string]float64{}, Units: map[string]string{},
		Host: r.host.Hostname, Key: t.Key,
	}
	if t.Ranks > 0 {
		row.NumRanks = &t.Ranks
	}
	return row
}

func (r *runner) header(resumed bool) journal.Header {
	load, _ := hostinfo.Snapshot(hostinfo.Root()) // without /proc it stays 0
	metrics, _ := r.plan.Bench.Metrics()
	h := journal.Header{
		Schema: journal.Schema, Run: r.id, Bench: r.plan.Bench.Name, Version: r.plan.Bench.Version,
		Time: time.Now().UTC(), Argv: r.opts.Argv, Host: r.host, Load: load.Load1,
		Environ: hostinfo.RecordedEnv(r.opts.Environ, r.plan.Envs),
		Axes:    r.plan.Axes, Envs: r.plan.Envs, Metrics: metrics, Inputs: r.opts.Inputs,
		Backend: r.plan.Backend, Launcher: "local", Seed: r.plan.Seed, Trials: r.plan.Trials,
		Points: r.plan.Points, Launches: r.plan.Launches(), Resumed: resumed,
	}
	switch {
	case r.opts.Launcher != nil:
		h.Launcher = r.opts.Launcher.Name()
	case r.opts.Joined != nil:
		h.Launcher = "join " + string(r.opts.Joined.Launcher)
	}
	return h
}

// logDir makes the folder of the current launch's logs and names it as the
// rows do. It is always a new one: what is read from it later can only come from
// this launch.
func (s *runSlot) logDir() (name, path string, err error) {
	runLogs := filepath.Join(s.opts.Dir, "logs", s.id)
	if err := os.MkdirAll(runLogs, 0o755); err != nil {
		return "", "", fmt.Errorf("making the folder for logs: %w", err)
	}
	for {
		launch := fmt.Sprintf("%04d", s.launch)
		name, path = filepath.Join(s.id, launch), filepath.Join(runLogs, launch)
		err := os.Mkdir(path, 0o755)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", "", fmt.Errorf("making the folder for logs: %w", err)
		}
		s.nextLaunch()
	}
	// The agent runs elsewhere than the supervisor might.
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

func newRunID() string { return journal.NewRunID(time.Now(), rand.Reader) }
