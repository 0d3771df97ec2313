package solvescaling

import (
	"context"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/cores"
)

// slowRankDetail is the detail with the facts about a slow rank.
const slowRankDetail = "slow_rank"

// slowRank says why one rank was slower than the others, as far as swapping cores has shown it. Times are relative to
// the mean of all ranks before the swap.
type slowRank struct {
	Rank, Core int
	Rows       float64 // time of its rows on another core
	OnCore     float64 // time of other rows on its core
}

const (
	// slowerThanMean is the time of a rank, relative to the mean of all ranks, from which it counts as slow.
	slowerThanMean = 1.1
	// swappedRounds is how often ranks iterate on swapped cores. The fastest round counts, because a short disturbance
	// of one of them would look like a slow core or slow rows.
	swappedRounds = 3
)

// reportSlowRank tests why a rank iterates more slowly than the others on its own rows: the slowest
// and the fastest rank swap their cores and iterate again. It needs ranks of one host that are bound
// to cores of their own.
func reportSlowRank(ctx context.Context, s *bench.State, sys solver, t solves) error {
	best := fastestOfEach(t.alone())
	mean := lists.Sum(best) / float64(len(best))
	slow, fast := slices.Index(best, slices.Max(best)), slices.Index(best, slices.Min(best))
	if s.Size() == 1 || best[fast] <= 0 || best[slow] <= slowerThanMean*mean {
		return nil
	}
	own, err := boundCores(ctx, s)
	if err != nil || own == nil {
		return err
	}
	s.Phase("slow rank")
	to := map[int]int{slow: own[fast], fast: own[slow]}
	stays := false
	if core, swaps := to[s.Rank()]; swaps {
		if restore, err := cores.BindProcess(core); err == nil {
			defer restore()
		} else {
			stays = true // not an error: the other ranks would wait for this one
		}
	}
	var rounds [][]float64
	for range swappedRounds {
		if err := s.Barrier(ctx); err != nil {
			return err
		}
		seconds, err := iterateAlone(sys)
		if err != nil {
			return err
		}
		round, err := bench.Gather(ctx, s, 1e6*seconds)
		if err != nil {
			return err
		}
		rounds = append(rounds, round)
	}
	swapped := fastestOfEach(rounds)
	if stayed, err := bench.Gather(ctx, s, stays); err != nil || slices.Contains(stayed, true) {
		return err
	}
	recordFacts(s, slowRankDetail, slowRank{slow, own[slow], swapped[slow] / mean, swapped[fast] / mean})
	return nil
}

// fastestOfEach returns the shortest time of each rank over several rounds.
func fastestOfEach(rounds [][]float64) []float64 {
	best := slices.Clone(rounds[0])
	for _, round := range rounds[1:] {
		for r, us := range round {
			best[r] = min(best[r], us)
		}
	}
	return best
}

// coreAlone reports whether the core is slow and the rows are not.
func (s slowRank) coreAlone() bool { return s.OnCore > slowerThanMean && s.Rows <= slowerThanMean }

// open reports whether the swap does not show whether core or rows are slow.
func (s slowRank) open() bool { return s.OnCore > slowerThanMean && s.Rows > slowerThanMean }

// String explains why the rank was slow.
func (s slowRank) String() string {
	switch {
	case s.coreAlone():
		return fmt.Sprintf("core %d is slow: the rows of rank %d took %.2f times the mean on another core, and other "+
			"rows took %.2f times the mean on core %[1]d", s.Core, s.Rank, s.Rows, s.OnCore)
	case s.open():
		return fmt.Sprintf("not resolved: after a swap of cores both the rows of rank %d (%.2f times the mean) and core %d "+
			"(%.2f times) were slow", s.Rank, s.Rows, s.Core, s.OnCore)
	case s.Rows > slowerThanMean:
		return fmt.Sprintf("the rows of rank %d are slow: they took %.2f times the mean on another core too, and other rows "+
			"took %.2f times the mean on core %d", s.Rank, s.Rows, s.OnCore, s.Core)
	}
	return fmt.Sprintf("the cause is gone: after a swap of cores neither the rows of rank %d (%.2f times the mean) nor "+
		"core %d (%.2f times) was slow", s.Rank, s.Rows, s.Core, s.OnCore)
}

// boundCores returns the core of each rank, or nil unless all ranks are on one host and each is bound
// to one core that no other has.
func boundCores(ctx context.Context, s *bench.State) (out []int, err error) {
	type place struct {
		Host  string
		Cores []int
	}
	all, err := bench.Gather(ctx, s, place{hostName(), cores.Allowed()})
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if len(p.Cores) != 1 || p.Host != all[0].Host || slices.Contains(out, p.Cores[0]) {
			return nil, nil
		}
		out = append(out, p.Cores[0])
	}
	return out, nil
}
