// Package disttest is the conformance suite of dist: it checks that a backend does what its capabilities declare. Tests
// of backends run it (Run), and so does kernbench selftest, with real processes.
//
// Inputs are integers hashed from seed, rank and position. Their range is so small that every partial sum, in any
// order, is exact in the element type. So all algorithms, chunks and rank counts must return the bits of a plain
// reference, and a wrong, missing, duplicated or misplaced element is detected.
package disttest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kernbench/kernbench/dist"
)

// Suite describes the groups to check.
type Suite struct {
	// Open returns the ranks of a new group that are in this process, in rank order. timeout is its Config.Timeout. If
	// other processes have ranks too, they all run the same cases in the same order.
	Open func(size int, timeout time.Duration) ([]*dist.Group, error)
	// Meet waits for the other processes without using a group; nil if there are none.
	Meet  func() error
	Sizes []int // numbers of ranks to check
	Short bool  // check fewer combinations
}

// Case is one check of the suite, for groups of one size. Check returns ErrNotDeclared if the backend does not declare
// the capability that it needs.
type Case struct {
	Name  string
	Size  int
	Check func() error
}

// ErrNotDeclared is the error of a case that needs a capability that the backend does not declare.
var ErrNotDeclared = errors.New("the backend does not declare")

// T is the part of *testing.T that the suite uses.
type T[Self any] interface {
	Run(name string, f func(Self)) bool
	Error(args ...any)
	Skip(args ...any)
}

// Run runs every case as a test.
func Run[Self T[Self]](t Self, s Suite) {
	for _, c := range s.Cases() {
		t.Run(c.Name, func(t Self) {
			switch err := c.Check(); {
			case errors.Is(err, ErrNotDeclared):
				t.Skip(err)
			case err != nil:
				t.Error(err)
			}
		})
	}
}

// Cases returns all checks.
func (s Suite) Cases() []Case {
	var cases []Case
	var shared vectors
	for _, size := range s.Sizes {
		for _, op := range dist.Collectives() {
			if !op.PointToPoint() {
				cases = append(cases, Case{fmt.Sprintf("%s/%d", op, size), size, func() error {
					return s.matrix(size, op, &shared)
				}})
			}
		}
		add := func(name string, n needs, body func(g *dist.Group) error) {
			cases = append(cases, Case{fmt.Sprintf("%s/%d", name, size), size, func() error {
				return s.together(size, n, body)
			}})
		}
		add("bits", needs{ops: ops(dist.AllReduce, dist.AllGather), types: types(dist.F64, dist.F32, dist.F16, dist.BF16)},
			s.bits)
		add("epilogue", needs{ops(dist.AllReduce, dist.ReduceScatter, dist.AllGather), types(dist.F32, dist.BF16),
			"epilogues",
			has(dist.FusedEpilogue)}, epilogues)
		add("norm", needs{ops(dist.AllReduce), types(dist.F32, dist.F16, dist.BF16), "epilogues",
			has(dist.FusedEpilogue)}, norms)
		add("codec", needs{ops(dist.AllReduce, dist.AllGather), types(dist.F32, dist.BF16), "codecs", coded}, codecs)
		add("quantised", needs{ops(dist.AllReduce), types(dist.F32, dist.F16, dist.BF16), "the codecs of package dist",
			quantising}, quantised)
		add("counts", needs{ops(dist.Barrier), types(dist.F64), "counts of blocks", blocks}, counts)
		add("subgroups", needs{ops: ops(dist.AllReduce, dist.AllGather), types: types(dist.F32, dist.F64)}, subgroups)
		add("async", needs{ops: ops(dist.AllReduce), types: types(dist.F64)}, async)
		add("begun", needs{ops: ops(dist.AllReduce, dist.Send, dist.Recv), types: types(dist.F64)}, halves)
		add("messages", needs{ops: ops(dist.Send, dist.Recv, dist.AllReduce), types: types(dist.F32, dist.F64)}, messages)
		add("memory", needs{ops(dist.AllReduce), types(dist.F32), "symmetric memory",
			has(dist.SymmetricMemory)}, memory)
	}
	for _, m := range mistakes() {
		cases = append(cases, Case{"misuse/" + m.name, mistakeRanks, func() error { return s.mistake(m) }})
	}
	return append(cases, Case{"absent", mistakeRanks, s.absent}, Case{"left", mistakeRanks, s.left},
		Case{"cancelled", mistakeRanks, s.cancelled}, Case{"refused", 2, s.refused})
}

