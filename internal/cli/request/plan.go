// Package request interprets the flags of `run`: it selects the benches and makes their plans. It
// starts nothing and prints nothing.
package request

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/cli/job"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
	"github.com/kernbench/kernbench/internal/view/export"
)

// Planned is one bench with everything that a run needs.
type Planned struct {
	Bench  *bench.Bench
	Plan   *plan.Plan
	Out    string            // the RUN folder
	Inputs map[string]string // SHA-256 of the files that options name
	Asked  bool              // the command line selects points or options
	Plots  []views.Plot
	Doubts []error // warnings about plots of metrics that the body may not report
	// Replan plans the bench again, after its inputs were refreshed.
	Replan func() (*plan.Plan, error)
}

// Run is one `run` command.
type Run struct {
	Program  string         // its name, for messages
	Known    []*bench.Bench // all benches of the program
	Benches  []*bench.Bench // the selected ones
	Flags    Flags
	Read     Values
	Job      *jobenv.Job // the job that the run joins, or nil
	PlanOnly bool        // the plans will only be displayed, so outlines suffice
	Environ  []string    // of this process; children inherit it
}

// Plans checks the flags and plans every selected bench.
func (r Run) Plans() ([]Planned, error) {
	plots, err := views.ParsePlots(r.Flags.Plots)
	if err != nil {
		return nil, err
	}
	if err := r.Flags.check(); err != nil {
		return nil, err
	}
	if err := r.known(); err != nil {
		return nil, err
	}
	var all []Planned
	for _, b := range r.Benches {
		j, err := r.plan(b)
		if err != nil {
			return nil, err
		}
		j.Plots = plots
		if j.Doubts, err = j.drawable(); err != nil {
			return nil, err
		}
		all = append(all, j)
	}
	return all, nil
}

// plan plans one of the selected benches.
func (r Run) plan(b *bench.Bench) (Planned, error) {
	f, several := r.Flags, len(r.Benches) > 1
	axes, options := r.Read(b)
	chosen, err := presetOf(b, f.Profile)
	if err != nil {
		return Planned{}, err
	}
	filled := fills(b, f.Format)
	if options, err = f.maxTime(b, options); err != nil {
		return Planned{}, err
	}
	req := plan.Request{
		Axes: slices.Concat(filled, chosen.axes, applicable(b, f.Axes, several), axes), Envs: f.Envs,
		Skips: applicable(b, f.Skips, several), Only: slices.Concat(chosen.only, f.Only),
		Options: options, Trials: cmp.Or(f.Trials, chosen.trials), Seed: f.Seed, Threads: f.Threads, Bind: f.Bind,
		Sampling: f.Sampling, Environ: r.identityEnv(),
	}
	if f.Ranks != "" {
		req.Axes = append(req.Axes, plan.Assign{Name: bench.RanksAxis, Text: f.Ranks})
	}
	req.Zips = lists.Map(f.Zips, func(z string) []string { return strings.Split(z, ",") })
	if req.Backend, err = r.backend(b); err != nil {
		return Planned{}, err
	}
	if r.Job != nil {
		if err := job.CanJoin(b, req.Backend, r.Job); err != nil {
			return Planned{}, err
		}
		req.World = &plan.World{Ranks: r.Job.Size,
			Reason: fmt.Sprintf("this job has %s: start the job with another number, or start %s outside a job and let "+
				"it start the ranks", unit.Plural(r.Job.Size, "rank"), r.Program)}
	}
	req.Hosts = r.hosts()
	make := plan.Make
	if r.PlanOnly {
		make = plan.Outline
	}
	req.Build = r.build(b, req.Backend)
	p, err := withFiles(b, req, make)
	if err == nil && r.free() && p.PreferredBackend() != "" {
		req.Backend = p.PreferredBackend()
		req.Build = r.build(b, req.Backend)
		p, err = withFiles(b, req, make)
	}
	if err != nil {
		return Planned{}, err
	}
	selects := len(req.Axes)-len(filled)+len(req.Envs)+len(req.Skips)+len(req.Only)+len(req.Options)+len(req.Zips) > 0 ||
		req.Trials > 0
	replan := func() (*plan.Plan, error) {
		again, err := r.plan(b)
		return again.Plan, err
	}
	return Planned{Bench: b, Plan: p, Out: runFolder(b, f.Out, several), Inputs: p.Files(), Asked: selects,
		Replan: replan}, nil
}

