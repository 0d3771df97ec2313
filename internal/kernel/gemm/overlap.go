package gemm

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/kernel/tile"
)

// Piece is one of several products that are computed in one call.
type Piece struct{ C, A, B Matrix }

// Overlapper is an engine whose threads do other work between the tasks of a product, such as sending finished results.
type Overlapper interface {
	Engine
	// Overlap computes the products in order. When a product is complete, any free threads do its jobs, spread over the
	// tasks of the next product, or all at once after the last product. A job starts only when the same job of the
	// previous piece has ended.
	//
	// A job may wait for the same job of another engine. All engines take the jobs in the same order, so the awaited job
	// is always reached. An error of a job ends the call, and jobs that have not started are not done.
	Overlap(pieces []Piece, jobs int, do func(piece, job int) error) error
}

var _ Overlapper = (*engine)(nil)

// item is the unit of work that a thread takes at a time.
type item struct {
	kind  itemKind
	piece int
	index int // of the panel, the block of C, or the job
}

type itemKind uint8

const (
	packing itemKind = iota
	multiplying
	running
)

// overlapPiece is a piece and its cut. C is cut into blocks of mc x tc, and one thread computes each block over the
// whole of k.
type overlapPiece struct {
	Piece
	blocks
	shared int // the piece that packs B: this one, or an earlier piece with the same B
	at     int // offset of the panels of B in the buffer
	panels int // number of panels that this piece packs, over all of k
	tasks  int
}

// overlap is the state of a running call of Overlap.
type overlap struct {
	pieces []overlapPiece
	items  []item
	next   atomic.Int64 // index of the next item

	// By piece: number of panels packed, and of tasks done. By job: number of pieces whose job is done.
	panelsPacked, tasksDone, jobsDone []atomic.Int64

	packedB buffer
	do      func(piece, job int) error
	failed  atomic.Bool
	mu      sync.Mutex // guards err
	err     error      // the first error
}

// Limits for the blocks of C. A block must stay in the second-level cache while the panels of B stream by, because each
// block runs over k once. It should have enough columns to make copying A cheap.
const (
	overlapRows = 140
	overlapCols = 1024
)

// cutPiece chooses the blocks of a piece.
func cutPiece(kern *tile.Kernel, m, n, k, threads int) blocks {
	b := cut(kern, m, n, k, threads) // only for the depth, which determines the bits of the result
	if kern.Strips {
		b = cutStrips(kern, m, n, k, threads, stripPackBytes)
	}
	b.nc = n
	b.tc = roundUp(evenly(n, overlapCols), kern.Cols)
	most := max(overlapRows/kern.Rows, 1) * kern.Rows
	// At least two tasks per thread, if there are enough rows for whole tiles.
	rowTasks := max(ceilDiv(m, most), min(ceilDiv(2*threads, ceilDiv(n, b.tc)), max(m/(2*kern.Rows), 1)))
	b.mc = ceilDiv(m, rowTasks)
	if kern.Parts == nil {
		b.mc = roundUp(b.mc, kern.Rows)
	}
	return b
}

// order lists the items. Each B is packed one piece ahead, and the jobs of a piece are spread over the tasks of the
// next piece. They start once every thread has had a task, because by then the last tasks of their own piece have
// ended.
func order(list []item, pieces []overlapPiece, jobs, threads int) []item {
	add := func(kind itemKind, piece, from, to int) {
		for i := from; i < to; i++ {
			list = append(list, item{kind, piece, i})
		}
	}
	for p := range pieces {
		if p == 0 {
			add(packing, p, 0, pieces[p].panels)
		}
		if p+1 < len(pieces) {
			add(packing, p+1, 0, pieces[p+1].panels)
		}
		n := pieces[p].tasks
		from := min(threads, n)
		add(multiplying, p, 0, from)
		if p == 0 {
			add(multiplying, p, from, n)
			continue
		}
		for j := range jobs {
			add(running, p-1, j, j+1)
			to := min(threads, n) + (j+1)*(n-min(threads, n))/jobs
			add(multiplying, p, from, to)
			from = to
		}
		add(multiplying, p, from, n)
	}
	add(running, len(pieces)-1, 0, jobs)
	return list
}

