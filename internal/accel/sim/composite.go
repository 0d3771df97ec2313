package sim

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/fabric"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// composite is a matrix product that passes tile by tile through the pipeline of its PE: DMA read, fetch, GEMM,
// epilogue, store, DMA write. An engine starts a tile when it has finished the previous tile and the previous engine
// has finished this one. Reads and writes are messages to the HBM and back, one at a time in each direction. Their
// times depend on other traffic and are therefore simulated, not computed by a formula.
type composite struct {
	pe        *pe
	op        int
	gemm      *program.Gemm
	tile      program.Tile
	count     int              // number of tiles
	fed       int              // tiles that have entered the pipeline
	done      int              // tiles that have been fetched for the GEMM engine
	step      program.TileStep // the latest tile fed
	reads     [2]transfer      // of the operands of that tile
	readsLeft int              // how many of these reads are not done
	out       []write          // tiles of the result that are stored, in order
	pending   int              // tiles of the result that are not yet in the HBM
}

// write is a tile of the result, to be written to the HBM.
type write struct {
	addr  topo.Address
	bytes int
}

// compose starts a composite.
func (g *engine) compose(p *pe) error {
	c := &composite{pe: p, op: p.pc, gemm: p.prog.Ops[p.pc].Gemm, tile: program.TileOf(g.Topo)}
	c.count = c.gemm.Tiles(c.tile)
	if need := c.maxTCMBytes(); need > p.tcmRoom {
		return fmt.Errorf("%v: %s: a composite needs %d bytes of TCM for its tiles, and %d of %d are left beside the "+
			"kernel's tiles and receive slots", p.prog.ID, p.prog.Where(p.pc), need, max(0, p.tcmRoom), g.Topo.PE.TCMBytes)
	}
	g.composites = append(g.composites, c)
	return g.feed(c, int32(len(g.composites)-1))
}

// maxTCMBytes returns the largest number of bytes of TCM that a tile needs: for operands that are read, until they have
// been fetched, and for its result, until it has been written to the HBM.
func (c *composite) maxTCMBytes() int64 {
	step := c.gemm.Step(c.tile, 0)
	step.Last = true
	return c.tcmBytes(step)
}

// tcmBytes returns how many bytes of TCM a tile needs.
func (c *composite) tcmBytes(step program.TileStep) int64 {
	elements := 0
	if !c.gemm.A.Resident() {
		elements += step.M * step.K
	}
	if !c.gemm.B.Resident() {
		elements += step.K * step.N
	}
	if step.Last {
		elements += step.M * step.N
	}
	return int64(elements * c.gemm.Type.Size())
}

// reserve takes TCM for the current tile of a composite. It returns false if there is too little; freeTCM then feeds
// the tile again when some has been freed.
func (g *engine) reserve(c *composite, number int32) bool {
	need := c.tcmBytes(c.step)
	if c.pe.tcmUsed+need > c.pe.tcmRoom {
		c.pe.starved = append(c.pe.starved, number)
		return false
	}
	c.pe.tcmUsed += need
	return true
}

// freeTCM frees TCM and continues with the composites that wait for it.
func (g *engine) freeTCM(p *pe, bytes int64) error {
	p.tcmUsed -= bytes
	starved := p.starved
	p.starved = nil
	for _, number := range starved {
		if err := g.feed(g.composites[number], number); err != nil {
			return err
		}
	}
	return nil
}

// address returns the address of the element that follows the one at a by the given number of elements.
func (c *composite) address(a topo.Address, elements int) topo.Address {
	return a + topo.Address(elements*c.gemm.Type.Size())
}

// feed puts the next tile into the pipeline: it reads the operands that are not in the PE. The tile after
// it is fed when they have been read.
func (g *engine) feed(c *composite, number int32) error {
	if c.fed == c.count {
		return nil
	}
	step := c.gemm.Step(c.tile, c.fed)
	c.step = step
	if !g.reserve(c, number) {
		return nil
	}
	c.readsLeft = 0
	for _, o := range []struct {
		program.Operand
		off, n int
	}{{c.gemm.A, step.A, step.M * step.K}, {c.gemm.B, step.B, step.K * step.N}} {
		if o.Resident() {
			continue
		}
		at, err := g.Topo.Locate(c.address(o.Addr, o.off))
		if err != nil {
			return err
		}
		c.reads[c.readsLeft] = transfer{composite: number, isTile: true, location: at, bytes: o.n * c.gemm.Type.Size()}
		c.readsLeft++
	}
	c.fed++
	if c.readsLeft > 0 {
		g.request(c.pe, &c.pe.reading, c.reads[0])
		return nil
	}
	g.enqueue(c, number, true)
	return nil
}