// build returns the programs and files that the rows of a bench depend on. Bodies that are part of
// this program depend on its build, except simulations that declare the version of their model.
func (r Run) build(b *bench.Bench, backend string) journal.Inputs {
	in := journal.Inputs{}
	if b.Tracked != nil {
		maps.Copy(in, b.Tracked.Inputs)
		return in
	}
	if b.Version == "" || !dist.Describe(backend).Simulated {
		in["program "+r.Program] = connection.BuildID()
	}
	return in
}

// identityEnv returns the variables that are part of the identity of rows. torchrun and launch set
// OMP_NUM_THREADS to 1 if a node has several ranks, which must not separate the rows of a scaling
// study by their number of ranks.
func (r Run) identityEnv() map[string]string {
	environ := hostinfo.IdentityEnv(r.Environ)
	if threads := cores.ThreadVars[0]; r.Job != nil && environ[threads] == "1" {
		delete(environ, threads)
	}
	return environ
}

// fills returns axis values that an output format needs, such as both values of inplace for the
// nccl-tests format, for boolean axes of the bench.
func fills(b *bench.Bench, format string) (out []plan.Assign) {
	shown, _ := export.Formats.Lookup(format)
	sweep := shown.Sweep
	for _, name := range slices.Sorted(maps.Keys(sweep)) {
		has := slices.ContainsFunc(b.Parts, func(part *decl.Part) bool {
			return slices.ContainsFunc(part.Axes, func(a decl.Axis) bool { return a.Name == name && a.Kind == bench.KindBool })
		})
		if has {
			out = append(out, plan.Assign{Name: name, Text: sweep[name]})
		}
	}
	return out
}

// maxTime passes --max-time on to the option --seconds, for benches that have it.
func (f Flags) maxTime(b *bench.Bench, options []plan.Assign) ([]plan.Assign, error) {
	if _, has := b.Option(bench.SecondsOption); !has || f.Sampling.MaxTime == 0 {
		return options, nil
	}
	if slices.ContainsFunc(options, func(o plan.Assign) bool { return o.Name == bench.SecondsOption }) {
		return nil, fmt.Errorf("bench %s: --max-time and --%s mean the same: give one", b.Name, bench.SecondsOption)
	}
	text := strconv.FormatFloat(f.Sampling.MaxTime.Seconds(), 'g', -1, 64)
	return append(slices.Clip(options), plan.Assign{Name: bench.SecondsOption, Text: text}), nil
}

// hosts explains why the ranks are assumed to be on several hosts, or returns "" if they are on
// one. It is unknown where a launcher places ranks, but without --interface they can reach this
// program only from its own host.
func (r Run) hosts() string {
	switch {
	case r.Job != nil && r.Job.LocalSize < r.Job.Size:
		return "this job has ranks on several hosts"
	case r.Job == nil && !slices.Contains([]string{"auto", "local"}, r.Flags.Launcher) && r.Flags.Interface != "":
		return "with --interface " + r.Flags.Interface + " the ranks may be on several hosts"
	}
	return ""
}

// drawable checks the names in the plots before the run, so that a mistake is found before and not after a
// long run. An undeclared metric is an error if rows can have no other metrics, and a doubt if the body may
// report it.
func (j Planned) drawable() (doubts []error, err error) {
	h := &journal.Header{Axes: j.Plan.Axes, Envs: j.Plan.Envs}
	metrics, all := j.Bench.Metrics()
	if !all {
		metrics = append(metrics, journal.MetricInfo{Name: decl.LimitMetric})
	}
	for _, p := range j.Plots {
		if err := p.Check(h, j.Plan.Options); err != nil {
			return nil, err
		}
		if err := p.CheckMetric(h, j.Plan.Options, metrics); err != nil {
			if all {
				return nil, err
			}
			doubts = append(doubts, err)
		}
	}
	return doubts, nil
}

