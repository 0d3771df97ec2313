package solve

import (
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// layout decides who owns which rows. A partitioner that follows the numbering
// or the grid runs on every rank. One that looks at the whole problem runs on
// rank 0, which tells each rank its rows, and then who owns those that they are
// coupled to. The seconds are the partitioner's own, where it ran.
func layout(g *dist.Group, spec Spec, outline sparse.Problem) (owners sparse.Layout, seconds float64, err error) {
	p, err := partition.Lookup(spec.Partitioner)
	if err != nil {
		return nil, 0, err
	}
	whole := outline
	alone := p.Whole(outline, spec.Weights)
	if alone {
		if g.Rank() != 0 {
			owners, err = receiveShare(g, spec.Source)
			return owners, 0, err
		}
		whole, err = spec.Source.Rows(nil)
	}
	began := g.Clock().Now()
	if err == nil {
		owners, err = p.Partition(whole, partition.Options{Ranks: g.Size(), Objective: spec.Objective, Weights: spec.Weights, Seed: spec.Seed})
	}
	seconds = float64(g.Clock().Now()-began) / 1e12
	if alone {
		err = sendShares(g, owners, err)
	}
	return owners, seconds, err
}

// sendShares tells every rank its share, or why there is none: whichever rank is
// heard first, the reason is.
func sendShares(g *dist.Group, owners sparse.Layout, failed error) error {
	if failed != nil {
		reason := []byte(failed.Error())
		for r := 1; r < g.Size(); r++ {
			err := g.Send(dist.Of([]int64{-int64(len(reason))}), r)
			if err == nil {
				err = g.Send(dist.Of(reason), r)
			}
			failed = errors.Join(failed, err)
		}
		return failed
	}
	for r := 1; r < g.Size(); r++ {
		var own []int64
		for _, rows := range owners.Rows(r) {
			own = append(own, int64(rows.Lo), int64(rows.Hi))
		}
		if err := sendList(g, own, r); err != nil {
			return err
		}
	}
	for r := 1; r < g.Size(); r++ {
		ghosts, err := recvList(g, r)
		if err != nil {
			return err
		}
		for i, row := range ghosts {
			ghosts[i] = int64(owners.Owner(int(row)))
		}
		if err := sendList(g, ghosts, r); err != nil {
			return err
		}
	}
	return nil
}

// receiveShare learns which rows this rank owns, and asks for the owners of the
// others that they are coupled to.
func receiveShare(g *dist.Group, source Source) (sparse.Layout, error) {
	list, err := recvList(g, 0)
	if err != nil {
		return nil, err
	}
	s := &partition.Share{Rank: g.Rank()}
	for ; len(list) > 0; list = list[2:] {
		s.Own = append(s.Own, sparse.Range{Lo: int(list[0]), Hi: int(list[1])})
	}
	problem, err := source.Rows(func(row int) bool { return s.Owner(row) == s.Rank })
	if err == nil {
		s.Ghosts = partition.Couplings(problem, s.Own)
	}
	// Rank 0 waits for the list, also of a rank that cannot make it.
	if failed := sendList(g, widen(s.Ghosts), 0); failed != nil {
		return nil, errors.Join(err, failed)
	}
	owners, failed := recvList(g, 0)
	s.Owners = narrow(owners)
	return s, errors.Join(err, failed)
}

// sendList and recvList move numbers of which the receiver does not know how
// many there are; a negative length is that of the reason why rank 0 sends none.
func sendList(g *dist.Group, list []int64, to int) error {
	err := g.Send(dist.Of([]int64{int64(len(list))}), to)
	if err == nil && len(list) > 0 {
		err = g.Send(dist.Of(list), to)
	}
	if err != nil {
		return fmt.Errorf("sending rank %d its rows: %w", to, err)
	}
	return nil
}

func recvList(g *dist.Group, from int) ([]int64, error) {
	length := make([]int64, 1)
	err := g.Recv(dist.Of(length), from)
	if err == nil && length[0] < 0 {
		reason := make([]byte, -length[0])
		if err := g.Recv(dist.Of(reason), from); err != nil {
			return nil, fmt.Errorf("receiving why rank %d sends no rows: %w", from, err)
		}
		return nil, fmt.Errorf("rank %d: %s", from, reason)
	}
	list := make([]int64, max(0, length[0]))
	if err == nil && len(list) > 0 {
		err = g.Recv(dist.Of(list), from)
	}
	if err != nil {
		return nil, fmt.Errorf("receiving this rank's rows from rank %d: %w", from, err)
	}
	return list, nil
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

// asked exchanges the lists of needed rows: which of this rank's rows each other
// rank needs.
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

// tellWants tells every rank which of its rows others need.
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

// mail is the messages in flight during set-up.
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