// onTileRead runs when one operand of a tile has been read. After the last one the tile goes on to be fetched
// and the next tile is fed.
func (g *engine) onTileRead(number int32) error {
	c := g.composites[number]
	c.readsLeft--
	if c.readsLeft > 0 {
		g.request(c.pe, &c.pe.reading, c.reads[1])
		return nil
	}
	g.enqueue(c, number, false)
	return g.feed(c, number)
}

// tile is a tile of a composite whose operands are in the TCM.
type tile struct {
	composite int32
	step      program.TileStep
	resident  bool // nothing was read, so the next tile is fed after this one has been fetched
}

// enqueue adds the current tile of a composite to the tiles that wait to be fetched.
func (g *engine) enqueue(c *composite, number int32, resident bool) {
	c.pe.tiles = append(c.pe.tiles, tile{number, c.step, resident})
	g.fetch(c.pe)
}

// fetch reads the operands of the next tile from the TCM into the registers. It waits until the GEMM engine
// has taken the previous tile from the registers, and for the port of the TCM, which receives use too.
func (g *engine) fetch(p *pe) {
	if p.fetching || len(p.tiles) == 0 {
		return
	}
	if p.registers > g.now {
		g.schedule(p.registers, evFetch, p.number, 0)
		return
	}
	p.fetching = true
	step := &p.tiles[0].step
	bytes := (step.M*step.K + step.K*step.N) * g.composites[p.tiles[0].composite].gemm.Type.Size()
	took := max(g.Topo.PE.FetchBW.Time(bytes), g.Topo.PE.TCMRead.Time(bytes))
	end := g.tcm(p.index).take(false, g.now, took)
	p.recordUsage(Fetch, end-took, end)
	g.schedule(end, evFetched, p.number, 0)
}

// onFetched runs when the operands of a tile are in the registers. It schedules the GEMM and, after the last
// tile along K, the epilogue. Nothing else uses these engines, so their times are known now.
func (g *engine) onFetched(p *pe) error {
	t := p.tiles[0]
	p.tiles = append(p.tiles[:0], p.tiles[1:]...)
	p.fetching = false
	c, step := g.composites[t.composite], t.step
	c.done++
	p.registers = max(g.now, p.gemmFree)
	tile := topo.ComputeTime(g.Topo, p.prog.ID, g.Topo.PE.TileCost*event.Time(c.gemm.Halves()))
	done := p.occupy(Gemm, &p.gemmFree, g.now, tile)
	if step.Last {
		elements := step.M * step.N
		for range c.gemm.Epilogue {
			took := topo.ComputeTime(g.Topo, p.prog.ID, g.mathTime(elements*c.gemm.Halves()))
			done = p.occupy(Math, &p.mathFree, done, took)
		}
		c.out = append(c.out, write{c.address(c.gemm.Out, step.Out), elements * c.gemm.Type.Size()})
		c.pending++
		g.schedule(done, evResult, t.composite, int32(len(c.out)-1))
	}
	step.Last = false // frees the operands but not the result
	if err := g.freeTCM(p, c.tcmBytes(step)); err != nil {
		return err
	}
	if t.resident {
		if err := g.feed(c, t.composite); err != nil {
			return err
		}
	}
	g.fetch(p)
	return nil
}

// onResult runs when a tile of the result is complete, and writes it to the TCM.
func (g *engine) onResult(number int32, out int) {
	c := g.composites[number]
	p, bytes := c.pe, c.out[out].bytes
	took := max(g.Topo.PE.FetchBW.Time(bytes), g.Topo.PE.TCMWrite.Time(bytes))
	p.storeFree = g.tcm(p.index).take(true, max(g.now, p.storeFree), took)
	p.recordUsage(Store, p.storeFree-took, p.storeFree)
	g.schedule(p.storeFree, evTile, number, int32(out))
}

// occupy uses an engine of the PE for the time took, from when the engine is free and the work is ready. It returns the
// end.
func (p *pe) occupy(a Activity, free *event.Time, ready, took event.Time) event.Time {
	start := max(ready, *free)
	*free = start + took
	p.recordUsage(a, start, *free)
	return *free
}