// Overlap implements Overlapper. It allocates nothing if a call of the same shape was made before.
func (e *engine) Overlap(pieces []Piece, jobs int, do func(piece, job int) error) error {
	if jobs < 0 || jobs > 0 && do == nil {
		return fmt.Errorf("overlapping %d jobs: want 0 or more, and a function that does them", jobs)
	}
	w := &e.overlap
	w.pieces = w.pieces[:0]
	for i := range pieces {
		c, a, b := pieces[i].C, pieces[i].A, pieces[i].B
		if err := Check(&c, &a, &b, e.types); err != nil {
			return fmt.Errorf("overlapping piece %d: %w", i, err)
		}
		if c.Type == dtype.I32 && !e.kernels[a.Type].Strips {
			return fmt.Errorf("overlapping piece %d: operands of %v need AMX, and this engine has %v", i, a.Type,
				e.provider.level)
		}
		if c.ColStep != 1 { // use the transposed product, which is stored by rows
			a, b, c = b.T(), a.T(), c.T()
		}
		if i > 0 && (a.Type != w.pieces[0].A.Type || b.Type != w.pieces[0].B.Type) {
			return fmt.Errorf("overlapping piece %d: operands of %v and %v after %v and %v: want the same types", i, a.Type,
				b.Type, w.pieces[0].A.Type, w.pieces[0].B.Type)
		}
		w.pieces = append(w.pieces, overlapPiece{Piece: Piece{c, a, b}})
	}
	if len(pieces) == 0 {
		return nil
	}
	if err := e.setUp(jobs, do); err != nil {
		return err
	}
	e.alone = false
	e.all((*engine).share)
	err := w.err
	clear(w.pieces) // do not keep the caller's memory alive
	w.do, w.err = nil, nil
	return err
}

// setUp cuts the pieces, allocates buffers and orders the items.
func (e *engine) setUp(jobs int, do func(piece, job int) error) error {
	w, threads := &e.overlap, len(e.members)
	e.kern = e.kernelFor(&w.pieces[0].A, &w.pieces[0].B)
	e.blocks, e.stream, e.readA = blocks{}, false, false // the jobs read C from the caches
	size := 0
	for i := range w.pieces {
		p := &w.pieces[i]
		switch {
		case p.C.empty():
			continue
		case p.A.Cols == 0:
			p.C.Clear()
			continue
		}
		p.blocks = cutPiece(e.kern, p.C.Rows, p.C.Cols, p.A.Cols, threads)
		p.tasks = ceilDiv(p.C.Rows, p.mc) * ceilDiv(p.C.Cols, p.tc)
		e.blocks.mc, e.blocks.kc, e.blocks.tc = max(e.blocks.mc, p.mc), max(e.blocks.kc, p.kc), max(e.blocks.tc, p.tc)
		if i > 0 && w.pieces[i-1].tasks > 0 && same(&p.B, &w.pieces[i-1].B) {
			p.shared, p.at = w.pieces[i-1].shared, w.pieces[i-1].at
			continue
		}
		p.shared, p.at = i, size
		p.panels = ceilDiv(p.B.Rows, p.kc) * p.packItems(e.kern)
		blk := p.block(e, 0)
		size += ceilDiv(p.B.Rows, p.kc) * ceilDiv(p.B.Cols, e.kern.Cols) * blk.panelSize(e.kern)
	}
	if err := w.packedB.grow(size); err != nil {
		return err
	}
	for i := range e.members {
		grow := e.members[i].grow
		if e.kern.Strips {
			grow = e.members[i].growOverlapStrips
		}
		if err := grow(e); err != nil {
			return err
		}
	}
	w.items = order(w.items[:0], w.pieces, jobs, threads)
	w.next.Store(0)
	w.failed.Store(false)
	w.panelsPacked, w.tasksDone = zeros(w.panelsPacked, len(w.pieces)), zeros(w.tasksDone, len(w.pieces))
	w.jobsDone = zeros(w.jobsDone, jobs)
	w.do = do
	return nil
}

// same reports whether two views have the same elements.
func same(x, y *Matrix) bool {
	return unsafe.SliceData(x.Data) == unsafe.SliceData(y.Data) && x.Rows == y.Rows && x.Cols == y.Cols &&
		x.RowStep == y.RowStep && x.ColStep == y.ColStep
}

func zeros(counts []atomic.Int64, n int) []atomic.Int64 {
	if cap(counts) < n {
		return make([]atomic.Int64, n)
	}
	counts = counts[:n]
	for i := range counts {
		counts[i].Store(0)
	}
	return counts
}

