// Package disttest is the conformance suite of dist: what every backend must do
// for the capabilities it declares. It is for tests of backends.
//
// Inputs are small integers hashed from seed, rank and position, with a range
// chosen so that every partial sum in any order is exact in the element type. So
// all algorithms, chunks and rank counts must give the very same bits, those of a plain
// reference; a wrong, missing, doubled or misplaced element shows.
package disttest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
)

// Suite says how to get groups to check.
type Suite struct {
	// Open makes a new group with the given Config.Timeout, and gives its ranks
	// that are in this process, in rank order. Where others have ranks too they
	// all run the same cases in the same order.
	Open func(size int, timeout time.Duration) ([]*dist.Group, error)
	// Meet waits for the other processes, by other means than a group; nil where
	// there are none.
	Meet  func() error
	Sizes []int // numbers of ranks to check
	Short bool  // fewer combinations
}

// Case is one check of the suite.
type Case struct {
	Name  string
	Check func() error
}

// Run checks everything, each case as a test.
func Run(t *testing.T, s Suite) {
	for _, c := range s.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Cases lists the checks.
func (s Suite) Cases() []Case {
	var cases []Case
	for _, size := range s.Sizes {
		for _, op := range dist.Collectives() {
			if !op.PointToPoint() {
				cases = append(cases, Case{fmt.Sprintf("%s/%d", op, size), func() error { return s.matrix(size, op) }})
			}
		}
		add := func(name string, body func(g *dist.Group) error) {
			cases = append(cases, Case{fmt.Sprintf("%s/%d", name, size), func() error { return s.together(size, body) }})
		}
		add("bits", s.bits)
		add("epilogue", epilogues)
		add("codec", codecs)
		add("subgroups", subgroups)
		add("again", again)
		add("async", async)
		add("messages", messages)
		add("memory", memory)
	}
	for _, m := range mistakes() {
		cases = append(cases, Case{"misuse/" + m.name, func() error { return s.mistake(m) }})
	}
	return append(cases, Case{"absent", s.absent}, Case{"left", s.left}, Case{"refused", s.refused})
}

const (
	patience   = 30 * time.Second // guards against hanging
	impatience = time.Second      // where a rank is to be found missing
)

// meet keeps ranks of other processes from going on while some are still in a
// call that is to fail.
func (s Suite) meet() error {
	if s.Meet == nil {
		return nil
	}
	return s.Meet()
}

// together runs body on every rank of a new group and gives all their errors.
func (s Suite) together(size int, body func(g *dist.Group) error) error {
	groups, err := s.Open(size, patience)
	if err != nil {
		return err
	}
	errs := parallel(groups, body)
	for _, g := range groups {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}

// parallel runs body on every rank, and closes the group of one that fails so
// that the others do not wait for it.
func parallel(groups []*dist.Group, body func(g *dist.Group) error) []error {
	errs := make([]error, len(groups))
	var ranks sync.WaitGroup
	for i, g := range groups {
		ranks.Go(func() {
			if err := body(g); err != nil {
				errs[i] = fmt.Errorf("rank %d of %d: %w", g.Rank(), g.Size(), err)
				g.Close()
			}
		})
	}
	ranks.Wait()
	return errs
}

// counts are the vector lengths to check: none, fewer than ranks, not dividing,
// and long enough for every path.
func (s Suite) counts(size int) []int {
	c := []int{0, 1, 2, size - 1, size + 1, 17, 1000, 65537}
	if s.Short {
		c = []int{0, 1, size + 1, 1000, 33333}
	}
	slices.Sort(c)
	return slices.Compact(c)
}