// runFolder returns the folder for the rows: --out, with a subfolder per bench if there are
// several, or the bench's default.
func runFolder(b *bench.Bench, out string, several bool) string {
	switch {
	case out != "" && several:
		return filepath.Join(out, b.Name)
	case out != "":
		return out
	case b.Out != "":
		return b.Out
	}
	return filepath.Join("out", b.Name)
}

// known returns an error for an axis that none of the selected benches has. If only some have it,
// it applies to those.
func (r Run) known() error {
	f, benches := r.Flags, r.Benches
	if len(benches) < 2 {
		return nil // the planner gives a better message
	}
	for _, as := range slices.Concat(f.Axes, f.Skips) {
		var names []string
		for _, b := range benches {
			names = append(names, axisNames(b)...)
		}
		isEnv := slices.ContainsFunc(f.Envs, func(e plan.Assign) bool { return e.Name == as.Name })
		if !slices.Contains(names, as.Name) && !isEnv {
			return suggest.Unknown("axis", as.Name, names)
		}
	}
	return nil
}

// applicable returns the assignments whose axis the bench has. With a single bench it returns all,
// so that the planner reports unknown names.
func applicable(b *bench.Bench, list []plan.Assign, several bool) []plan.Assign {
	names := axisNames(b)
	return slices.DeleteFunc(slices.Clone(list), func(as plan.Assign) bool {
		return several && !slices.Contains(names, as.Name)
	})
}

func axisNames(b *bench.Bench) []string {
	names := []string{bench.RanksAxis}
	for _, p := range b.Parts {
		names = append(names, lists.Map(p.Axes, func(x decl.Axis) string { return x.Name })...)
		names = append(names, lists.Map(p.Envs, func(e decl.EnvAxis) string { return e.Name })...)
	}
	return names
}

// free reports whether the bench may choose the backend.
func (r Run) free() bool {
	backend := r.Flags.Backend
	return backend == "auto" && r.Job == nil
}

// backend resolves --backend for a bench.
func (r Run) backend(b *bench.Bench) (string, error) {
	requested := r.Flags.Backend
	can := b.Backends
	if len(can) == 0 {
		can = []string{hints.HostBackend}
	}
	if requested == "auto" && r.Job != nil && job.IsMPI(r.Job.Launcher) { // prefer the MPI backend
		if name, ok := lists.First(can, func(name string) bool { return dist.Describe(name).Launcher != nil }); ok {
			return name, nil
		}
	}
	if requested == "auto" {
		return can[0], nil
	}
	if slices.Contains(can, requested) {
		return requested, nil
	}
	if why := b.HostMemory; why != "" && dist.Describe(requested).Has(dist.OnDevice) {
		return "", fmt.Errorf("bench %s does not run on backend %s, which uses device memory: %s; it runs on %s",
			b.Name, requested, why, strings.Join(can, ", "))
	}
	if slices.ContainsFunc(r.Known, func(other *bench.Bench) bool { return slices.Contains(other.Backends, requested) }) {
		return "", fmt.Errorf("bench %s does not run on backend %s, only on %s", b.Name, requested, strings.Join(can, ", "))
	}
	return "", fmt.Errorf("bench %s: %w", b.Name, suggest.Unknown("backend", requested, append([]string{"auto"}, can...)))
}

// withFiles hashes the files that the options of a bench name, and plans the bench.
func withFiles(b *bench.Bench, req plan.Request,
	make func(*bench.Bench, plan.Request) (*plan.Plan, error)) (*plan.Plan, error) {
	req.Inputs, req.Files = maps.Clone(b.Inputs), map[string]string{}
	if req.Inputs == nil {
		req.Inputs = map[string]string{}
	}
	for _, o := range b.Options {
		if !o.File {
			continue
		}
		paths, err := plan.FilesOf(b, req.Backend, o.Name, req.Options)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			sha, err := point.HashFile(path)
			if err != nil {
				return nil, fmt.Errorf("--%s: %w", o.Name, err)
			}
			if o.Sweepable {
				req.Files[path] = sha
			} else {
				req.Inputs[o.Name] = sha
			}
		}
	}
	return make(b, req)
}