// share is one member's share of the call: it takes items until none is left. An item waits only for items before it in
// the list, and threads take the items in order. So the first unfinished item never waits, and there is no deadlock.
func (e *engine) share(thread int) {
	w, me := &e.overlap, &e.members[thread]
	for !w.failed.Load() {
		i := int(w.next.Add(1)) - 1
		if i >= len(w.items) {
			return
		}
		s := w.items[i]
		p := &w.pieces[s.piece]
		switch s.kind {
		case packing:
			e.packItem(me, p, s.index)
			w.panelsPacked[s.piece].Add(1)
		case multiplying:
			if w.reach(&w.panelsPacked[p.shared], w.pieces[p.shared].panels) {
				e.blockOf(me, p, s.index)
				w.tasksDone[s.piece].Add(1)
			}
		case running:
			if w.reach(&w.tasksDone[s.piece], p.tasks) && w.reach(&w.jobsDone[s.index], s.piece) {
				w.note(w.do(s.piece, s.index))
				w.jobsDone[s.index].Add(1)
			}
		}
	}
}

// reach waits until a count reaches n. It returns false if the call fails meanwhile.
func (w *overlap) reach(count *atomic.Int64, n int) bool {
	if count.Load() < int64(n) {
		spin(func() bool { return count.Load() >= int64(n) || w.failed.Load() })
	}
	return !w.failed.Load()
}

// note keeps the first error.
func (w *overlap) note(err error) {
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.failed.Store(true)
}

// block returns the block of the piece's B that starts at row l.
func (p *overlapPiece) block(e *engine, l int) block {
	blk := block{cols: p.B.Cols, depth: p.kc, packed: &e.overlap.packedB}
	// Every block occupies the space of a full block.
	blk.at = p.at + l/p.kc*ceilDiv(p.B.Cols, e.kern.Cols)*blk.panelSize(e.kern)
	blk.l, blk.depth = l, min(p.kc, p.B.Rows-l)
	return blk
}

// packItems returns the number of items into which the packing of a block of B is cut.
func (p *overlapPiece) packItems(k *tile.Kernel) int {
	panels := ceilDiv(p.B.Cols, k.Cols)
	if k.Strips {
		return ceilDiv(panels, packPanels)
	}
	return panels
}

// packItem packs a part of the piece's B.
func (e *engine) packItem(me *member, p *overlapPiece, index int) {
	across := p.packItems(e.kern)
	l := index / across * p.kc
	if !e.kern.Strips {
		e.packPanel(me, &p.B, p.block(e, l), index%across)
		return
	}
	r, from := p.region(e), index%across*packPanels
	e.packPanels(me, &p.B, &r, l, min(p.kc, p.B.Rows-l), from, min(from+packPanels, r.count))
}

// region returns where the piece's B is packed, for kernels with strips.
func (p *overlapPiece) region(e *engine) region {
	return region{buf: &e.overlap.packedB, at: p.at, count: ceilDiv(p.B.Cols, e.kern.Cols), kc: p.kc}
}

// blockOf computes a block of C.
func (e *engine) blockOf(me *member, p *overlapPiece, index int) {
	across := ceilDiv(p.C.Cols, p.tc)
	i, j := index/across*p.mc, index%across*p.tc
	rows, cols := min(p.mc, p.C.Rows-i), min(p.tc, p.C.Cols-j)
	if e.kern.Strips {
		e.stripBlockOf(me, p, i, rows, j, cols)
		return
	}
	for l := 0; l < p.A.Cols; l += p.kc {
		blk := p.block(e, l)
		e.packA(me, &p.A, i, rows, blk)
		e.panelsOf(me, &p.C, blk, i, rows, j, cols)
	}
}

// stripBlockOf computes a block of C with strips. The thread packs A for itself.
func (e *engine) stripBlockOf(me *member, p *overlapPiece, i, rows, j, cols int) {
	strips := region{buf: &me.packedA, count: ceilDiv(rows, e.kern.Rows), kc: p.kc, single: true}
	panels, a, k := p.region(e), p.A.RowRange(i, i+rows), p.A.Cols
	s := stripBlock{c: &p.C, a: &strips, b: &panels, i: i, rows: rows, j: j, cols: cols, panel: j / e.kern.Cols}
	for l := 0; l < k; l += p.kc {
		depth := min(p.kc, k-l)
		e.packStrips(me, &a, &strips, l, depth, 0, strips.count)
		e.multiplyStrips(me, &s, l, depth, k)
	}
}

// growOverlapStrips allocates the member's buffers for a call of Overlap with strips.
func (m *member) growOverlapStrips(e *engine) error {
	kern, bl := e.kern, &e.blocks
	if err := m.packedA.grow(ceilDiv(bl.mc, kern.Rows) * stripBytes(kern, bl.kc)); err != nil {
		return err
	}
	if err := m.lines.grow(stripBytes(kern, bl.kc) + lastStepBytes); err != nil {
		return err
	}
	return m.edge.grow(roundUp(bl.mc, kern.Rows) * roundUp(bl.tc, kern.Cols) * 4)
}
