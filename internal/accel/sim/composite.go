package sim

import (
	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// composite is a product in the pipeline of its PE: DMA read,
// fetch, GEMM, epilogue, store, DMA write. Each engine takes a tile when it has
// finished the one before and the engine before has finished this one. The reads
// and writes are messages to the HBM and back, one at a time in each direction,
// so their times are not known beforehand.
type composite struct {
	pe      *pe
	op      int
	gemm    *tl.Gemm
	tile    tl.TileSize
	count   int         // tiles
	fed     int         // of these, how many have come into the pipeline
	step    tl.TileStep // the latest one
	reads   [2]transfer // of these, how many are left
	left    int
	out     []write // tiles of the result that are stored, in order
	pending int     // writes not yet in the HBM
}

// write is a tile of the result, to be written to the HBM.
type write struct {
	ptr   tl.Ptr
	bytes int
}

// compose starts a composite: the feed loop gives it tile after tile.
func (g *engine) compose(p *pe) error {
	c := &composite{pe: p, op: p.pc, gemm: p.prog.Ops[p.pc].Gemm, tile: g.tileSize()}
	c.count = c.gemm.Tiles(c.tile)
	g.composites = append(g.composites, c)
	return g.feed(c, int32(len(g.composites)-1))
}

func (g *engine) tileSize() tl.TileSize {
	return tl.TileSize{M: g.Topo.PE.TileM, K: g.Topo.PE.TileK, N: g.Topo.PE.TileN}
}

// feed takes the next tiles: one that needs reads starts them, others pass at
// once.
func (g *engine) feed(c *composite, number int32) error {
	for ; c.fed < c.count; c.fed++ {
		step := c.gemm.Step(c.tile, c.fed)
		c.step = step
		c.left = 0
		for _, o := range []struct {
			tl.Operand
			off, n int
		}{{c.gemm.A, step.A, step.M * step.K}, {c.gemm.B, step.B, step.K * step.N}} {
			if o.Resident() {
				continue
			}
			at, err := g.Topo.Locate(o.Ptr().Plus(o.off).Addr)
			if err != nil {
				return err
			}
			c.reads[c.left] = transfer{composite: number, isTile: true, at: at, bytes: o.n * tl.ElemSize}
			c.left++
		}
		if c.left > 0 {
			g.request(c.pe, &c.pe.reading, c.reads[0])
			return nil
		}
		g.process(c, number)
	}
	return nil
}

// tileRead is one operand of a tile in the TCM. When all are there, the tile goes
// on and the next one is fed.
func (g *engine) tileRead(number int32) error {
	c := g.composites[number]
	c.left--
	if c.left > 0 {
		g.request(c.pe, &c.pe.reading, c.reads[1])
		return nil
	}
	g.process(c, number)
	c.fed++
	return g.feed(c, number)
}

// process takes a tile whose operands are in the TCM through fetch and GEMM, and
// the finished accumulator through epilogue and store. These engines belong to
// the PE alone, so their times are known now.
func (g *engine) process(c *composite, number int32) {
	p, cost, step := c.pe, &g.Topo.PE, c.step
	fetched := p.engine(Fetch, &p.fetchFree, g.now, cost.FetchBW.Time((step.M*step.K+step.K*step.N)*tl.ElemSize))
	done := p.engine(Gemm, &p.gemmFree, fetched, cost.TileCost)
	if !step.Last {
		return
	}
	elements := step.M * step.N
	for range c.gemm.Epilogue {
		done = p.engine(Math, &p.mathFree, done, g.mathTime(elements))
	}
	done = p.engine(Store, &p.storeFree, done, cost.FetchBW.Time(elements*tl.ElemSize))
	c.out = append(c.out, write{c.gemm.Out.Plus(step.Out), elements * tl.ElemSize})
	c.pending++
	g.at(done, evTile, number, int32(len(c.out)-1))
}

// engine does one piece of work when the engine is free and the work is there.
func (p *pe) engine(a Activity, free *event.Time, ready, took event.Time) event.Time {
	start := max(ready, *free)
	*free = start + took
	p.used(a, start, *free)
	return *free
}

// mathTime is what the MATH engine takes for so many elements: whole nanoseconds.
func (g *engine) mathTime(elements int) event.Time {
	return roundUp(max(event.Time(elements)*event.Nanosecond/event.Time(g.Topo.PE.MathPerNS), event.Picosecond))
}

// tileStored is a tile of the result in the TCM: it is written to the HBM.
func (g *engine) tileStored(number int32, out int) error {
	c := g.composites[number]
	w := c.out[out]
	at, err := g.Topo.Locate(w.ptr.Addr)
	if err != nil {
		return err
	}
	g.request(c.pe, &c.pe.writing, transfer{composite: number, isTile: true, at: at, bytes: w.bytes})
	return nil
}

// tileWritten is a tile of the result in the HBM. The last one ends the composite,
// once.
func (g *engine) tileWritten(number int32) {
	c := g.composites[number]
	c.pending--
	if c.pending == 0 && c.fed == c.count {
		g.completed(c.pe, c.op)
	}
}

// channel is one direction of a PE's DMA: it makes one transfer at a time, in the
// order in which they were asked for, each for the whole way there and back.
type channel struct {
	queue []transfer // the first is running
	write bool
}

// transfer is one read or write between a PE and an HBM.
type transfer struct {
	composite int32
	isTile    bool // of a composite; else it is the program's current operation
	at        topo.Location
	bytes     int
	start     event.Time
	stored    event.Time // of a write: the last burst
}

func (c *channel) current() *transfer { return &c.queue[0] }

// request asks for a transfer.
func (g *engine) request(p *pe, c *channel, t transfer) {
	c.queue = append(c.queue, t)
	if len(c.queue) == 1 {
		g.acquire(p, c)
	}
}

func (g *engine) acquire(p *pe, c *channel) {
	direction := int32(0)
	if c.write {
		direction = 1
	}
	g.at(g.now, evAcquire, p.number, direction)
}

// release ends the current transfer and starts the next.
func (g *engine) release(p *pe, c *channel) transfer {
	t := c.queue[0]
	c.queue = append(c.queue[:0], c.queue[1:]...)
	if len(c.queue) > 0 {
		g.acquire(p, c)
	}
	return t
}
