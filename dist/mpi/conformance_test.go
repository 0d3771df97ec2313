package mpi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/disttest"
)

// onlyVar names the cases to run, separated by commas; "" runs all.
const onlyVar = "MPI_TEST_ONLY"

func init() {
	bodies["suite"] = func(r *rank) error {
		if os.Getenv(argVar) != fewTypes {
			return r.suite(Name, hangs)
		}
		dist.Register(dist.Description{Name: fewTypes}, few{})
		return r.suite(fewTypes, hangs)
	}
	bodies["planted"] = func(r *rank) error {
		name := "mpi-" + os.Getenv(argVar)
		dist.Register(dist.Description{Name: name}, planted{spoil: plants[os.Getenv(argVar)].spoil})
		return r.suite(name, 2*time.Second) // short, because a planted fault may hang
	}
}

// suite runs the conformance suite in one of its processes.
func (r *rank) suite(backend string, limit time.Duration) error {
	s := disttest.Suite{Sizes: []int{r.size}, Short: true, Meet: r.meet,
		Open: func(size int, timeout time.Duration) ([]*dist.Group, error) {
			g, err := r.joinBy(backend, min(timeout, limit))
			return []*dist.Group{g}, err
		}}
	only := strings.Split(os.Getenv(onlyVar), ",")
	var faults []error
	for _, c := range s.Cases() {
		if c.Size != r.size || only[0] != "" && !slices.Contains(only, kind(c.Name)) {
			continue
		}
		if err := c.Check(); err != nil && !errors.Is(err, disttest.ErrNotDeclared) {
			faults = append(faults, fmt.Errorf("%s: %w", c.Name, err))
		}
		if r.rank == 0 {
			fmt.Println("CHECKED", c.Name)
		}
		if err := r.meet(); err != nil {
			return err
		}
	}
	return errors.Join(faults...)
}

// kind returns a case's name without the number of ranks, or the mistake that it tests.
func kind(name string) string {
	first, _, _ := strings.Cut(name, "/")
	return first
}

// fewTypes is a backend with two element types, one native to MPI and one with a user-defined
// operation. If a library does not yield the core, more ranks than cores make the suite wait most of
// the time. With such libraries, only the two-rank suite tests all types.
const fewTypes = "mpi-few-types"

type few struct{ backend }

func (b few) Join(ctx context.Context, c dist.Config) (dist.Engine, error) {
	e, err := b.backend.Join(ctx, c)
	return narrowed{e}, err
}

func (few) Close() error { return nil } // MPI is finalized by the real backend

type narrowed struct{ dist.Engine }

func (n narrowed) Capabilities() dist.Capabilities {
	c := n.Engine.Capabilities()
	c.DTypes = []dist.DType{dist.F32, dist.BF16}
	return c
}

// Runs the whole suite. Libraries that do not yield the core are slow with more ranks than
// cores: four ranks then test only what a power of two changes, and the agreements. The whole suite
// with four ranks of such a library runs in kernbench selftest --backend mpi, on machines with four
// cores. With -short, only two ranks of each library run.
func TestConformance(t *testing.T) {
	for _, l := range launchers {
		four, atLeast := "", 16
		if !l.yields {
			four, atLeast = "allreduce,reduce_scatter,alltoall,subgroups", 4
		}
		for _, c := range []struct {
			ranks int
			only  string
			least int // least number of cases that must run
		}{{1, "", 16}, {2, "", 17}, {3, "", 36}, {4, four, atLeast}} {
			if testing.Short() && c.ranks != 2 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", l.family, c.ranks), func(t *testing.T) {
				types := ""
				if !l.yields && c.ranks > 2 {
					types = fewTypes
				}
				out, err := l.ranks(t, c.ranks, "suite", onlyVar+"="+c.only, argVar+"="+types)
				if err != nil {
					t.Errorf("%v\n%s", err, out)
				}
				if got := strings.Count(out, "CHECKED"); got < c.least {
					t.Errorf("%d cases were checked, want at least %d", got, c.least)
				}
			})
		}
	}
}

// planted is a backend with a fault in rank 1's calls.
type planted struct {
	backend
	spoil func(p dist.Plan, run func() error) func() error
}

func (b planted) Join(ctx context.Context, c dist.Config) (dist.Engine, error) {
	e, err := b.backend.Join(ctx, c)
	if err != nil {
		return nil, err
	}
	return spoiled{e, b.spoil}, nil
}

func (planted) Close() error { return nil } // MPI is finalized by the real backend

type spoiled struct {
	dist.Engine
	spoil func(p dist.Plan, run func() error) func() error
}

func (s spoiled) Prepare(p dist.Plan) (run, release func() error, err error) {
	run, release, err = s.Engine.Prepare(p)
	if err != nil || s.Rank() != 1 {
		return run, release, err
	}
	return s.spoil(p, run), release, nil
}

func after(change func(p dist.Plan)) func(dist.Plan, func() error) func() error {
	return func(p dist.Plan, run func() error) func() error {
		return func() error {
			err := run()
			change(p)
			return err
		}
	}
}

var plants = map[string]struct {
	ranks int
	found string // the case that must fail
	spoil func(dist.Plan, func() error) func() error
}{
	"element": {2, "allreduce", after(func(p dist.Plan) {
		if b := p.Out.Bytes(); p.Op == dist.AllReduce && p.Count == 33333 {
			b[len(b)-p.DType.Size()] ^= 1
		}
	})},
	"absence": {2, "barrier", func(dist.Plan, func() error) func() error {
		return func() error { return nil }
	}},
	"swallowed": {3, "misuse", func(_ dist.Plan, run func() error) func() error {
		return func() error { _ = run(); return nil }
	}},
}

// The suite finds planted faults, which shows that it can fail.
func TestSuiteFindsPlantedErrors(t *testing.T) {
	wait := map[string]func() (string, error){}
	for name, p := range plants {
		wait[name] = launchers[0].start(t, p.ranks, "planted", argVar+"="+name, onlyVar+"="+p.found)
	}
	for name, p := range plants {
		t.Run(name, func(t *testing.T) {
			out, err := wait[name]()
			if err == nil || !strings.Contains(out, "FAULT planted: "+p.found) {
				t.Errorf("the suite did not notice: %v\n%s", err, out)
			}
		})
	}
}
