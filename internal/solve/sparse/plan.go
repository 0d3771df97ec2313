package sparse

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
)

// Range is the half-open interval of integers [Lo, Hi).
type Range struct{ Lo, Hi int }

// Len returns the number of integers in the range.
func (r Range) Len() int { return r.Hi - r.Lo }

// Extend appends a row to ascending ranges.
func Extend(rows []Range, row int) []Range {
	if n := len(rows); n > 0 && rows[n-1].Hi == row {
		rows[n-1].Hi++
		return rows
	}
	return append(rows, Range{row, row + 1})
}

// Find returns the index of the range that contains a row, or -1. The ranges must ascend.
func Find(rows []Range, row int) int {
	at, found := slices.BinarySearchFunc(rows, row, func(r Range, row int) int { return cmp.Compare(r.Lo, row) })
	if !found {
		at-- // the range that starts before row
	}
	if at < 0 || row >= rows[at].Hi {
		return -1
	}
	return at
}

// Layout assigns rows to ranks.
type Layout interface {
	Owner(row int) int
	Rows(rank int) []Range // ascending, not empty, not touching
}

// Strips is a layout of consecutive rows: rank r owns the rows from Strips[r] up to Strips[r+1].
type Strips []int

// Owner implements Layout.
func (s Strips) Owner(row int) int { return sort.SearchInts(s, row+1) - 1 }

// Rows implements Layout.
func (s Strips) Rows(rank int) []Range {
	if s.Of(rank) == 0 {
		return nil
	}
	return []Range{{s[rank], s[rank+1]}}
}

// Of returns the number of rows of a rank.
func (s Strips) Of(rank int) int { return s[rank+1] - s[rank] }

// Total returns the number of rows.
func (s Strips) Total() int { return s[len(s)-1] }

// Plan describes the halo exchange that one rank needs to multiply its rows. Local numbers are 0 to Owned-1 for its own
// rows in their order, then one for every ghost, ordered by owner and row.
type Plan struct {
	Rank   int
	Owned  int
	Ghosts []int  // global row numbers
	Peers  []Peer // ordered by rank; the ranks that this rank sends to or receives from

	Interior []Range // local rows that need no ghost and that no other rank needs
	Boundary []Range // all other local rows

	Entries    int // of the owned rows
	CutEntries int // entries of the owned rows in ghost columns

	rows     []Range // owned rows, global numbers
	before   []int   // local number of the first row of each range
	boundary []bool  // the local row needs a ghost, or another rank needs it
}

// Peer is another rank that this rank exchanges values with.
type Peer struct {
	Rank int
	Recv Range   // local numbers of the ghosts that the peer owns
	Send []Range // local rows that the peer needs, in the order in which it expects them
}

// SendCount returns the number of values that go to the peer.
func (p *Peer) SendCount() int {
	n := 0
	for _, r := range p.Send {
		n += r.Len()
	}
	return n
}

// NewPlan finds the ghosts of a rank. It generates every row once and keeps none.
func NewPlan(p Problem, layout Layout, rank int) *Plan {
	plan := emptyPlan(layout, rank)
	known := map[int]bool{}
	var ghosts []int
	var row Row
	plan.each(func(global, local int) {
		p.Row(global, &row)
		plan.Entries += len(row.Cols)
		for _, c := range row.Cols {
			if plan.Local(c) >= 0 {
				continue
			}
			plan.CutEntries++
			plan.boundary[local] = true
			if !known[c] {
				known[c] = true
				ghosts = append(ghosts, c)
			}
		}
	})
	plan.want(layout, ghosts)
	return plan
}

// PlanOf returns the plan of a rank that needs the given rows of other ranks. The rows must be distinct.
func PlanOf(layout Layout, rank int, wants []int) *Plan {
	plan := emptyPlan(layout, rank)
	plan.want(layout, wants)
	return plan
}

// emptyPlan returns the plan of a rank that needs no other rows.
func emptyPlan(layout Layout, rank int) *Plan {
	plan := &Plan{Rank: rank, rows: layout.Rows(rank)}
	for _, r := range plan.rows {
		plan.before = append(plan.before, plan.Owned)
		plan.Owned += r.Len()
	}
	plan.boundary = make([]bool, plan.Owned)
	return plan
}

// want makes the given rows of other ranks ghosts, ordered by owner and row, and the owners peers.
func (p *Plan) want(layout Layout, rows []int) {
	type ghost struct{ owner, row int }
	ghosts := make([]ghost, len(rows))
	for i, r := range rows {
		ghosts[i] = ghost{layout.Owner(r), r}
	}
	slices.SortFunc(ghosts, func(a, b ghost) int {
		return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.row, b.row))
	})
	for i, g := range ghosts {
		local := p.Owned + i
		if i == 0 || ghosts[i-1].owner != g.owner {
			p.Peers = append(p.Peers, Peer{Rank: g.owner, Recv: Range{local, local}})
		}
		p.Peers[len(p.Peers)-1].Recv.Hi++
		p.Ghosts = append(p.Ghosts, g.row)
	}
	p.split()
}

