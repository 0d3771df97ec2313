package solve

import (
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/partition"
	"github.com/kernbench/kernbench/internal/sparse"
)

// layout decides who owns which rows. A partitioner that follows the numbering
// or the grid runs on every rank. One that looks at the whole problem runs on
// rank 0, which tells each rank its share.
func layout(g *dist.Group, spec Spec, outline sparse.Problem) (sparse.Layout, error) {
	p, err := partition.Lookup(spec.Partitioner)
	if err != nil {
		return nil, err
	}
	o := partition.Options{Ranks: g.Size(), Objective: spec.Objective, Seed: spec.Seed}
	if !p.Whole(outline) {
		return p.Partition(outline, o)
	}
	if g.Rank() != 0 {
		return receiveShare(g)
	}
	var shares []partition.Share
	whole, err := spec.Source.Rows(nil)
	if err == nil {
		var all sparse.Layout
		if all, err = p.Partition(whole, o); err == nil {
			shares = partition.Shares(whole, all, g.Size())
		}
	}
	return sendShares(g, shares, err)
}

// errRankZero is what the others say when rank 0, which knows why, cannot
// partition.
var errRankZero = errors.New("rank 0 could not partition the problem")

// sendShares tells every rank its share, or that there is none.
func sendShares(g *dist.Group, shares []partition.Share, failed error) (sparse.Layout, error) {
	for r := 1; r < g.Size(); r++ {
		var text []int64
		length := []int64{-1}
		if failed == nil {
			text = encode(shares[r])
			length[0] = int64(len(text))
		}
		if err := g.Send(dist.Of(length), r); err != nil {
			return nil, errors.Join(failed, err)
		}
		if len(text) > 0 {
			if err := g.Send(dist.Of(text), r); err != nil {
				return nil, err
			}
		}
	}
	if failed != nil {
		return nil, failed
	}
	return &shares[0], nil
}

func receiveShare(g *dist.Group) (sparse.Layout, error) {
	length := make([]int64, 1)
	if err := g.Recv(dist.Of(length), 0); err != nil {
		return nil, fmt.Errorf("receiving this rank's part: %w", err)
	}
	if length[0] < 0 {
		return nil, errRankZero
	}
	text := make([]int64, length[0])
	if err := g.Recv(dist.Of(text), 0); err != nil {
		return nil, fmt.Errorf("receiving this rank's part: %w", err)
	}
	s := decode(text)
	s.Rank = g.Rank()
	return &s, nil
}

// encode writes a share as numbers: how many ranges, the ranges, the ghosts,
// their owners.
func encode(s partition.Share) []int64 {
	text := make([]int64, 0, 1+2*len(s.Own)+2*len(s.Ghosts))
	text = append(text, int64(len(s.Own)))
	for _, r := range s.Own {
		text = append(text, int64(r.Lo), int64(r.Hi))
	}
	return append(append(text, widen(s.Ghosts)...), widen(s.Owners)...)
}

func decode(text []int64) partition.Share {
	var s partition.Share
	ranges, text := int(text[0]), text[1:]
	for i := range ranges {
		s.Own = append(s.Own, sparse.Range{Lo: int(text[2*i]), Hi: int(text[2*i+1])})
	}
	text = text[2*ranges:]
	s.Ghosts, s.Owners = narrow(text[:len(text)/2]), narrow(text[len(text)/2:])
	return s
}

// widen and narrow turn row numbers into elements of a message and back.
func widen(rows []int) []int64 {
	out := make([]int64, len(rows))
	for i, r := range rows {
		out[i] = int64(r)
	}
	return out
}

func narrow(rows []int64) []int {
	out := make([]int, len(rows))
	for i, r := range rows {
		out[i] = int(r)
	}
	return out
}

// asked finds out which of this rank's rows every other one needs.
func asked(g *dist.Group, plan *sparse.Plan) ([][]int64, error) {
	if g.Size() == 1 {
		return nil, nil
	}
	mine, theirs := make([]int64, g.Size()), make([]int64, g.Size())
	for i := range plan.Peers {
		mine[plan.Peers[i].Rank] = int64(plan.Peers[i].Recv.Len())
	}
	if err := g.AllToAll(dist.Of(theirs), dist.Of(mine)); err != nil {
		return nil, err
	}
	var out mail
	for i := range plan.Peers {
		if peer := &plan.Peers[i]; peer.Recv.Len() > 0 {
			out.start(g.Isend(dist.Of(widen(plan.Wants(peer))), peer.Rank))
		}
	}
	lists := make([][]int64, g.Size())
	for r, n := range theirs {
		if n > 0 {
			lists[r] = make([]int64, n)
			out.start(g.Irecv(dist.Of(lists[r]), r))
		}
	}
	return lists, out.wait()
}

// tellWants lets every rank know which of its rows others need.
func tellWants(g *dist.Group, plan *sparse.Plan) error {
	lists, err := asked(g, plan)
	if err != nil {
		return err
	}
	for r, rows := range lists {
		if err := plan.Serve(r, narrow(rows)); err != nil {
			return err
		}
	}
	return nil
}

// mail is messages on their way during set-up.
type mail struct {
	handles []*dist.Handle
	err     error
}

func (m *mail) start(h *dist.Handle, err error) {
	if err != nil {
		m.err = errors.Join(m.err, err)
		return
	}
	m.handles = append(m.handles, h)
}

func (m *mail) wait() error {
	for _, h := range m.handles {
		if err := h.Wait(); err != nil && m.err == nil {
			m.err = err
		}
	}
	return m.err
}
