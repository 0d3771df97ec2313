// Package run is the loop from plan to journal: it starts each launch group,
// hands it its points, watches it, and records a row for every point, whatever
// becomes of the processes. It decides what a crash, a hang or a lie means; how
// processes are started and killed is package launch's matter. It prints
// nothing: an observer is told what happens.
package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/decl"
	"github.com/kernbench/kernbench/internal/hostinfo"
	"github.com/kernbench/kernbench/internal/journal"
	"github.com/kernbench/kernbench/internal/launch"
	"github.com/kernbench/kernbench/internal/plan"
	"github.com/kernbench/kernbench/internal/point"
)

// Options are the choices of a run that do not change what its points mean.
type Options struct {
	Dir      string        // the RUN folder
	Argv     []string      // the command line, for the record
	Environ  []string      // the environment that workers inherit from
	Timeout  time.Duration // per point and trial; 0: as declared
	Retries  int           // attempts after a failed one
	FailFast bool          // stop after the first failed row
	Resume   bool          // continue the folder's latest run
	Launcher *Launcher     // starts the ranks; nil: this process does
	Inputs   map[string]string
	Observe  func(Event)
}

// Event tells the observer what happens; one field is set.
type Event struct {
	Started  *Started
	Launch   *Launching
	Begin    *plan.Task
	Recorded *journal.Row
	Note     string
}

// Started opens a run.
type Started struct {
	Run      string
	Dir      string
	Rows     int // planned
	Done     int // of these, found in the journal by --resume
	Launches int
}

// Launching announces a process group.
type Launching struct {
	Number, Of int
	Ranks      int
	Env        point.Env
	Trial      int
}

// Result is what a run came to.
type Result struct {
	Run         string
	Counts      map[journal.Status]int // of this invocation's rows and those it resumed, the last attempt of each
	Interrupted bool
}

type runner struct {
	plan    *plan.Plan
	opts    Options
	journal *journal.Writer
	id      string
	host    hostinfo.Host
	agent   *launch.Agent
	claim   *hostinfo.Measuring
	crowd   string // warning: another kernbench is at work
	launch  int    // number of the current launch, over all resumptions
	// badStarts counts the launches in a row of the current group whose workers
	// did not even become ready.
	badStarts int
	counts    map[journal.Status]int
	rows      []journal.Row
}

// ClaimName is what stands for "a kernbench is measuring here". Tests that look
// at whole tables take names of their own, not to find each other in them.
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
	r := &runner{plan: p, opts: opts, counts: map[journal.Status]int{}, host: hostinfo.Local()}
	earlier, err := r.earlier()
	if err != nil {
		return Result{}, err
	}
	if r.journal, err = journal.Open(opts.Dir); err != nil {
		return Result{}, err
	}
	defer r.journal.Close()
	r.announce(earlier)
	if err := r.journal.Append(r.header(len(earlier.done) > 0)); err != nil {
		return Result{}, err
	}
	began := time.Now()
	defer r.release()

	err = r.execute(ctx, earlier)
	outcome := "complete"
	switch {
	case ctx.Err() != nil:
		outcome, err = "interrupted", nil
	case errors.Is(err, errFailFast):
		outcome, err = "failed", nil
	case err != nil:
		outcome = "failed"
	default:
		for _, text := range noEffect(r.rows) {
			err = errors.Join(err, r.note(text))
		}
	}
	end := journal.End{Run: r.id, Outcome: outcome, Counts: r.counts, Seconds: time.Since(began).Seconds(), Time: time.Now().UTC()}
	err = errors.Join(err, r.journal.Append(end))
	return Result{Run: r.id, Counts: r.counts, Interrupted: outcome == "interrupted"}, err
}

// announce claims the host for measuring and tells the observer the size of
// the work.
func (r *runner) announce(e *earlier) {
	claim, err := hostinfo.Claim(ClaimName)
	r.claim = claim
	var taken *hostinfo.TakenError
	if errors.As(err, &taken) {
		r.crowd = taken.Error()
	}
	r.opts.Observe(Event{Started: &Started{Run: r.id, Dir: r.opts.Dir, Rows: r.plan.Rows(), Done: len(e.done), Launches: r.plan.Launches()}})
	if r.crowd != "" {
		r.opts.Observe(Event{Note: r.crowd + ": numbers of both will suffer"})
	}
}

func (r *runner) release() {
	if r.claim != nil {
		r.claim.Close()
	}
	if r.agent != nil {
		r.agent.Close()
	}
}

// execute records the dropped points, then runs every group that has work left.
func (r *runner) execute(ctx context.Context, e *earlier) error {
	for _, t := range r.plan.Dropped {
		for trial := range r.plan.Trials {
			t.Trial = trial
			if e.settled(t) {
				continue
			}
			row := r.row(t)
			row.Status, row.Reason = journal.Skipped, t.Reason
			if _, err := r.settle(attempt{task: t}, row); err != nil {
				return err
			}
		}
	}
	for i, g := range r.plan.Groups {
		var todo []attempt
		for _, t := range g.Tasks {
			if !e.settled(t) {
				todo = append(todo, attempt{task: t, number: e.attempts(t)})
			}
		}
		if len(todo) == 0 {
			continue
		}
		r.opts.Observe(Event{Launch: &Launching{Number: i + 1, Of: len(r.plan.Groups), Ranks: g.Ranks, Env: g.Env, Trial: g.Trial}})
		if err := r.group(ctx, g, todo); err != nil {
			return err
		}
	}
	return nil
}