// mathTime returns how long the MATH engine takes for a number of elements, rounded up to whole nanoseconds.
func (g *engine) mathTime(elements int) event.Time {
	return roundUp(max(event.Time(elements)*event.Nanosecond/event.Time(g.Topo.PE.MathPerNS), event.Picosecond))
}

// onTileStored runs when a tile of the result is in the TCM, and writes it to the HBM.
func (g *engine) onTileStored(number int32, out int) error {
	c := g.composites[number]
	w := c.out[out]
	at, err := g.Topo.Locate(w.addr)
	if err != nil {
		return err
	}
	g.request(c.pe, &c.pe.writing, transfer{composite: number, isTile: true, location: at, bytes: w.bytes})
	return nil
}

// onTileWritten runs when a tile of the result is in the HBM. The last one ends the composite.
func (g *engine) onTileWritten(number int32, bytes int) error {
	c := g.composites[number]
	c.pending--
	if c.pending == 0 && c.done == c.count {
		g.onAsyncDone(c.pe, c.op)
	}
	return g.freeTCM(c.pe, int64(bytes))
}

// channel is one direction of a PE's DMA. It performs one transfer at a time, in order of request, and is
// occupied for the whole round trip.
type channel struct {
	queue []transfer // the first is running
	write bool
}

// transfer is one read or write between a PE and an HBM.
type transfer struct {
	composite int32
	isTile    bool // belongs to a composite; otherwise to the program's current operation
	location  topo.Location
	bytes     int
	start     event.Time
	stored    event.Time // write: the end of the latest burst
}

func (c *channel) current() *transfer { return &c.queue[0] }

// request queues a transfer.
func (g *engine) request(p *pe, c *channel, t transfer) {
	c.queue = append(c.queue, t)
	if len(c.queue) == 1 {
		g.acquire(p, c)
	}
}

