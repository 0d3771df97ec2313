package cpu

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/disttest"
)

// Variants of the backend with other constants: one stores every output with non-temporal stores, the
// other starts its counters just before they wrap around.
const (
	streamed = "cpu-streamed"
	wrapping = "cpu-wrap"
)

func init() {
	dist.Register(dist.Description{Name: streamed}, backend{streamFrom: 1})
	dist.Register(dist.Description{Name: wrapping}, backend{firstEpoch: 1<<32 - 40})
}

// open returns a group whose ranks are goroutines of this process and use real shared memory.
func open(size int, timeout time.Duration) ([]*dist.Group, error) {
	return openOn(Name, size, timeout)
}

func openOn(backend string, size int, timeout time.Duration) ([]*dist.Group, error) {
	return disttest.Join(size, dist.Config{Backend: backend, Timeout: timeout}, nil)
}

func TestConformance(t *testing.T) {
	sizes := []int{1, 2, 3, 6}
	if testing.Short() {
		sizes = []int{3} // three ranks cover everything that two ranks do
	}
	disttest.Run(t, disttest.Suite{Open: open, Sizes: sizes, Short: testing.Short()})
}

// Outputs that are stored past the caches must be equal to ordinary ones, at any length, in place or
// not, with an epilogue or without.
func TestStreamed(t *testing.T) {
	open := func(size int, timeout time.Duration) ([]*dist.Group, error) {
		return openOn(streamed, size, timeout)
	}
	for _, c := range (disttest.Suite{Open: open, Sizes: []int{2, 3}, Short: true}).Cases() {
		switch c.Name {
		case "allreduce/2", "allreduce/3", "bits/3", "epilogue/2", "split/3":
			if err := c.Check(); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
	}
}

// Counters that wrap around between calls must not change any result.
func TestWrap(t *testing.T) {
	open := func(size int, timeout time.Duration) ([]*dist.Group, error) {
		return openOn(wrapping, size, timeout)
	}
	for _, c := range (disttest.Suite{Open: open, Sizes: []int{3}, Short: true}).Cases() {
		switch c.Name {
		case "allreduce/3", "misuse/later", "async/3", "reduce/3":
			if err := c.Check(); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
	}
}

// planted is a backend with a bug: spoil changes the calls of rank 1.
type planted struct {
	backend
	spoil func(p dist.Plan, run func() error) func() error
	eager bool // the bug: the first half of a call waits for other ranks
}

func (b planted) Join(ctx context.Context, c dist.Config) (dist.Engine, error) {
	e, err := b.backend.Join(ctx, c)
	if err != nil {
		return nil, err
	}
	return spoiled{e, b.spoil, b.eager}, nil
}

type spoiled struct {
	dist.Engine
	spoil func(p dist.Plan, run func() error) func() error
	eager bool
}

func (s spoiled) Prepare(p dist.Plan) (run, release func() error, err error) {
	run, release, err = s.Engine.Prepare(p)
	if err != nil || s.Rank() != 1 {
		return run, release, err
	}
	return s.spoil(p, run), release, nil
}

// PrepareHalves plants the bug in the second half, or does all the work in the first half if eager is
// set.
func (s spoiled) PrepareHalves(p dist.Plan) (func() error, func() error, func() bool, error) {
	begin, finish, arrived, err := s.Engine.(localEngine).PrepareHalves(p)
	if err != nil || begin == nil || s.Rank() == 2 {
		return begin, finish, arrived, err
	}
	if s.eager {
		both := func() error { return errors.Join(begin(), finish()) }
		return both, func() error { return nil }, nil, nil
	}
	return begin, s.spoil(p, finish), arrived, nil
}

// everySecond plants a bug that skips the last element of the output in every second run of a prepared
// call.
func everySecond(op dist.Collective) func(dist.Plan, func() error) func() error {
	return func(p dist.Plan, run func() error) func() error {
		runs := 0
		return func() error {
			if runs++; p.Op != op || runs%2 == 1 || p.Out.Count() == 0 {
				return run()
			}
			last := p.Out.Slice(p.Out.Count()-1, 1).Bytes()
			was := bytes.Clone(last)
			err := run()
			copy(last, was)
			return err
		}
	}
}

// reordered runs tree when ring is asked for. The sums are correct and equal on all ranks, but they
// are not rounded in the order of ring's steps.
type reordered struct{ backend }

type reorderedEngine struct{ dist.Engine }

func (b reordered) Join(ctx context.Context, c dist.Config) (dist.Engine, error) {
	e, err := b.backend.Join(ctx, c)
	return reorderedEngine{e}, err
}

func (e reorderedEngine) Prepare(p dist.Plan) (run, release func() error, err error) {
	if p.Algorithm == "ring" && p.Op == dist.AllReduce && !p.Steps {
		p.Algorithm = "tree"
	}
	return e.Engine.Prepare(p)
}

func TestSuiteHoldsCodeToItsSteps(t *testing.T) {
	dist.Register(dist.Description{Name: "cpu-reordered"}, reordered{})
	open := func(size int, timeout time.Duration) ([]*dist.Group, error) {
		return openOn("cpu-reordered", size, timeout)
	}
	for _, c := range (disttest.Suite{Open: open, Sizes: []int{3}, Short: true}).Cases() {
		if c.Name != "bits/3" {
			continue
		}
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), "by its own code or by its steps") {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

// eager names the bug of a first half that waits for other ranks.
const eager = "first half waits"

// The conformance suite must find planted bugs. Otherwise its passing would prove nothing.
func TestSuiteFindsPlantedErrors(t *testing.T) {
	after := func(change func(p dist.Plan)) func(dist.Plan, func() error) func() error {
		return func(p dist.Plan, run func() error) func() error {
			return func() error {
				err := run()
				change(p)
				return err
			}
		}
	}
	for _, plant := range []struct {
		name  string
		found string // the case of the suite that must fail
		spoil func(dist.Plan, func() error) func() error
	}{
		{"last element off by one", "allreduce/2", after(func(p dist.Plan) {
			if b := p.Out.Bytes(); p.Op == dist.AllReduce && p.Count == 33333 {
				b[len(b)-p.DType.Size()] ^= 1
			}
		})},
		{"input changed", "reduce_scatter/3", after(func(p dist.Plan) {
			if b := p.In.Bytes(); len(b) > 0 && !p.InPlace {
				b[0] ^= 1
			}
		})},
		{"flag dropped", "barrier/2", func(p dist.Plan, run func() error) func() error {
			return func() error { return nil } // rank 1 never signals
		}},
		{"other bits on one rank", "bits/3", after(func(p dist.Plan) {
			if b := p.Out.Bytes(); p.Op == dist.AllReduce && p.DType == dist.BF16 {
				b[0] ^= 1
			}
		})},
		{"epilogue wrong", "epilogue/2", after(func(p dist.Plan) {
			if b := p.Out.Bytes(); p.Epilogue != nil && len(b) > 0 {
				b[0] ^= 1
			}
		})},
		{"every second run wrong", "allreduce/2", everySecond(dist.AllReduce)},
		{"every second run wrong, of another operation", "alltoall/3", everySecond(dist.AllToAll)},
		{"a block of given length wrong", "counts/3", after(func(p dist.Plan) {
			if b := p.Out.Bytes(); p.Counts != nil && p.Op == dist.Gather && len(b) > 0 {
				b[len(b)-1] ^= 1
			}
		})},
		{"second half wrong", "begun/2", after(func(p dist.Plan) {
			if b := p.Out.Bytes(); p.Op == dist.AllReduce && p.Count == 3 {
				b[0] ^= 1
			}
		})},
		{eager, "begun/3", after(func(dist.Plan) {})},
		{"message torn", "messages/3", after(func(p dist.Plan) {
			if b := p.Out.Bytes(); p.Op == dist.Recv && len(b) > 100 {
				b[99] ^= 1
			}
		})},
		{"mistake swallowed", "misuse/count", func(p dist.Plan, run func() error) func() error {
			return func() error { run(); return nil }
		}},
	} {
		t.Run(plant.name, func(t *testing.T) {
			name := "cpu-" + plant.name
			dist.Register(dist.Description{Name: name}, planted{spoil: plant.spoil, eager: plant.name == eager})
			open := func(size int, timeout time.Duration) ([]*dist.Group, error) {
				return openOn(name, size, min(timeout, time.Second))
			}
			for _, c := range (disttest.Suite{Open: open, Sizes: []int{2, 3}, Short: true}).Cases() {
				if c.Name == plant.found && c.Check() == nil {
					t.Errorf("%s did not notice", c.Name)
				}
			}
		})
	}
}