// attempt is a task and how often it was tried before.
type attempt struct {
	task   plan.Task
	number int
	budget int // retries used in this invocation
}

// group runs the tasks of one launch group, starting fresh processes as often
// as broken ones must be replaced.
func (r *runner) group(ctx context.Context, g *plan.Group, todo []attempt) error {
	r.badStarts = 0
	for len(todo) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.ensureAgent(ctx); err != nil {
			return err
		}
		r.launch++
		once := r.bodies
		if g.Part.Command != nil {
			once = r.program
		}
		var err error
		if todo, err = once(ctx, g, todo); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) ensureAgent(ctx context.Context) error {
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

// settle records a task's rows and returns the attempt to repeat, if a failure
// leaves a retry.
func (r *runner) settle(a attempt, rows ...journal.Row) (again []attempt, err error) {
	bad := slices.ContainsFunc(rows, func(row journal.Row) bool { return row.Status.Bad() })
	retry := bad && a.budget < r.opts.Retries
	for _, row := range rows {
		row.Attempt = a.number
		if row, err = r.record(row); err != nil {
			return nil, err
		}
		if !retry { // what is tried again does not count
			r.counts[row.Status]++
			r.rows = append(r.rows, row)
		}
	}
	if retry {
		a.budget++
		a.number++
		return []attempt{a}, nil
	}
	if bad && r.opts.FailFast {
		return nil, errFailFast
	}
	return nil, nil
}

// record appends a row, completed, and tells the observer.
func (r *runner) record(row journal.Row) (journal.Row, error) {
	row = row.Clean()
	row.Time = time.Now().UTC()
	if r.claim != nil && r.crowd == "" {
		if pids := r.claim.Others(); len(pids) > 0 {
			r.crowd = (&hostinfo.TakenError{PID: pids[len(pids)-1]}).Error()
		}
	}
	if r.crowd != "" && row.Status == journal.OK && row.Kind == journal.Measured {
		row.Warnings = append(row.Warnings, r.crowd)
	}
	if err := r.journal.Append(row); err != nil {
		return row, err
	}
	r.opts.Observe(Event{Recorded: &row})
	return row, nil
}

func (r *runner) begin(a attempt) error {
	r.opts.Observe(Event{Begin: &a.task})
	return r.journal.Append(journal.Begin{Run: r.id, Key: a.task.Key, Trial: a.task.Trial, Attempt: a.number, Time: time.Now().UTC()})
}

func (r *runner) note(text string) error {
	r.opts.Observe(Event{Note: text})
	return r.journal.Append(journal.Note{Run: r.id, Text: text, Time: time.Now().UTC()})
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
	h := journal.Header{
		Schema: journal.Schema, Run: r.id, Bench: r.plan.Bench.Name, Version: r.plan.Bench.Version,
		Time: time.Now().UTC(), Argv: r.opts.Argv, Host: r.host, Load: load.Load1,
		Environ: hostinfo.RecordedEnv(r.opts.Environ, r.plan.Envs),
		Axes:    r.plan.Axes, Envs: r.plan.Envs, Metrics: metricInfos(r.plan.Bench), Inputs: r.opts.Inputs,
		Backend: r.plan.Backend, Launcher: "local", Seed: r.plan.Seed, Trials: r.plan.Trials,
		Points: r.plan.Points, Launches: r.plan.Launches(), Resumed: resumed,
	}
	if r.opts.Launcher != nil {
		h.Launcher = r.opts.Launcher.Name()
	}
	return h
}

// metricInfos are the declared metrics of all parts, after the ones that the
// harness makes itself.
func metricInfos(b *decl.Bench) []journal.MetricInfo {
	var infos []journal.MetricInfo
	body := slices.ContainsFunc(b.Parts, func(p *decl.Part) bool { return p.Body != nil })
	if body {
		infos = append(infos,
			journal.MetricInfo{Name: "time_us", Unit: "us", Better: "lower"},
			journal.MetricInfo{Name: "gbps", Unit: "GB/s", Better: "higher"},
			journal.MetricInfo{Name: "algbw", Unit: "GB/s", Better: "higher"},
			journal.MetricInfo{Name: "busbw", Unit: "GB/s", Better: "higher"},
			journal.MetricInfo{Name: "tflops", Unit: "TFLOP/s", Better: "higher"})
	}
	for _, p := range b.Parts {
	next:
		for _, m := range p.Metrics {
			for i := range infos {
				if infos[i].Name == m.Name {
					infos[i] = m
					continue next
				}
			}
			infos = append(infos, m)
		}
	}
	if body {
		infos = append(infos, journal.MetricInfo{Name: "wrong", Better: "lower"})
	}
	return infos
}

// logDir makes the folder of the current launch's logs and names it as the
// rows do.
func (r *runner) logDir() (name, path string, err error) {
	name = filepath.Join(r.id, fmt.Sprintf("%04d", r.launch))
	path = filepath.Join(r.opts.Dir, "logs", name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", "", fmt.Errorf("making the folder for logs: %w", err)
	}
	// The agent runs elsewhere than the supervisor might.
	path, err = filepath.Abs(path)
	return name, path, err
}

func newRunID() string { return journal.NewRunID(time.Now(), rand.Reader) }
