package solve

import (
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/profile"
)

// columns returns the parts of the system that solves with several right-hand sides need.
func (s *System) columns() profile.Columns {
	c := profile.Columns{Config: s.config, StopAfter: s.spec.StopAfter, Count: s.count, Check: s.checkColumns,
		Connect: func(width int) (krylov.BlockHalo, int, error) {
			h, err := newHalo(s.group, s.parts.Plan, width)
			if err != nil {
				return nil, 0, err
			}
			h.meter = s.meter
			return h, h.messages(), nil
		},
		NewSums: func(limit int) profile.Reducer {
			sums := newReducer(s.group, limit)
			sums.meter = s.meter
			return sums
		}}
	if s.null != nil {
		c.Project, c.ProjectRHS = s.null.project, s.projectRHS
	}
	return c
}

// count starts to time the parts of a solve. The function that it returns stops and returns the times.
func (s *System) count() (end func() profile.Timed) {
	clock := s.group.Clock()
	s.meter.reset()
	began := clock.Now()
	return func() profile.Timed { return s.meter.timed(clock.Now() - began) }
}
