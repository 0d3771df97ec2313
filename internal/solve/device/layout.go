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
	strips []sparse.Range // the rows of each rank
	size   int            // rows of the problem
	reach  int
	most   int // rows of the largest rank
	places []place
	idle   bool // ranks without rows have ghosts too
}

func newLayout(strips []sparse.Range, size, reach int, places []place) layout {
	l := layout{strips: strips, size: size, reach: reach, places: places}
	for _, rows := range strips {
		l.most = max(l.most, rows.Len())
	}
	return l
}

// stripsOf are the rows of each rank; of one without any, where they would be.
func stripsOf(owners sparse.Layout, ranks int) (strips []sparse.Range) {
	end := 0
	for r := range ranks {
		strip := sparse.Range{Lo: end, Hi: end}
		if all := owners.Rows(r); len(all) > 0 {
			strip = all[0]
		}
		strips, end = append(strips, strip), strip.Hi
	}
	return strips
}

// rows are those of a rank.
func (l *layout) rows(rank int) sparse.Range { return l.strips[rank] }

// ghosts are how many values a rank needs from before and from behind its rows.
func (l *layout) ghosts(rank int) (below, above int) {
	rows := l.rows(rank)
	if rows.Len() == 0 && !l.idle {
		return 0, 0
	}
	return min(rows.Lo, l.reach), min(l.size-rows.Hi, l.reach)
}

// vector is a vector by its name in the kernels' argument.
type vector int

// The vectors. What a method needs of them is in its places.
const (
	vecX  vector = iota
	vecQ         // also the direction of cg-single, and z of cg-pipelined
	vecR         // of all methods: what is sent is sent to places that are counted from here
	vecR1        // the second of two that take turns
	vecP0
	vecP1
	vecS0
	vecS1
	vecW0
	vecW1
	vecInverse  // the reciprocals of the main diagonal, of a coarser level
	vecDiagonal // the first diagonal of its matrix; the others follow
)

func up(n int) int { return (n + line - 1) / line * line }

// room is how many values a place has.
func (l *layout) room(p place) int {
	if !p.ghosts {
		return up(l.most)
	}
	return up(l.most+l.reach) + up(l.reach)
}

// values is how many values the memory of a rank has: the vectors, then its mail.
func (l *layout) values() int {
	n := gpusolve.MailBytes / 8
	for _, p := range l.places {
		n += l.room(p)
	}
	return n
}

// own is where the own rows of a vector begin, and whether there is one.
func (l *layout) own(v vector) (at int, ok bool) {
	at = gpusolve.MailBytes / 8
	for _, p := range l.places {
		switch {
		case p.vector == v && p.ghosts:
			return at + up(l.reach), true
		case p.vector == v:
			return at, true
		}
		at += l.room(p)
	}
	return 0, false
}

// row is the address of row 0 of a vector on a rank whose memory begins at base; 0 where there is none.
func (l *layout) row(base cuda.Pointer, v vector) uint64 {
	at, ok := l.own(v)
	if !ok {
		return 0
	}
	return uint64(base) + 8*uint64(at)
}

// two are the addresses of a vector and of the one that it takes turns with, or itself, each with the
// ghosts before its rows.
func (l *layout) two(base cuda.Pointer, rank int, a, b vector) (at [2]uint64) {
	below, _ := l.ghosts(rank)
	for k, v := range []vector{a, b} {
		if at[k] = l.row(base, v); at[k] != 0 {
			at[k] -= 8 * uint64(below)
		} else if k == 1 {
			at[k] = at[0]
		}
	}
	return at
}

// sends are the rows of a rank, counted from its first, that another has as ghosts, and
// where its row 0 would be among that one's rows.
func (l *layout) sends(rank, to int) (rows sparse.Range, row0 int) {
	mine, theirs := l.rows(rank), l.rows(to)
	below, above := l.ghosts(to)
	row0 = mine.Lo - theirs.Lo
	if rank == to {
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
	base := at[rank]
	p.X, p.Q = l.row(base, vecX), l.row(base, vecQ)
	p.P, p.R, p.S, p.W = l.two(base, rank, vecP0, vecP1), l.two(base, rank, vecR, vecR1), l.two(base, rank, vecS0, vecS1),
		l.two(base, rank, vecW0, vecW1)
	if p.P[0] == 0 {
		p.P = [2]uint64{p.Q, p.Q}
	}
	p.EdgeLo, p.EdgeHi = 0, p.Rows
	for r := range at {
		p.Mail[r] = uint64(at[r])
		send, row0 := l.sends(rank, r)
		if send.Len() == 0 {
			continue
		}
		p.SendLo[r], p.SendHi[r] = uint64(send.Lo), uint64(send.Hi)
		p.Ghosts[r] = l.row(at[r], vecR) + 8*uint64(row0)
		if send.Lo == 0 {
			p.EdgeLo = max(p.EdgeLo, p.SendHi[r])
		} else {
			p.EdgeHi = min(p.EdgeHi, p.SendLo[r])
		}
	}
}