const (
	guardTimeout = 30 * time.Second // timeout of groups in which all ranks respond; it only guards against hangs
	// absentTimeout is the timeout of groups in which a rank is missing on purpose. It must be longer
	// than a busy machine delays a rank that does respond.
	absentTimeout = 3 * time.Second
)

// meet is a barrier of all processes. It keeps ranks from continuing while some are still in a call
// that must fail.
func (s Suite) meet() error {
	if s.Meet == nil {
		return nil
	}
	return s.Meet()
}

// together runs body on every rank of a new group and returns all errors.
func (s Suite) together(size int, n needs, body func(g *dist.Group) error) error {
	groups, err := s.Open(size, guardTimeout)
	if err != nil {
		return err
	}
	errs := []error{n.missing(groups[0])}
	if errs[0] == nil {
		errs = parallel(groups, body)
	}
	for _, g := range groups {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}

// needs lists the capabilities that a case requires.
type needs struct {
	ops   []dist.Collective
	types []dist.DType
	what  string // name of the requirement that has checks, for the error
	has   func(dist.Capabilities) bool
}

func ops(list ...dist.Collective) []dist.Collective { return list }
func types(list ...dist.DType) []dist.DType         { return list }

// missing returns an error that names the first capability that the group's backend does not declare,
// or nil.
func (n needs) missing(g *dist.Group) error {
	c := g.Capabilities()
	for _, op := range n.ops {
		if !slices.Contains(c.Ops, op) {
			return fmt.Errorf("%w %s", ErrNotDeclared, op)
		}
	}
	for _, d := range n.types {
		if !slices.Contains(c.DTypes, d) {
			return fmt.Errorf("%w %s", ErrNotDeclared, d)
		}
	}
	if n.has != nil && !n.has(c) {
		return fmt.Errorf("%w %s", ErrNotDeclared, n.what)
	}
	return nil
}

var joined atomic.Int64

// Join returns a group whose ranks are goroutines of this process, in rank order. It fills in rank, size and a unique
// ID. It serves as [Suite.Open] of a backend that allows several ranks in one process. of, if not nil, changes the
// configuration of a rank.
func Join(size int, c dist.Config, of func(*dist.Config)) ([]*dist.Group, error) {
	c.Size, c.ID = size, fmt.Sprintf("%s-test-%d-%d-%d", c.Backend, os.Getpid(), time.Now().UnixNano(), joined.Add(1))
	groups, errs := make([]*dist.Group, size), make([]error, size)
	var ranks sync.WaitGroup
	for r := range size {
		ranks.Go(func() {
			own := c
			if own.Rank = r; of != nil {
				of(&own)
			}
			groups[r], errs[r] = dist.Init(context.Background(), own)
		})
	}
	ranks.Wait()
	return groups, errors.Join(errs...)
}

// Each runs body on all ranks at the same time and returns their errors, by rank.
func Each(groups []*dist.Group, body func(g *dist.Group) error) []error {
	errs := make([]error, len(groups))
	var ranks sync.WaitGroup
	for i, g := range groups {
		ranks.Go(func() { errs[i] = body(g) })
	}
	ranks.Wait()
	return errs
}

// Ranks runs body on all ranks of a new group (see [Join]) and closes the group. If the group cannot
// be joined, every rank gets that error.
func Ranks(size int, c dist.Config, body func(g *dist.Group) error) []error {
	groups, err := Join(size, c, nil)
	if err != nil {
		return slices.Repeat([]error{err}, size)
	}
	return Each(groups, func(g *dist.Group) error {
		defer g.Close()
		return body(g)
	})
}

// parallel is Each for the suite: it closes the group of a rank that fails, so that the others do not wait for it.
func parallel(groups []*dist.Group, body func(g *dist.Group) error) []error {
	return Each(groups, func(g *dist.Group) error {
		err := body(g)
		if err == nil {
			return nil
		}
		g.Close()
		return fmt.Errorf("rank %d of %d: %w", g.Rank(), g.Size(), err)
	})
}

// counts returns the vector lengths to check: 0, fewer than ranks, not divisible, and long enough for every code path.
func (s Suite) counts(size int) []int {
	c := []int{0, 1, 2, size - 1, size + 1, 17, 1000, 65537}
	if s.Short {
		c = []int{0, 1, size + 1, 1000, 33333}
	}
	slices.Sort(c)
	return slices.Compact(c)
}

// has returns a function that reports whether a group has a feature.
func has(f dist.Feature) func(dist.Capabilities) bool {
	return func(c dist.Capabilities) bool { return c.Has(f) }
}
