package selftest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/cuda/overlap"
	"github.com/kernbench/kernbench/dist/disttest"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/cli/job"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/kernel/gpugemm"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/device"
	"github.com/kernbench/kernbench/internal/solve/devicetest"
	"github.com/kernbench/kernbench/internal/view/export"
)

// The suite runs as a hidden bench: its ranks are started, watched and ended like those of any
// bench, and report through a journal.
const benchName = "kernbench-selftest"

// The parts of the bench.
const (
	workersPart     = "workers"
	conformancePart = "conformance"
	apartPart       = "apart" // conformance of ranks that pretend to be on different hosts
	solvesPart      = "solves"
)

// pointLimit limits the time of all cases of one group size, which normally take seconds.
const pointLimit = 50 * time.Second

// Bench returns the bench that the worker processes of a self-test run.
func Bench() *bench.Bench {
	return bench.Suite(benchName,
		bench.Help("the self-test's worker processes"),
		bench.Backends(dist.Backends(nil)...),
		bench.Part(workersPart, meet, bench.Ranks("2"), bench.Timeout(pointLimit)),
		bench.Part(conformancePart, conform, bench.Ranks("1,2,3"), bench.Timeout(pointLimit)),
		bench.Part(apartPart, conformApart, bench.Ranks("2,3"), bench.Timeout(pointLimit)),
		bench.Part(solvesPart, solves, bench.Ranks("1,2"), bench.Timeout(2*pointLimit)))
}

// meetSamples is the number of timed barriers of workers that meet.
const meetSamples = 8

// meet checks that workers start and reach each other, and times a few barriers.
func meet(ctx context.Context, s *bench.State) error {
	all, err := bench.Gather(ctx, s, []int64{int64(s.Rank())})
	if err != nil {
		return err
	}
	for rank, got := range all {
		if !slices.Equal(got, []int64{int64(rank)}) {
			return fmt.Errorf("received %d from rank %d, want its number", got, rank)
		}
	}
	s.Report("cases", 1, "", "")
	stop := &s.Sampling().Stop
	stop.MinSamples, stop.MaxSamples, stop.MinTime = meetSamples, meetSamples, 0
	return s.Time(ctx, func() error { return s.Barrier(ctx) })
}

// conform runs the suite with all ranks on this host.
func conform(ctx context.Context, s *bench.State) error { return suite(ctx, s, "") }

// conformApart runs the suite with every rank pretending to be on its own host, so that the ranks
// use the network.
func conformApart(ctx context.Context, s *bench.State) error {
	return suite(ctx, s, fmt.Sprintf("host %d", s.Rank()))
}

// suite runs the cases of the conformance suite for groups of this size, as one rank.
func suite(ctx context.Context, s *bench.State, host string) error {
	opened := 0
	all := disttest.Suite{
		Sizes: []int{s.Size()}, Short: true, Meet: func() error { return s.Barrier(ctx) },
		Open: func(size int, timeout time.Duration) ([]*dist.Group, error) {
			opened++
			g, err := dist.Init(ctx, dist.Config{Backend: s.Backend(), Rank: s.Rank(), Size: size, Timeout: timeout,
				ID: fmt.Sprintf("%s/%d", s.Session(), opened), Host: host, Exchange: s.Exchange})
			return []*dist.Group{g}, err
		},
	}
	var faults []error
	cases, lacking := 0, 0
	for _, c := range all.Cases() {
		if c.Size != s.Size() {
			continue
		}
		s.Phase(c.Name)
		err := c.Check()
		reason, unavailable := errors.AsType[*dist.UnavailableError](err)
		switch {
		case errors.Is(err, disttest.ErrNotDeclared):
			lacking++
		case unavailable:
			return bench.NotExecuted(false, "%v", reason)
		case err != nil:
			faults = append(faults, fmt.Errorf("%s: %w", c.Name, err))
		default:
			cases++
		}
		if err := s.Barrier(ctx); err != nil {
			return errors.Join(append(faults, err)...)
		}
	}
	if s.Backend() == gpugemm.Backend {
		s.Phase("products and their all-reduce")
		if err := products(ctx, s); err != nil {
			faults = append(faults, err)
		} else {
			cases++
		}
	}
	s.Phase("the suite") // the faults name their own phases
	s.Report("cases", float64(cases), "", "")
	s.Report("lacking", float64(lacking), "", "")
	return errors.Join(faults...)
}

