package cli

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/report"
)

// planned is one bench with everything a run of it takes.
type planned struct {
	bench  *bench.Bench
	plan   *plan.Plan
	out    string
	inputs map[string]string
	plots  []report.Plot
}

// prepare plans a bench as the flags say.
func (a *app) prepare(b *bench.Bench, f runFlags, place *jobenv.Job, several bool, read benchValues) (planned, error) {
	axes, options := read(b)
	chosen, err := preset(b, f.profile)
	if err != nil {
		return planned{}, err
	}
	req := plan.Request{
		Axes: slices.Concat(chosen, applicable(b, f.axes, several), axes), Envs: f.envs, Skips: applicable(b, f.skips, several), Only: f.only,
		Options: options, Trials: f.trials, Seed: f.seed, Threads: f.threads, Bind: plan.Bind(f.bind),
	}
	if f.ranks != "" {
		req.Axes = append(req.Axes, plan.Assign{Name: bench.RanksAxis, Text: f.ranks})
	}
	for _, z := range f.zips {
		req.Zips = append(req.Zips, strings.Split(z, ","))
	}
	if req.Backend, err = a.backend(b, f.backend, place); err != nil {
		return planned{}, err
	}
	if place != nil {
		if err := canJoin(b, req.Backend, place); err != nil {
			return planned{}, err
		}
		req.World = &plan.World{Ranks: place.Size, Reason: fmt.Sprintf("this job has %d ranks: have its launcher start another number, or start %s alone and let it start them", place.Size, a.name)}
	}
	if req.Inputs, err = inputFiles(b, options); err != nil {
		return planned{}, err
	}
	p, err := plan.Make(b, req)
	if err != nil {
		return planned{}, err
	}
	return planned{bench: b, plan: p, out: runFolder(b, f.out, several), inputs: req.Inputs}, nil
}

// drawable makes sure that the rows will have what the plots name: a slip should
// not show at the end of a long run. A metric that is not declared is a slip
// where rows have no others, and a doubt where a body may report it yet.
func (j planned) drawable(plots []report.Plot) (doubts []error, err error) {
	h := &journal.Header{Axes: j.plan.Axes, Envs: j.plan.Envs}
	metrics, all := j.bench.Metrics()
	if !all {
		metrics = append(metrics, journal.MetricInfo{Name: bench.LimitMetric})
	}
	for _, p := range plots {
		if err := p.Check(h, j.plan.Options); err != nil {
			return nil, err
		}
		if err := p.CheckMetric(metrics); err != nil {
			if all {
				return nil, err
			}
			doubts = append(doubts, err)
		}
	}
	return doubts, nil
}

// runFolder is where the rows go: --out, with a folder of its own for each of
// several benches, or the bench's own choice.
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

// knownAnywhere refuses a name that none of the selected benches has. A name
// that only some have applies to those.
func knownAnywhere(benches []*bench.Bench, f runFlags) error {
	if len(benches) < 2 {
		return nil // the planner says it better
	}
	for _, as := range slices.Concat(f.axes, f.skips) {
		var names []string
		for _, b := range benches {
			names = append(names, axisNames(b)...)
		}
		isEnv := slices.ContainsFunc(f.envs, func(e plan.Assign) bool { return e.Name == as.Name })
		if !slices.Contains(names, as.Name) && !isEnv {
			return suggest.Unknown("axis", as.Name, names)
		}
	}
	return nil
}

// applicable keeps the assignments whose axis the bench has; with one bench
// all are kept, so that the planner reports the typo.
func applicable(b *bench.Bench, list []plan.Assign, several bool) []plan.Assign {
	names := axisNames(b)
	return slices.DeleteFunc(slices.Clone(list), func(as plan.Assign) bool {
		return several && !slices.Contains(names, as.Name)
	})
}

func axisNames(b *bench.Bench) []string {
	names := []string{bench.RanksAxis}
	for _, p := range b.Parts {
		for _, x := range p.Axes {
			names = append(names, x.Name)
		}
		for _, e := range p.Envs {
			names = append(names, e.Name)
		}
	}
	return names
}

// backend resolves --backend for a bench.
func (a *app) backend(b *bench.Bench, asked string, place *jobenv.Job) (string, error) {
	can := b.Backends
	if len(can) == 0 {
		can = []string{"cpu"}
	}
	if asked == "auto" && place != nil && isMPI(place.Launcher) && slices.Contains(can, mpiBackend) {
		return mpiBackend, nil
	}
	if asked == "auto" {
		return can[0], nil
	}
	if slices.Contains(can, asked) {
		return asked, nil
	}
	if slices.ContainsFunc(a.benches, func(other *bench.Bench) bool { return slices.Contains(other.Backends, asked) }) {
		return "", fmt.Errorf("bench %s does not run on backend %s, only on %s", b.Name, asked, strings.Join(can, ", "))
	}
	return "", fmt.Errorf("bench %s: %w", b.Name, suggest.Unknown("backend", asked, append([]string{"auto"}, can...)))
}

// inputFiles hashes the files that options name.
func inputFiles(b *bench.Bench, given []plan.Assign) (map[string]string, error) {
	inputs := map[string]string{}
	for _, o := range b.Options {
		if !o.File {
			continue
		}
		path := o.Default.String()
		for _, g := range given {
			if g.Name == o.Name {
				path = g.Text
			}
		}
		if path == "" {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", o.Name, err)
		}
		inputs[o.Name] = fmt.Sprintf("%x", sha256.Sum256(data))
	}
	return inputs, nil
}