// each calls fn for every owned row.
func (p *Plan) each(fn func(global, local int)) {
	local := 0
	for _, r := range p.rows {
		for g := r.Lo; g < r.Hi; g++ {
			fn(g, local)
			local++
		}
	}
}

// Local returns the local number of an owned row, or -1 for any other row.
func (p *Plan) Local(global int) int {
	at := Find(p.rows, global)
	if at < 0 {
		return -1
	}
	return p.before[at] + global - p.rows[at].Lo
}

// Global returns the number of an owned row in the whole matrix.
func (p *Plan) Global(local int) int {
	at, found := slices.BinarySearch(p.before, local)
	if !found {
		at--
	}
	return p.rows[at].Lo + local - p.before[at]
}

// Wants returns the rows that this rank needs from a peer. The caller must tell the peer, which calls Serve.
func (p *Plan) Wants(peer *Peer) []int {
	return p.Ghosts[peer.Recv.Lo-p.Owned : peer.Recv.Hi-p.Owned]
}

// Serve records that rank needs the given rows of this rank, in this order. If the pattern of the matrix is not
// symmetric, that rank may own no ghost of this one.
func (p *Plan) Serve(rank int, rows []int) error {
	if len(rows) == 0 {
		return nil
	}
	at, found := slices.BinarySearchFunc(p.Peers, rank, func(q Peer, r int) int { return cmp.Compare(q.Rank, r) })
	if !found {
		p.Peers = slices.Insert(p.Peers, at, Peer{Rank: rank, Recv: Range{p.Owned, p.Owned}})
	}
	peer := &p.Peers[at]
	for _, g := range rows {
		local := p.Local(g)
		if local < 0 {
			return fmt.Errorf("rank %d asks rank %d for row %d, which it does not own", rank, p.Rank, g)
		}
		p.boundary[local] = true
		peer.Send = Extend(peer.Send, local)
	}
	p.split()
	return nil
}

// shortInterior is the minimum number of consecutive interior rows. Shorter stretches join the boundary rows around
// them, because a kernel call costs about as much as this many rows.
const shortInterior = 16

// rowStep is the number of rows that the kernels process at a time. They are fastest if a range starts at a multiple of
// it; the remainder is processed in smaller pieces.
const rowStep = 128

// align shrinks a long interior stretch to multiples of rowStep. The rows cut off at its ends become boundary rows.
func (p *Plan) align(r Range) Range {
	if r.Len() < 16*rowStep {
		return r
	}
	r.Lo = (r.Lo + rowStep - 1) / rowStep * rowStep
	if r.Hi < p.Owned {
		r.Hi -= r.Hi % rowStep
	}
	return r
}

// split divides the rows into Interior and Boundary.
func (p *Plan) split() {
	p.Interior, p.Boundary = nil, nil
	at := 0
	for lo := 0; lo < p.Owned; {
		hi := lo
		for hi < p.Owned && !p.boundary[hi] {
			hi++
		}
		if in := p.align(Range{lo, hi}); in.Len() >= shortInterior || in.Len() == p.Owned {
			if at < in.Lo {
				p.Boundary = append(p.Boundary, Range{at, in.Lo})
			}
			p.Interior = append(p.Interior, in)
			at = in.Hi
		}
		for lo = hi; lo < p.Owned && p.boundary[lo]; {
			lo++
		}
	}
	if at < p.Owned {
		p.Boundary = append(p.Boundary, Range{at, p.Owned})
	}
}

// Pack gathers the rows of a block vector of width columns that a peer needs into buf, which must have room for
// width*SendCount values.
func (p *Plan) Pack(buf, v []float64, width int, peer *Peer) {
	for _, r := range peer.Send {
		buf = buf[copy(buf, v[r.Lo*width:r.Hi*width]):]
	}
}

// Matrix generates the rows of this rank, in local numbers.
func (p *Plan) Matrix(problem Problem, format Format) (*Matrix, error) {
	b, err := NewBuilder(p.Owned, p.Owned+len(p.Ghosts), format)
	if err != nil {
		return nil, err
	}
	ghosts := make(map[int]int, len(p.Ghosts))
	for i, g := range p.Ghosts {
		ghosts[g] = p.Owned + i
	}
	var row Row
	p.each(func(global, local int) {
		problem.Row(global, &row)
		for k, c := range row.Cols {
			if own := p.Local(c); own >= 0 {
				row.Cols[k] = own
			} else {
				row.Cols[k] = ghosts[c]
			}
		}
		b.Add(row.Cols, row.Vals)
	})
	return b.Done(), nil
}
