package selftest

import (
	"context"
	"fmt"

	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// Rank counts to prove schedules for: all small ones, which have every corner
// case, and larger ones that are a power of two, composite and prime.
var rankCounts = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24, 31, 32}

// schedules proves every algorithm that is registered, with all its options, and
// the simulated accelerator's own.
func (s session) schedules(ctx context.Context) {
	for _, collective := range schedule.Collectives() {
		for _, info := range schedule.Algorithms(collective) {
			s.check("schedules", collective+" "+info.Name, func() (string, error) { return prove(ctx, info) })
		}
	}
	s.check("schedules", ccl.LRAB, func() (string, error) { return proveLRAB(ctx) })
}

// prove proves an algorithm over the rank counts, for no elements, fewer than
// ranks, and a number that does not divide.
func prove(ctx context.Context, info schedule.Info) (string, error) {
	proved := 0
	for _, ranks := range rankCounts {
		for _, count := range []int{0, 1, ranks - 1, 211} {
			for _, p := range schedule.Variants(info, ranks, count) {
				if ctx.Err() != nil {
					return "", ctx.Err()
				}
				one, err := schedule.New(info.Collective, info.Name, p)
				if err == nil {
					err = schedule.Check(one)
				}
				if err != nil {
					return "", fmt.Errorf("%+v: %w", p, err)
				}
				proved++
			}
		}
	}
	return fmt.Sprintf("%d schedules proved, up to %d ranks", proved, rankCounts[len(rankCounts)-1]), nil
}

// proveLRAB proves the hierarchical all-reduce of the simulated accelerator, and
// that its kernel does what was proved.
func proveLRAB(ctx context.Context) (string, error) {
	proved := 0
	for _, kind := range []topo.Kind{topo.Ring, topo.Torus, topo.Mesh} {
		for _, sips := range []topo.Grid{{W: 1, H: 1}, {W: 2, H: 1}, {W: 6, H: 1}, {W: 2, H: 3}, {W: 4, H: 4}} {
			if kind == topo.Ring && sips.H > 1 {
				continue
			}
			for _, cubes := range []topo.Grid{{W: 1, H: 1}, {W: 4, H: 4}, {W: 3, H: 5}} {
				m, err := topo.Default().WithSIPs(kind, sips.W, sips.H)
				if err == nil {
					m, err = m.WithCubes(cubes.W, cubes.H)
				}
				if err != nil {
					return "", err
				}
				for _, root := range []ccl.Root{ccl.Center, ccl.Corner} {
					if ctx.Err() != nil {
						return "", ctx.Err()
					}
					shape := ccl.Shape{N: 6, Cubes: m.Cubes, SIPs: m.SIPs, Root: root}
					if err := shape.Prove(m); err != nil {
						return "", fmt.Errorf("%s of %dx%d SIPs, %dx%d cubes, root %v: %w", kind, sips.W, sips.H, cubes.W, cubes.H, root,
							err)
					}
					proved++
				}
			}
		}
	}
	return fmt.Sprintf("%d shapes proved, with their kernels", proved), nil
}
