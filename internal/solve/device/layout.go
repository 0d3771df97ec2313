package device

import (
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpusolve"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// line is how many values lie between two that are aligned: 256 bytes.
const line = 32

// layout says where the vectors of every rank lie in the memory that all of them have
// made alike. A vector's own rows are aligned; its ghosts lie before and behind them.
type layout struct {
	owners sparse.Layout
	size   int // rows of the problem
	reach  int
	most   int // rows of the largest rank
	single bool
}

func newLayout(owners sparse.Layout, ranks, size, reach int, single bool) layout {
	l := layout{owners: owners, size: size, reach: reach, single: single}
	for r := range ranks {
		l.most = max(l.most, l.rows(r).Len())
	}
	return l
}

// rows are those of a rank.
func (l *layout) rows(rank int) sparse.Range {
	if all := l.owners.Rows(rank); len(all) > 0 {
		return all[0]
	}
	return sparse.Range{}
}

// ghosts are how many values a rank needs from before and from behind its rows.
func (l *layout) ghosts(rank int) (below, above int) {
	rows := l.rows(rank)
	if rows.Len() == 0 {
		return 0, 0
	}
	return min(rows.Lo, l.reach), min(l.size-rows.Hi, l.reach)
}

// vector is a place for a vector of the largest rank.
type vector int

// The vectors. Those of the two methods share places.
const (
	vecX vector = iota
	vecQ        // cg; the direction of cg-single, which has no ghosts
	vecR
	vecP0 // cg
	vecP1
	vecR1 // cg-single
	vecS0
	vecS1
	vecW0
	vecW1
)

// places are the vectors of a method, in order.
func (l *layout) places() []vector {
	if l.single {
		return []vector{vecX, vecQ, vecR, vecR1, vecS0, vecS1, vecW0, vecW1}
	}
	return []vector{vecX, vecQ, vecR, vecP0, vecP1}
}

func up(n int) int { return (n + line - 1) / line * line }

// room is how many values a place has.
func (l *layout) room(v vector) int {
	if v == vecX || v == vecQ {
		return up(l.most)
	}
	return up(l.most+l.reach) + up(l.reach)
}

// values is how many values the memory of a rank has: the vectors, then its mail.
func (l *layout) values() int {
	n := gpusolve.MailBytes / 8
	for _, v := range l.places() {
		n += l.room(v)
	}
	return n
}

// own is where the own rows of a vector begin.
func (l *layout) own(v vector) int {
	at := gpusolve.MailBytes / 8
	for _, p := range l.places() {
		if p == v {
			break
		}
		at += l.room(p)
	}
	if v == vecX || v == vecQ {
		return at
	}
	return at + up(l.reach)
}

// pointer is the address of a vector on a rank whose memory begins at base: with
// the ghosts before its rows, where it has them.
func (l *layout) pointer(base cuda.Pointer, rank int, v vector) uint64 {
	at := l.own(v)
	if v != vecX && v != vecQ {
		below, _ := l.ghosts(rank)
		at -= below
	}
	return uint64(base) + 8*uint64(at)
}

// sends are the rows of a rank, counted from its first, that another has as ghosts, and
// where its row 0 would be among that one's rows.
func (l *layout) sends(rank, to int) (rows sparse.Range, row0 int) {
	mine, theirs := l.rows(rank), l.rows(to)
	below, above := l.ghosts(to)
	row0 = mine.Lo - theirs.Lo
	if rank == to || theirs.Len() == 0 {
		return sparse.Range{}, row0
	}
	before := sparse.Range{Lo: max(mine.Lo, theirs.Lo-below), Hi: min(mine.Hi, theirs.Lo)}
	behind := sparse.Range{Lo: max(mine.Lo, theirs.Hi), Hi: min(mine.Hi, theirs.Hi+above)}
	for _, r := range []sparse.Range{before, behind} { // a strip is before or behind another, never both
		if r.Len() > 0 {
			return sparse.Range{Lo: r.Lo - mine.Lo, Hi: r.Hi - mine.Lo}, row0
		}
	}
	return sparse.Range{}, row0
}

// fill tells the kernels where everything is that ranks share.
func (l *layout) fill(p *gpusolve.Params, at []cuda.Pointer, rank int) {
	rows := l.rows(rank)
	below, above := l.ghosts(rank)
	p.Rows, p.First, p.Below, p.Above = uint64(rows.Len()), uint64(rows.Lo), uint64(below), uint64(above)
	p.X, p.Q = l.pointer(at[rank], rank, vecX), l.pointer(at[rank], rank, vecQ)
	two := func(a, b vector) [2]uint64 {
		return [2]uint64{l.pointer(at[rank], rank, a), l.pointer(at[rank], rank, b)}
	}
	sent := [2]vector{vecR, vecR}
	if l.single {
		p.P, p.R, p.S, p.W = [2]uint64{p.Q, p.Q}, two(vecR, vecR1), two(vecS0, vecS1), two(vecW0, vecW1)
		sent = [2]vector{vecW0, vecW1}
	} else {
		p.P, p.R = two(vecP0, vecP1), two(vecR, vecR)
	}
	p.EdgeLo, p.EdgeHi = 0, p.Rows
	for r := range at {
		p.Mail[r] = uint64(at[r])
		send, row0 := l.sends(rank, r)
		if send.Len() == 0 {
			continue
		}
		p.SendLo[r], p.SendHi[r] = uint64(send.Lo), uint64(send.Hi)
		p.Ghosts[r] = uint64(at[r]) + 8*uint64(l.own(sent[0])+row0)
		p.Ghosts2[r] = uint64(at[r]) + 8*uint64(l.own(sent[1])+row0)
		if send.Lo == 0 {
			p.EdgeLo = max(p.EdgeLo, p.SendHi[r])
		} else {
			p.EdgeHi = min(p.EdgeHi, p.SendLo[r])
		}
	}
}
