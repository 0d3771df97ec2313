package device

import (
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpusolve"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// alignment is the number of values to which the rows of a vector are aligned: 256 bytes.
const alignment = 32

// layout places the vectors in the memory of each rank. All ranks use the same layout, so that they
// can compute each other's addresses. A vector's own rows are aligned; its ghosts lie directly before
// and after them.
type layout struct {
	strips            []sparse.Range // rows of each rank
	size              int            // rows of the problem
	reach             int
	maxRows           int // rows of the largest strip
	stored            []storedVector
	ghostsWithoutRows bool // also ranks without rows store ghosts
}

func newLayout(strips []sparse.Range, size, reach int, stored []storedVector) layout {
	l := layout{strips: strips, size: size, reach: reach, stored: stored}
	for _, rows := range strips {
		l.maxRows = max(l.maxRows, rows.Len())
	}
	return l
}

// stripsOf returns the rows of each rank. The strip of a rank without rows is empty, and starts where
// the previous one ends.
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

// ghosts returns how many values a rank needs from before and from after its rows.
func (l *layout) ghosts(rank int) (below, above int) {
	rows := l.strips[rank]
	if rows.Len() == 0 && !l.ghostsWithoutRows {
		return 0, 0
	}
	return min(rows.Lo, l.reach), min(l.size-rows.Hi, l.reach)
}

// vector identifies a vector in the kernels' parameters.
type vector int

// The vectors. method.stored lists the vectors that a method uses. A vector and its partner (R and R1, P0 and P1 ...)
// swap roles in every iteration.
const (
	vecX vector = iota
	vecQ        // also the direction of cg-single, and z of cg-pipelined
	vecR        // stored by all methods: addresses of ghosts on other ranks are relative to it
	vecR1
	vecP0
	vecP1
	vecS0
	vecS1
	vecW0
	vecW1
	vecInverse  // on coarser levels: reciprocals of the main diagonal
	vecDiagonal // on coarser levels: the first diagonal of the matrix; the others follow
)

func alignUp(n int) int { return (n + alignment - 1) / alignment * alignment }

// length returns the number of values of a vector, including ghosts and padding.
func (l *layout) length(p storedVector) int {
	if !p.ghosts {
		return alignUp(l.maxRows)
	}
	return alignUp(l.maxRows+l.reach) + alignUp(l.reach)
}

// values returns the number of values in a rank's memory: its mailbox, then the vectors.
func (l *layout) values() int {
	n := gpusolve.MailBytes / 8
	for _, p := range l.stored {
		n += l.length(p)
	}
	return n
}

// rowAddress returns the address of a vector's first own row on a rank whose memory begins at base, or
// 0 if the vector is not stored.
func (l *layout) rowAddress(base cuda.Pointer, v vector) uint64 {
	at := gpusolve.MailBytes / 8
	for _, p := range l.stored {
		if p.vector != v {
			at += l.length(p)
			continue
		}
		if p.ghosts {
			at += alignUp(l.reach)
		}
		return uint64(base) + 8*uint64(at)
	}
	return 0
}

// pairAddress returns the addresses of a vector and its partner, or twice the vector if it has none.
// The addresses include the ghosts before the rows.
func (l *layout) pairAddress(base cuda.Pointer, rank int, a, b vector) (at [2]uint64) {
	below, _ := l.ghosts(rank)
	for k, v := range []vector{a, b} {
		if at[k] = l.rowAddress(base, v); at[k] != 0 {
			at[k] -= 8 * uint64(below)
		} else if k == 1 {
			at[k] = at[0]
		}
	}
	return at
}

// sent returns the rows of rank that to stores as ghosts, counted from rank's first row. row0 is the
// position of rank's first row relative to the first row of to.
func (l *layout) sent(rank, to int) (rows sparse.Range, row0 int) {
	mine, theirs := l.strips[rank], l.strips[to]
	below, above := l.ghosts(to)
	row0 = mine.Lo - theirs.Lo
	if rank == to {
		return sparse.Range{}, row0
	}
	before := sparse.Range{Lo: max(mine.Lo, theirs.Lo-below), Hi: min(mine.Hi, theirs.Lo)}
	after := sparse.Range{Lo: max(mine.Lo, theirs.Hi), Hi: min(mine.Hi, theirs.Hi+above)}
	for _, r := range []sparse.Range{before, after} { // a strip lies before or after another, so at most one is not empty
		if r.Len() > 0 {
			return sparse.Range{Lo: r.Lo - mine.Lo, Hi: r.Hi - mine.Lo}, row0
		}
	}
	return sparse.Range{}, row0
}

// fillParams sets the addresses and row ranges of a rank in the kernels' parameters.
func (l *layout) fillParams(p *gpusolve.Params, at []cuda.Pointer, rank int) {
	rows := l.strips[rank]
	below, above := l.ghosts(rank)
	p.Rows, p.First, p.Below, p.Above = uint64(rows.Len()), uint64(rows.Lo), uint64(below), uint64(above)
	base := at[rank]
	p.X, p.Q = l.rowAddress(base, vecX), l.rowAddress(base, vecQ)
	p.P, p.R = l.pairAddress(base, rank, vecP0, vecP1), l.pairAddress(base, rank, vecR, vecR1)
	p.S, p.W = l.pairAddress(base, rank, vecS0, vecS1), l.pairAddress(base, rank, vecW0, vecW1)
	if p.P[0] == 0 {
		p.P = [2]uint64{p.Q, p.Q}
	}
	p.EdgeLo, p.EdgeHi = 0, p.Rows
	for r := range at {
		p.Mail[r] = uint64(at[r])
		send, row0 := l.sent(rank, r)
		if send.Len() == 0 {
			continue
		}
		p.SendLo[r], p.SendHi[r] = uint64(send.Lo), uint64(send.Hi)
		p.Ghosts[r] = l.rowAddress(at[r], vecR) + 8*uint64(row0)
		if send.Lo == 0 {
			p.EdgeLo = max(p.EdgeLo, p.SendHi[r])
		} else {
			p.EdgeHi = min(p.EdgeHi, p.SendLo[r])
		}
	}
}
