package gemm

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/kernel/tile"
)

// builtin is the provider of this package.
type builtin struct {
	name, help string
	level      tile.Level
	packed     bool // B can be kept packed
}

// Builtin returns this package's own provider, with the best instructions of the machine.
func Builtin() Provider {
	return builtin{name: "builtin", help: "kernbench's own kernels, with the best instructions of this CPU",
		level: tile.Best()}
}

// BuiltinAt returns the provider restricted to a level, which must be one of tile.Levels.
func BuiltinAt(l tile.Level) Provider {
	return builtin{name: "builtin-" + l.String(), help: fmt.Sprintf("kernbench's own kernels, restricted to %v", l),
		level: l}
}

// BuiltinPacked returns the providers whose engines are Keepers: one if this machine has AMX, otherwise none.
func BuiltinPacked() []Provider {
	if !tile.For(tile.Best(), dtype.BF16).Strips {
		return nil
	}
	return []Provider{builtin{name: "builtin-packed", packed: true, level: tile.Best(),
		help: "kernbench's own kernels for AMX, with B packed before the timing"}}
}

func (p builtin) Name() string { return p.name }
func (p builtin) Help() string { return p.help }

func (p builtin) Types() []dtype.DType {
	if p.packed {
		return []dtype.DType{dtype.BF16, dtype.I8, dtype.U8}
	}
	return []dtype.DType{dtype.F64, dtype.F32, dtype.F16, dtype.BF16, dtype.I8, dtype.U8}
}

func (p builtin) Open(threads int) (Engine, error) {
	if err := checkThreads(threads); err != nil {
		return nil, err
	}
	if !slices.Contains(tile.Levels(), p.level) {
		return nil, fmt.Errorf("opening %s: this processor has only %v", p.name, tile.Levels())
	}
	e := &engine{provider: p, packBytes: stripPackBytes, streamBytes: streamBytes, members: make([]member, threads),
		types: p.Types(), fast: p.level >= tile.AVX2}
	e.runJob = func(member int) { e.job(e, member) } // stored once, because a new function would be allocated
	for _, d := range e.types {
		e.kernels[d] = tile.For(p.level, d)
	}
	if threads > 1 {
		e.team = newTeam(threads)
	}
	if p.packed {
		return keeper{e}, nil
	}
	return e, nil
}

// engine is the built-in provider with its threads and buffers.
type engine struct {
	provider builtin
	types    []dtype.DType
	fast     bool // AVX2 is available to move elements
	kernels  [dtype.Last + 1]*tile.Kernel
	team     *team // nil for one thread
	members  []member
	job      func(e *engine, member int) // of the running call
	runJob   func(member int)            // calls job

	// State of the running call.
	c, a, b Matrix
	kern    *tile.Kernel
	blocks  blocks
	alone   bool // too small to be worth waking the other threads

	// Blocks of B are packed into two alternating buffers, so that packing the next block need not wait for threads that
	// still use this one.
	packedB [2]buffer
	// Number of panels and tasks handed out so far, for the two alternating blocks.
	panels, tasks [2]atomic.Int64

	overlap overlap

	// For kernels with strips: the packed A, whether C is written past the caches, whether A is read in place, the scales
	// of the running call, and the B that stays packed.
	packedA buffer
	// Tests set lower limits than stripPackBytes and streamBytes.
	packBytes, streamBytes int

	sawNaN  atomic.Bool // a product with few rows has a sum that is not a number
	stream  bool
	readA   bool
	sharedA bool
	scales  *Scales
	kept    Matrix
	keptB   region
	keptBuf buffer

	wide [3]buffer // C, A and B of products of bytes without a kernel for them
}

// member is the private state of one thread.
type member struct {
	tile    tile.Args
	packedA buffer
	lines   buffer // elements during a transposition
	edge    buffer // a tile of C that is only partly inside, or the sums of a block
	packedB buffer // of thin products with strips
	_       [64]byte
}

func (k keeper) String() string { return k.engine.String() + ", B packed" }

func (e *engine) String() string {
	s := fmt.Sprintf("builtin %v", e.provider.level)
	if n := len(e.members); n > 1 {
		return fmt.Sprintf("%s, %d threads", s, n)
	}
	return s + ", 1 thread"
}

func (e *engine) Warnings() []string { return nil }

