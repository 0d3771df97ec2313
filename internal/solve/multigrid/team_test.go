package multigrid

import (
	"sync"
	"testing"

	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// meeting lets goroutines that act as ranks exchange lists.
type meeting struct {
	size        int
	mu          sync.Mutex
	moved       *sync.Cond
	here, round int
	lists       [2][][][]byte // of this round and the previous one, by sender
}

// member is one rank of a meeting. It implements precondition.Team.
type member struct {
	*meeting
	rank int
}

func (m member) Rank() int { return m.rank }
func (m member) Size() int { return m.size }

func (m member) Exchange(to [][]byte) ([][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	round := m.round
	m.lists[round%2][m.rank] = to
	if m.here++; m.here == m.size {
		m.here, m.round = 0, round+1
		m.moved.Broadcast()
	}
	for m.round == round {
		m.moved.Wait()
	}
	from := make([][]byte, m.size)
	for r, lists := range m.lists[round%2] {
		from[r] = lists[m.rank]
	}
	return from, nil
}

func (m member) Sum(values []float64) ([]float64, error) {
	to := make([][]float64, m.size)
	for r := range to {
		to[r] = append([]float64(nil), values...)
	}
	from, err := precondition.Exchange(m, to)
	out := make([]float64, len(values))
	for _, list := range from {
		for i, v := range list {
			out[i] += v
		}
	}
	return out, err
}

func (m member) Connect(plan *sparse.Plan) (krylov.Halo, error) {
	wants := make([][]int, m.size)
	for i := range plan.Peers {
		wants[plan.Peers[i].Rank] = plan.Wants(&plan.Peers[i])
	}
	asked, err := precondition.Exchange(m, wants)
	for r, ids := range asked {
		if err := plan.Serve(r, ids); err != nil {
			return nil, err
		}
	}
	return memberHalo{m, plan}, err
}

type memberHalo struct {
	member
	plan *sparse.Plan
}

func (h memberHalo) Start([]float64, int) error { return nil }

func (h memberHalo) Finish(v []float64, _ int) error {
	to := make([][]float64, h.size)
	for i := range h.plan.Peers {
		peer := &h.plan.Peers[i]
		to[peer.Rank] = make([]float64, peer.SendCount())
		h.plan.Pack(to[peer.Rank], v, 1, peer)
	}
	from, err := precondition.Exchange(h.member, to)
	for i := range h.plan.Peers {
		peer := &h.plan.Peers[i]
		copy(v[peer.Recv.Lo:peer.Recv.Hi], from[peer.Rank])
	}
	return err
}

// turns assigns rows to ranks in turn, a few at a time.
type turns struct{ rows, ranks, each int }

func (s turns) Owner(row int) int { return row / s.each % s.ranks }

func (s turns) Rows(rank int) (out []sparse.Range) {
	if s.ranks == 1 {
		return []sparse.Range{{Lo: 0, Hi: s.rows}}
	}
	for lo := rank * s.each; lo < s.rows; lo += s.ranks * s.each {
		out = append(out, sparse.Range{Lo: lo, Hi: min(lo+s.each, s.rows)})
	}
	return out
}

// onRanks calls fn with each rank's part of a problem, with each consecutive rows per turn.
func onRanks(t testing.TB, ranks, each int, p sparse.Problem, fn func(l *precondition.Local)) {
	t.Helper()
	m := &meeting{size: ranks}
	m.moved = sync.NewCond(&m.mu)
	m.lists = [2][][][]byte{make([][][]byte, ranks), make([][][]byte, ranks)}
	var wait sync.WaitGroup
	for r := range ranks {
		wait.Go(func() {
			plan := sparse.NewPlan(p, turns{p.Size(), ranks, each}, r)
			halo, err := member{m, r}.Connect(plan)
			if err != nil {
				t.Error(err)
			}
			matrix, err := plan.Matrix(p, sparse.Compressed)
			if err != nil {
				t.Error(err)
			}
			fn(&precondition.Local{Problem: p, Plan: plan, Matrix: matrix, Halo: halo, Traits: p.Traits(), Team: member{m, r}})
		})
	}
	wait.Wait()
}
