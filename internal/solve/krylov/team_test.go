package krylov

import (
	"sync"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// stripes assigns rows to ranks in turn, a few at a time, so that every rank has ghosts everywhere.
type stripes struct{ rows, ranks, each int }

func (s stripes) Owner(row int) int { return row / s.each % s.ranks }

func (s stripes) Rows(rank int) []sparse.Range {
	var out []sparse.Range
	for lo := rank * s.each; lo < s.rows; lo += s.ranks * s.each {
		out = append(out, sparse.Range{Lo: lo, Hi: min(lo+s.each, s.rows)})
	}
	if s.ranks == 1 {
		return []sparse.Range{{Lo: 0, Hi: s.rows}}
	}
	return out
}

// mailbox is a Halo between goroutines.
type mailbox struct {
	plan  *sparse.Plan
	boxes map[[2]int]chan []float64 // by sender and receiver
	spoil bool
}

func (h *mailbox) Start(v []float64, width int) error {
	for i := range h.plan.Peers {
		peer := &h.plan.Peers[i]
		buf := make([]float64, width*peer.SendCount())
		h.plan.Pack(buf, v, width, peer)
		h.boxes[[2]int{h.plan.Rank, peer.Rank}] <- buf
	}
	return nil
}

func (h *mailbox) Finish(v []float64, width int) error {
	for i := range h.plan.Peers {
		peer := &h.plan.Peers[i]
		buf := <-h.boxes[[2]int{peer.Rank, h.plan.Rank}]
		copy(v[width*peer.Recv.Lo:width*peer.Recv.Hi], buf)
		if h.spoil && len(buf) > 1 {
			v[peer.Recv.Lo] = buf[1]
		}
	}
	return nil
}

// jacobiOf returns the Jacobi preconditioner for the rows of a rank.
func jacobiOf(plan *sparse.Plan, p sparse.Problem) Diagonal {
	inverse := make(Diagonal, plan.Owned)
	var r sparse.Row
	for i := range inverse {
		p.Row(plan.Global(i), &r)
		for k, c := range r.Cols {
			if c == plan.Global(i) {
				inverse[i] = 1 / r.Vals[k]
			}
		}
	}
	return inverse
}

// unfused is a diagonal that the engine does not recognise as one.
type unfused struct{ Diagonal }

// team solves a problem on several ranks, which are goroutines.
type team struct {
	problem sparse.Problem
	method  string
	cfg     Config
	format  sparse.Format
	layout  sparse.Layout
	ranks   int
	spoil   bool                 // one rank receives a wrong ghost
	start   func(c *Core) func() // replaces the start function of the method, unless nil
	rhs     func(i int) float64
}

func (tm team) solve(t *testing.T) ([]float64, Result) {
	t.Helper()
	plans := make([]*sparse.Plan, tm.ranks)
	boxes := map[[2]int]chan []float64{}
	for r := range plans {
		plans[r] = sparse.NewPlan(tm.problem, tm.layout, r)
		for q := range tm.ranks {
			boxes[[2]int{r, q}] = make(chan []float64, 1)
		}
	}
	for _, p := range plans {
		for i := range p.Peers {
			must.Do(t, plans[p.Peers[i].Rank].Serve(p.Rank, p.Wants(&p.Peers[i])))
		}
	}
	x := make([]float64, tm.problem.Size())
	results := make([]Result, tm.ranks)
	sum := &adder{ranks: tm.ranks}
	var wg sync.WaitGroup
	for r, plan := range plans {
		wg.Go(func() {
			s, err := New(tm.method, tm.problem.Traits(), tm.cfg)
			if err != nil {
				t.Error(err)
				return
			}
			if tm.start != nil {
				s = &Solver{core: Core{Config: s.core.Config}}
				s.iterate = tm.start(&s.core)
			}
			inverse := jacobiOf(plan, tm.problem)
			m, err := plan.Matrix(tm.problem, tm.format)
			if err != nil {
				t.Error(err)
				return
			}
			e := NewEngine(m, plan, inverse, s.Vectors())
			for i := range e.Vector(B) {
				e.Vector(B)[i] = tm.rhs(plan.Global(i))
			}
			halo := &mailbox{plan, boxes, tm.spoil && r == 0}
			results[r], err = s.Run(func(stage *Stage) ([]float64, error) {
				local, err := e.Run(stage, halo)
				if err != nil {
					return nil, err
				}
				return sum.add(r, local), nil
			})
			if err != nil {
				t.Error(err)
				return
			}
			for i, v := range e.Vector(X) {
				x[plan.Global(i)] = v
			}
		})
	}
	wg.Wait()
	for _, r := range results {
		if r.Iterations != results[0].Iterations || r.Status != results[0].Status {
			t.Fatalf("ranks disagree: %+v and %+v", r, results[0])
		}
	}
	return x, results[0]
}

// adder adds up over the ranks, in the order of their numbers.
type adder struct {
	mu    sync.Mutex
	ranks int
	now   *round
}

type round struct {
	parts [][]float64 // by rank
	left  int
	total []float64
	ready chan struct{}
}

func (a *adder) add(rank int, local []float64) []float64 {
	if len(local) == 0 {
		return nil
	}
	a.mu.Lock()
	if a.now == nil {
		a.now = &round{make([][]float64, a.ranks), a.ranks, make([]float64, len(local)), make(chan struct{})}
	}
	r := a.now
	r.parts[rank] = local
	if r.left--; r.left == 0 {
		for _, part := range r.parts {
			for i, v := range part {
				r.total[i] += v
			}
		}
		a.now = nil
		close(r.ready)
	}
	a.mu.Unlock()
	<-r.ready
	return r.total
}