// products checks the kernels that overlap a matrix product with its all-reduce.
func products(ctx context.Context, s *bench.State) error {
	g, err := dist.Init(ctx, dist.Config{Backend: s.Backend(), Rank: s.Rank(), Size: s.Size(), Timeout: pointLimit / 2,
		ID: s.Session() + "/products"})
	if err != nil {
		return err
	}
	return errors.Join(overlap.Check(g), g.Close())
}

// solves runs the suite of linear solves on a device.
func solves(ctx context.Context, s *bench.State) error {
	g, err := dist.Init(ctx, dist.Config{Backend: s.Backend(), Rank: s.Rank(), Size: s.Size(), Timeout: pointLimit,
		ID: s.Session() + "/" + solvesPart, Exchange: s.Exchange})
	if reason, unavailable := errors.AsType[*dist.UnavailableError](err); unavailable {
		return bench.NotExecuted(false, "%v", reason)
	}
	if err != nil {
		return err
	}
	defer g.Close()
	cases, faults := devicetest.Faults(g, false)
	s.Report("cases", float64(cases), "", "")
	return errors.Join(faults...)
}

// workers checks that worker processes start.
func (s session) workers(ctx context.Context) error {
	return s.run(ctx, target{hints.HostBackend, workersPart, nil}, func(row *journal.Row) Result {
		return Result{Area: "host", Name: "worker processes",
			Detail: fmt.Sprintf("%d started and reached each other", *row.NumRanks)}
	})
}

// storedTimes recomputes the times that workers have measured from their stored samples, as
// `verify` does.
func (s session) storedTimes() {
	s.check("host", "stored times", func() (string, error) {
		dir := s.folder(target{backend: hints.HostBackend, part: workersPart})
		_, run, err := journal.LoadRun(dir)
		if err != nil {
			return "", err
		}
		recomputed, rows := 0, dataset.Latest(run)
		for i := range rows {
			if rows[i].Status.Bad() {
				return "", skip("the workers failed")
			}
			done, err := export.NewVerifier(dir).Verify(rows[i])
			if err != nil {
				return "", err
			}
			if done {
				recomputed++
			}
		}
		if recomputed == 0 {
			return "", errors.New("no time has stored samples")
		}
		return unit.Plural(recomputed, "time") + " recomputed from stored samples", nil
	})
}

// folder returns the RUN folder of a target.
func (s session) folder(t target) string { return filepath.Join(s.dir, t.part, t.backend) }

