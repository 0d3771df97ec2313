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
		return r.suite(name, 2*time.Second) // of a planted error that hangs
	}
}

// suite runs the conformance suite as one of its processes.
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

// kind is a case's name without the number of ranks, or which mistake it is.
func kind(name string) string {
	first, _, _ := strings.Cut(name, "/")
	return first
}

// fewTypes names the backend with two element types, one of MPI's own and one of
// ours. More ranks of a library that does not yield than there are cores wait
// most of the time: there the suite leaves the other types to the two ranks that
// have them all.
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

// The whole suite on one host; and as if every rank were on a host of its own
// that part of it which depends on how ranks agree. A library that does not yield
// burns the cores while more ranks than these wait: four get there what a power of two
// changes, and what is apart the agreements alone. The whole suite with four ranks of such
// a library is part of kernbench selftest --backend mpi, where there are four cores. With
// -short it is for the race detector: what goroutines share is the same for both libraries.
func TestConformance(t *testing.T) {
	const agreements = "barrier,subgroups,async,messages,misuse,absent,left,cancelled,refused"
	for _, l := range launchers {
		agreeing, four, atLeast := "allreduce,"+agreements, "", 16
		if !l.yields {
			agreeing, four, atLeast = agreements, "allreduce,reduce_scatter,alltoall,subgroups", 4
		}
		for _, c := range []struct {
			ranks       int
			hosts, only string
			least       int // cases: what is not run shows nothing
			always      bool
		}{
			{1, "", "", 16, false}, {2, "", "", 17, l.yields}, {3, "", "", 36, l.yields}, {4, "", four, atLeast, false},
			{2, "apart", agreeing, 5, false}, {3, "apart", agreeing, 24, l.yields},
		} {
			if testing.Short() && !c.always {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d%s", l.family, c.ranks, c.hosts), func(t *testing.T) {
				types := ""
				if !l.yields && c.ranks > 2 {
					types = fewTypes
				}
				out, err := l.ranks(t, c.ranks, "suite", hostsVar+"="+c.hosts, onlyVar+"="+c.only, argVar+"="+types)
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

// planted is a backend whose calls on rank 1 go wrong in some way.
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

func (s spoiled) Prepare(p dist.Plan) (func() error, error) {
	run, err := s.Engine.Prepare(p)
	if err != nil || s.Rank() != 1 {
		return run, err
	}
	return s.spoil(p, run), nil
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

// The suite must find what is wrong: a suite that cannot fail shows nothing.
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