// acquire schedules the start of the first transfer in a channel's queue.
func (g *engine) acquire(p *pe, c *channel) {
	direction := int32(0)
	if c.write {
		direction = 1
	}
	g.schedule(g.now, evAcquire, p.number, direction)
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

// hbm holds the state of the channels of one PE's share of the memory.
type hbm struct {
	free    []event.Time // when each channel is free
	writing []bool       // whether the last access of each channel was a write
	served  event.Time   // whole messages only: end of the last transfer, since the controller serves one at a time
}

// controller returns the HBM that contains a location.
func (g *engine) controller(l topo.Location) *hbm {
	index := g.Topo.Index(l.PEID)
	h := g.hbm[index]
	if h == nil {
		h = &hbm{free: make([]event.Time, g.Topo.Cube.HBM.Channels), writing: make([]bool, g.Topo.Cube.HBM.Channels)}
		g.hbm[index] = h
	}
	return h
}

// commit moves the bursts of a range through their HBM channels, not before the time at, and returns the end of the
// last burst.
func (g *engine) commit(l topo.Location, bytes int, write bool, at event.Time) event.Time {
	c := &g.Topo.Cube.HBM
	h := g.controller(l)
	last, burst := at, topo.ChannelBW(g.Topo, l.PEID).Time(c.Burst)
	for off := l.Offset - l.Offset%int64(c.Burst); off < l.Offset+int64(bytes); off += int64(c.Burst) {
		ch := g.Topo.Channel(off)
		start := max(at, h.free[ch])
		if h.writing[ch] != write {
			start += c.SwitchPenalty
			h.writing[ch] = write
		}
		h.free[ch] = start + burst
		last = max(last, h.free[ch])
	}
	return last
}

// commitPiece commits a piece of a transfer: up to n bytes that begin at off.
func (g *engine) commitPiece(t *transfer, off, n int, write bool, at event.Time) event.Time {
	part := t.location
	part.Offset, n = g.Topo.Cube.HBM.Piece(t.location.Offset, t.bytes, off, min(n, t.bytes-off), write)
	return g.commit(part, n, write, at)
}

func atHBM(l topo.Location) topo.End { return topo.End{Kind: topo.AtHBM, PEID: l.PEID} }

// transfer runs when a transfer has got its DMA channel. A read sends a request, a write its data.
func (g *engine) transfer(p *pe, write bool) error {
	c := &p.reading
	if write {
		c = &p.writing
	}
	t := c.current()
	t.start, t.stored = g.now, g.now
	if !t.isTile {
		p.log[p.pc].started = g.now
	}
	if !write {
		return g.post(p.endpoint, atHBM(t.location), purpose{forLoad, p.number})
	}
	path, err := g.path(p.endpoint, atHBM(t.location))
	if err != nil {
		return err
	}
	g.track(g.fabric.SendEach(g.now, path, t.bytes, []event.Time{g.now}), purpose{forStoreData, p.number})
	return nil
}

// piece returns the size of the pieces in which the HBM serves a transfer: flits, or bursts if messages are
// whole.
func (g *engine) piece() int {
	if g.Topo.Fabric == topo.Flits {
		return g.Topo.FlitBytes
	}
	return g.Topo.Cube.HBM.Burst
}

// onReadRequest runs when a read request has reached the HBM. The HBM sends the data piece by piece, as its channels
// deliver it. In the model of whole messages, it first finishes the previous transfers.
func (g *engine) onReadRequest(p *pe) error {
	t := p.reading.current()
	from := g.now
	h := g.controller(t.location)
	if g.Topo.Fabric == topo.Whole {
		from = max(from, h.served)
	}
	path, err := g.path(atHBM(t.location), p.endpoint)
	if err != nil {
		return err
	}
	g.ready = g.ready[:0]
	latest := from
	for off := 0; off < t.bytes; off += g.piece() {
		latest = max(latest, g.commitPiece(t, off, g.piece(), false, from))
		g.ready = append(g.ready, latest)
	}
	h.served = max(latest, g.ready[0]+g.Topo.Cube.HBM.BW.Time(t.bytes))
	g.track(g.fabric.SendReady(g.now, path, t.bytes, g.ready), purpose{forLoadData, p.number})
	return nil
}

// onFlitThere runs when a flit has arrived. A flit of a write goes into the HBM. Other flits need no action.
func (g *engine) onFlitThere(message int32, flit int) {
	why := purposeOf(g.fabric.Message(message))
	if why.kind != forStoreData {
		return
	}
	t := g.pes[why.a].writing.current()
	t.stored = max(t.stored, g.commitPiece(t, flit*g.Topo.FlitBytes, g.Topo.FlitBytes, true, g.now))
}

// onStoreData runs when all data of a write has reached the HBM. In the model of whole messages, its bursts have
// arrived one by one at the rate of the slowest link, and the last one arrives now.
func (g *engine) onStoreData(p *pe, m *fabric.Message) {
	t := p.writing.current()
	if g.Topo.Fabric == topo.Whole {
		bytes, burst := m.Bytes, g.Topo.Cube.HBM.Burst
		each := m.Path.Bottleneck().BW.Time(burst)
		h := g.controller(t.location)
		for off := 0; off < bytes; off += burst {
			after := program.Cdiv(bytes-off, burst) - 1
			from := max(g.now-event.Time(after)*each, h.served)
			t.stored = max(t.stored, g.commitPiece(t, off, burst, true, from))
		}
		h.served = t.stored
	}
	g.schedule(max(t.stored, g.now), evStored, p.number, 0)
}

// onStored runs when the last burst of a write is in the HBM, and acknowledges the write.
func (g *engine) onStored(p *pe) error {
	return g.post(atHBM(p.writing.current().location), p.endpoint, purpose{forStoreAck, p.number})
}

// onLoadData runs when the data of a read has reached the PE. It ends the read, which is the program's or a tile's.
func (g *engine) onLoadData(p *pe) error {
	t := g.release(p, &p.reading)
	if t.isTile {
		p.recordUsage(DMARead, t.start, g.now)
		return g.onTileRead(t.composite)
	}
	p.recordUsage(OwnLoad, t.start, g.now)
	g.finish(p, g.now)
	return nil
}

// onStoreAck runs when the acknowledgement of a write has reached the PE. It ends the write, which is the program's or
// a tile's.
func (g *engine) onStoreAck(p *pe) error {
	t := g.release(p, &p.writing)
	if t.isTile {
		p.recordUsage(DMAWrite, t.start, g.now)
		return g.onTileWritten(t.composite, t.bytes)
	}
	p.recordUsage(OwnStore, t.start, g.now)
	g.finish(p, g.now)
	return nil
}