// backends runs the conformance suite of each backend.
func (s session) backends(ctx context.Context, names []string) error {
	for _, name := range names {
		if ctx.Err() != nil {
			return nil
		}
		if dist.Describe(name).Virtual {
			s.check("backends", name, func() (string, error) {
				return "", skip("it only simulates schedules and moves no data")
			})
			continue
		}
		launcher, err := job.Launcher(ctx, cmp.Or(s.Launcher, "auto"), "", name)
		if err != nil {
			s.check("backends", name, func() (string, error) { return "", s.absent(err) })
			continue
		}
		if err := s.conformance(ctx, name, target{name, conformancePart, launcher}); err != nil {
			return err
		}
		if s.Backend != "" && device.SupportsBackend(name) {
			if err := s.conformance(ctx, "solves on "+name, target{name, solvesPart, launcher}); err != nil {
				return err
			}
		}
		if name == hints.HostBackend {
			if err := s.conformance(ctx, name+" over TCP", target{name, apartPart, launcher}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s session) conformance(ctx context.Context, name string, t target) error {
	return s.run(ctx, t, func(row *journal.Row) Result {
		detail := fmt.Sprintf("%.0f cases", row.Metrics["cases"])
		if lacking := row.Metrics["lacking"]; lacking > 0 {
			detail += fmt.Sprintf(", %.0f not offered", lacking)
		}
		return Result{Area: "backends", Name: fmt.Sprintf("%s, %s", name, unit.Plural(*row.NumRanks, "rank")), Detail: detail}
	})
}

// absent returns the result for an unavailable backend: a failure if --backend names it, else a
// skip.
func (s session) absent(reason error) error {
	if s.Backend != "" {
		return reason
	}
	return skip("%v", reason)
}

// launcherEnviron lets Open MPI's launcher run as root and with more ranks than cores, which it
// refuses by default. Both are harmless for a self-test.
var launcherEnviron = []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
	"OMPI_MCA_rmaps_base_oversubscribe=1"}

// target selects what one run of the bench checks.
type target struct {
	backend, part string
	launcher      *run.Launcher
}

// run runs a part of the bench on a backend and reports a result for each row.
func (s session) run(ctx context.Context, t target, passed func(*journal.Row) Result) error {
	if ctx.Err() != nil {
		return nil
	}
	b := Bench()
	b.Parts = slices.DeleteFunc(b.Parts, func(p *decl.Part) bool { return p.Name != t.part })
	environ := s.Environ
	if t.launcher != nil {
		environ = append(slices.Clone(environ), launcherEnviron...)
		b.Parts[0].Drops = append(b.Parts[0].Drops, enoughCores)
	}
	req := plan.Request{Backend: t.backend, Bind: plan.BindNone}
	if s.Backend != "" { // with a single backend there is time for four ranks
		req.Axes = []plan.Assign{{Name: bench.RanksAxis, Text: "1,2,3,4"}}
		if t.part == apartPart {
			req.Axes[0].Text = "2,3,4"
		}
	}
	p, err := plan.Make(b, req)
	if err != nil {
		return err
	}
	began, available := time.Now(), false
	_, err = run.Run(ctx, p, run.Options{
		Dir: s.folder(t), Argv: []string{benchName}, Environ: environ, Launcher: t.launcher,
		Observe: func(e run.Event) {
			if e.Recorded != nil && ctx.Err() == nil {
				available = available || e.Recorded.Status == journal.OK
				s.row(e.Recorded, passed(e.Recorded), available, time.Since(began))
				began = time.Now()
			}
		},
	})
	return err
}

// enoughCores drops points with more ranks than cores. Libraries may spin while waiting, so such
// points could take minutes.
func enoughCores(p point.Point) error {
	if ranks, has := int(p.At(bench.RanksAxis).Int()), len(cores.Allowed()); ranks > 2 && ranks > has {
		return fmt.Errorf("its ranks may spin while waiting: %d ranks need as many cores, this process has %d", ranks, has)
	}
	return nil
}

// row reports the result of a row. here is true if the backend has passed with fewer ranks, so
// that it is certainly available.
func (s session) row(row *journal.Row, r Result, available bool, took time.Duration) {
	r.Seconds = took.Seconds()
	switch row.Status {
	case journal.OK:
		r.Status = Passed
	case journal.Skipped, journal.NotExecuted:
		r.Status, r.Detail = Skipped, string(row.Reason)
		if row.Status == journal.NotExecuted && s.Backend != "" && !available {
			r.Status = Failed // --backend names it, but it is not available
		}
	default:
		r.Status, r.Detail = Failed, string(row.Reason)
		if row.Rank != nil {
			r.Detail = fmt.Sprintf("rank %d, in %s: %s", *row.Rank, row.Phase, row.Reason)
		}
	}
	s.Report(r)
}