func (e *engine) Close() {
	if e.team != nil {
		e.team.close()
	}
	for i := range e.members {
		m := &e.members[i]
		for _, b := range []*buffer{&m.packedA, &m.lines, &m.edge, &m.packedB} {
			b.free()
		}
	}
	for _, b := range []*buffer{&e.packedB[0], &e.packedB[1], &e.overlap.packedB, &e.packedA, &e.keptBuf, &e.wide[0],
		&e.wide[1], &e.wide[2]} {
		b.free()
	}
}

func (e *engine) Multiply(c, a, b Matrix) error {
	if !e.small(&c, &a, &b) {
		return e.multiply(c, a, b)
	}
	keepAlive(&c, &a, &b)
	return nil
}

// normalise checks a product. If the product is empty, it sets C and returns true. If C is stored by columns, it
// replaces the product by the transposed one, whose result is stored by rows.
func normalise(c, a, b *Matrix, types []dtype.DType) (done bool, err error) {
	if err := Check(c, a, b, types); err != nil {
		return true, fmt.Errorf("multiplying: %w", err)
	}
	switch {
	case c.empty():
		return true, nil
	case a.Cols == 0:
		c.Clear()
		return true, nil
	case c.ColStep != 1:
		*a, *b, *c = b.T(), a.T(), c.T()
	}
	return false, nil
}

// multiply computes any product.
func (e *engine) multiply(c, a, b Matrix) error {
	if done, err := normalise(&c, &a, &b, e.types); done {
		return err
	}
	e.kern = e.kernelFor(&a, &b)
	if c.Type == dtype.I32 && !e.kern.Strips {
		return e.widened(c, a, b)
	}
	readable := e.kern.Parts != nil && e.kern.Packed == a.Type && b.ColStep == 1
	e.alone = c.Rows*c.Cols*a.Cols <= aloneWork
	if readable && e.alone {
		inPlace(e.kern, &e.members[0].tile, &c, &a, &b, a.Cols)
		keepAlive(&c, &a, &b)
		return nil
	}
	var err error
	e.c, e.a, e.b = c, a, b
	switch {
	case readable && c.Rows <= inPlaceRows:
		e.all((*engine).thinProduct)
	case e.kern.Strips:
		err = e.strips()
	default:
		err = e.packed()
	}
	e.c, e.a, e.b = Matrix{}, Matrix{}, Matrix{} // do not keep the caller's memory alive
	return err
}

// kernelFor returns the kernel for the types of two operands.
func (e *engine) kernelFor(a, b *Matrix) *tile.Kernel {
	k := e.kernels[a.Type]
	if a.Type != b.Type && k.Mixed != nil {
		return k.Mixed
	}
	return k
}

// all runs a job on every member.
func (e *engine) all(job func(e *engine, member int)) {
	if e.job = job; e.team == nil || e.alone {
		job(e, 0)
		return
	}
	e.team.run(e.runJob)
}

// packed computes a product with packed operands on all threads.
func (e *engine) packed() error {
	k, threads := e.kern, len(e.members)
	if e.alone {
		threads = 1
	}
	e.blocks = cut(k, e.c.Rows, e.c.Cols, e.a.Cols, threads)
	bl := e.blocks
	steps := roundUp(k.Steps(bl.kc), k.Unit)
	for i := range e.packedB {
		if err := e.packedB[i].grow(roundUp(bl.nc, k.Cols) / k.Cols * steps * k.PanelStep()); err != nil {
			return err
		}
	}
	for i := range threads {
		if err := e.members[i].grow(e); err != nil {
			return err
		}
	}
	for i := range 2 {
		e.panels[i].Store(0)
		e.tasks[i].Store(0)
	}
	e.all((*engine).work)
	return nil
}

// work is one member's share of the product. For every block, it packs panels of B until none is left. When all are
// packed, it takes tasks until none is left.
func (e *engine) work(thread int) {
	bl, me := e.blocks, &e.members[thread]
	n, k := e.c.Cols, e.a.Cols
	turn := 0
	for j := 0; j < n; j += bl.nc {
		for l := 0; l < k; l += bl.kc {
			blk := block{j: j, cols: min(bl.nc, n-j), l: l, depth: min(bl.kc, k-l), packed: &e.packedB[turn]}
			e.packB(me, &e.b, blk, &e.panels[turn])
			e.meet(turn)
			e.compute(me, blk, &e.tasks[turn])
			turn = 1 - turn
		}
	}
}

// meet is a barrier: it returns when all threads have packed their panels of the block. At that moment no thread
// takes tasks of this turn or panels of the next, so the last thread to arrive resets these two counters.
func (e *engine) meet(turn int) {
	reset := func() {
		e.tasks[turn].Store(0)
		e.panels[1-turn].Store(0)
	}
	if e.team == nil || e.alone {
		reset()
		return
	}
	e.team.gate.wait(reset)
}

// block is a block of B and the place where it is packed.
type block struct {
	j, cols  int // columns of B and C
	l, depth int // along k
	packed   *buffer
	at       int // offset in the buffer
}

// panelSize returns the number of bytes of one panel of the block.
func (b *block) panelSize(k *tile.Kernel) int {
	return roundUp(k.Steps(b.depth), k.Unit) * k.PanelStep()
}

// compute takes tasks of the block until none is left.
func (e *engine) compute(me *member, blk block, next *atomic.Int64) {
	colTasks := ceilDiv(blk.cols, e.blocks.tc)
	tasks := ceilDiv(e.c.Rows, e.blocks.mc) * colTasks
	for {
		task := int(next.Add(1)) - 1
		if task >= tasks {
			return
		}
		i := task / colTasks * e.blocks.mc
		j := task % colTasks * e.blocks.tc
		rows := min(e.blocks.mc, e.c.Rows-i)
		e.packA(me, &e.a, i, rows, blk)
		e.panelsOf(me, &e.c, blk, i, rows, j, min(e.blocks.tc, blk.cols-j))
	}
}

// panelsOf multiplies the packed rows of A with the panels of B that contain the columns [j, j+cols) of the block. The
// result goes to the rows of C from row i on.
func (e *engine) panelsOf(me *member, c *Matrix, blk block, i, rows, j, cols int) {
	k, t := e.kern, &me.tile
	t.K = roundUp(k.Steps(blk.depth), k.Unit)
	t.BStep, t.CRow, t.ATile = k.PanelStep(), c.RowStep*sizes[c.Type], k.Rows*t.ARow
	t.Add = blk.l > 0
	size := blk.panelSize(k)
	whole := rows / k.Rows
	rest := rows - whole*k.Rows
	for from := j; from < j+cols; from += k.Cols {
		wide := min(k.Cols, j+cols-from)
		t.Masks(wide, k)
		t.A, t.B, t.C = uintptr(me.packedA.at(0)), uintptr(blk.packed.at(blk.at+from/k.Cols*size)),
			uintptr(c.at(i, blk.j+from))
		// Prefetch the next panel into the second-level cache while this one is used.
		t.Next = t.B + uintptr(size)
		if t.Tiles = whole; whole > 0 {
			e.tilesOf(me, k.Rows, wide)
			t.Down(whole, k.Rows)
		}
		if t.Tiles = 1; rest > 0 {
			e.tilesOf(me, rest, wide)
		}
	}
}

// tilesOf computes the tiles that the member's arguments describe.
func (e *engine) tilesOf(me *member, rows, cols int) {
	k, t := e.kern, &me.tile
	switch {
	case rows == k.Rows && cols == k.Cols:
		k.Whole(t)
	case k.Parts != nil:
		k.Parts.Of(rows, cols, true)(t)
	default:
		n, a, c := t.Tiles, t.A, t.C
		for t.Tiles = 1; n > 0; n-- {
			e.throughEdge(me, rows, cols)
			t.Down(1, k.Rows)
		}
		t.A, t.C = a, c
	}
}

// throughEdge computes a whole tile in a buffer and copies the part that lies inside C.
func (e *engine) throughEdge(me *member, rows, cols int) {
	t, wide := &me.tile, e.kern.Packed == dtype.F64 // the type of C too
	c, row, add := t.C, t.CRow, t.Add
	t.C, t.CRow, t.Add = uintptr(me.edge.at(0)), e.kern.Cols*4, false
	if wide {
		t.CRow = e.kern.Cols * 8
	}
	e.kern.Whole(t)
	for i := range uintptr(rows) {
		to, from := c+i*uintptr(row), t.C+i*uintptr(t.CRow)
		if wide {
			moveRow(tile.At[float64](to), tile.At[float64](from), cols, add)
		} else {
			moveRow(tile.At[float32](to), tile.At[float32](from), cols, add)
		}
	}
	t.C, t.CRow, t.Add = c, row, add
}

func moveRow[N float32 | float64](to, from *N, n int, add bool) {
	dst, src := unsafe.Slice(to, n), unsafe.Slice(from, n)
	if !add {
		copy(dst, src)
		return
	}
	for i, x := range src {
		dst[i] += x
	}
}
