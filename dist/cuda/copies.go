package cuda

import (
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
)

// move is a copy from a rank's input to this rank's output. Offsets and length are in bytes.
type move struct {
	from     int // rank
	src, dst int
	bytes    int
}

var copiesDone = shm.NewLabel("the end of a collective by copies")

// prepareCopies prepares every collective except the all-reduce. Each rank copies the data that it needs
// from the other ranks' inputs. In a reduce-scatter each rank sums its block, and in a reduce the root
// sums everything.
func (c *call) prepareCopies() error {
	p, e := c.plan, c.e
	width := p.DType.Size()
	if c.staged && c.longestBuffer()*width > stageBytes {
		return fmt.Errorf("%v on host memory: at most %d bytes; use memory from Alloc", p, stageBytes)
	}
	switch first, n := p.Params(e.size).Block(e.rank); {
	case p.Op == dist.ReduceScatter:
		return c.prepareBlockSum(first, n)
	case p.Op == dist.Reduce && e.rank == p.Root:
		return c.prepareBlockSum(0, p.Count)
	case p.Op == dist.Reduce:
		return c.prepareBlockSum(0, 0)
	}
	if p.Epilogue != nil {
		if err := c.prepareEpilogue(); err != nil {
			return err
		}
	}
	moves := c.listMoves()
	c.work = func(int, int) error {
		for _, m := range moves {
			to, from := c.peers[1][e.rank]+cuda.Pointer(m.dst), c.peers[0][m.from]+cuda.Pointer(m.src)
			if m.bytes == 0 || to == from {
				continue
			}
			if err := e.copy(to, from, m.bytes); err != nil {
				return c.fail(err)
			}
		}
		if err := c.applyEpilogue(); err != nil {
			return err
		}
		return e.Checker.Check(copiesDone) // no rank may change its input before all have read it
	}
	return nil
}

// longestBuffer returns the number of elements in the longest buffer of any rank, so that all ranks come
// to the same result.
func (c *call) longestBuffer() (longest int) {
	p, size := c.plan, c.e.size
	if p.Op != dist.AllToAll {
		return p.Count
	}
	for r := range size {
		in, _, sent := p.Params(size).Pair(r, size-1) // the last block of rank r's input
		_, out, received := p.Params(size).Pair(size-1, r)
		longest = max(longest, in+sent, out+received)
	}
	return longest
}

// listMoves returns the copies that this rank makes.
func (c *call) listMoves() (list []move) {
	p, e := c.plan, c.e
	width := p.DType.Size()
	switch p.Op {
	case dist.AllGather, dist.Gather:
		for r := range e.size {
			if off, n := p.Params(e.size).Block(r); p.Op == dist.AllGather || e.rank == p.Root {
				list = append(list, move{r, 0, off * width, n * width})
			}
		}
	case dist.Scatter:
		off, n := p.Params(e.size).Block(e.rank)
		list = append(list, move{p.Root, off * width, 0, n * width})
	case dist.Broadcast:
		list = append(list, move{p.Root, 0, 0, p.Count * width})
	case dist.AllToAll:
		for r := range e.size {
			in, out, n := p.Params(e.size).Pair(r, e.rank)
			list = append(list, move{r, in * width, out * width, n * width})
		}
	}
	return list
}

// prepareNaive prepares the naive all-reduce's kernel for this call, whose plan is changed by set.
func (c *call) prepareNaive(set func(p *dist.Plan)) error {
	p := c.plan
	defer func() { c.plan = p }()
	c.plan.Op, c.plan.Algorithm, c.plan.InPlace = dist.AllReduce, naive, false
	set(&c.plan)
	return c.prepareAllReduce()
}

// prepareEpilogue prepares the kernel that applies the epilogue to the output: a sum over one rank.
func (c *call) prepareEpilogue() error {
	if err := c.checkAligned(c.out); err != nil {
		return err
	}
	err := c.prepareNaive(func(p *dist.Plan) { p.Count, p.Reduction = p.Out.Count(), dist.Sum })
	if err == nil {
		c.params.Size = 1
	}
	return err
}

// applyEpilogue applies the epilogue, if there is one, and waits until the stream's work is done.
func (c *call) applyEpilogue() error {
	count := c.plan.Out.Count()
	if c.plan.Epilogue == nil || count == 0 {
		return c.wait()
	}
	if err := c.uploadVectors(); err != nil {
		return err
	}
	out := uint64(c.peers[1][c.e.rank])
	c.params.In[0], c.params.Out[0], c.params.Out[c.e.rank] = out, out, out
	c.setRange(0, count)
	return c.launchAndWait()
}

// prepareBlockSum prepares the sum of n elements of all inputs from first on, which this rank keeps. Each
// rank may sum different elements. Blocks need not begin at a pack boundary, so they are copied to
// scratch memory, where they do.
func (c *call) prepareBlockSum(first, n int) error {
	e, width := c.e, c.plan.DType.Size()
	if err := c.prepareNaive(func(*dist.Plan) {}); err != nil {
		return err
	}
	c.params.Options &^= gpu.RoundEach // round once
	sum := e.blockSum.addr[e.rank]
	c.work = func(int, int) error {
		if err := c.uploadVectors(); err != nil {
			return err
		}
		for done := 0; done < n; {
			piece := min(e.inputRoom()/width, n-done)
			for r := range e.size {
				to := e.scratch.addr[e.rank] + cuda.Pointer(r*e.inputRoom())
				if err := e.copy(to, c.peers[0][r]+cuda.Pointer((first+done)*width), piece*width); err != nil {
					return c.fail(err)
				}
				c.params.In[r], c.params.Out[r] = uint64(to), uint64(sum)
			}
			c.setRange(done, piece)
			if err := c.launchAndWait(); err != nil {
				return err
			}
			if err := e.copy(c.peers[1][e.rank]+cuda.Pointer(done*width), sum, piece*width); err != nil {
				return c.fail(err)
			}
			if err := c.wait(); err != nil {
				return err
			}
			done += piece
		}
		return e.Checker.Check(copiesDone)
	}
	return nil
}

// copier starts copies on a stream, by the copy engine or by a kernel of package gpu. One call at a time
// uses it.
type copier struct {
	stream *cuda.Stream
	params *gpu.Copy
	// many and single are launches of many blocks and of one block; nil means the copy engine.
	many, single *cuda.Launch
	// alignment: source and destination must have the same address modulo this; 0 means any.
	alignment int
}

// singleBytes is the most that one block copies. Longer copies are faster with many blocks.
const singleBytes = 64 << 10

// newCopier returns a copier for a value of the knob "copy"; "" is the copy engine.
func (e *engine) newCopier(method string, stream *cuda.Stream) (c copier, err error) {
	c = copier{stream: stream, params: new(gpu.Copy)}
	kernel, threads, shared := gpu.Loads, gpu.LoadsThreads, 0
	switch method {
	case "", byEngine:
		return c, nil
	case byBulk:
		kernel, threads, shared, c.alignment = gpu.Bulk, gpu.BulkThreads, gpu.BulkShared, gpu.BulkAlignment
	}
	err = e.device.Do(func() error {
		k, err := e.device.kernel(kernel, string(kernel), false)
		if err == nil && shared > 0 {
			err = k.AllowShared(shared)
		}
		if err != nil {
			return err
		}
		// These blocks wait for no other rank, so they need not all be resident at once.
		blocks := max(1, 2*e.device.multiprocessors/e.residentRanks)
		c.many = cuda.NewLaunch(k, blocks, threads, shared, false, c.params)
		c.single = cuda.NewLaunch(k, 1, threads, shared, false, c.params)
		return nil
	})
	return c, err
}

// raisesFlag reports whether a copy of this size sets a flag when it is done. Only a copy by a single block
// can: with several blocks, none knows when the others are done.
func (c *copier) raisesFlag(bytes int) bool { return c.single != nil && bytes <= singleBytes }

// start starts a copy. If the copy raises a flag, it stores value there when it is done.
func (c *copier) start(to, from cuda.Pointer, bytes int, flag cuda.Pointer, value uint32) error {
	if c.many == nil {
		return c.stream.Copy(to, from, bytes)
	}
	if c.alignment > 0 && int(to^from)%c.alignment != 0 {
		return fmt.Errorf("%s=%s: source and destination of a copy differ in their alignment to %d bytes", copyKnob, byBulk,
			c.alignment)
	}
	*c.params = gpu.Copy{To: uint64(to), From: uint64(from), Bytes: uint64(bytes), Flag: uint64(flag), Value: value}
	if c.raisesFlag(bytes) {
		return c.single.Start(c.stream)
	}
	c.params.Flag = 0
	return c.many.Start(c.stream)
}

// copy starts a copy of a collective on the engine's stream.
func (e *engine) copy(to, from cuda.Pointer, bytes int) error {
	return e.copier.start(to, from, bytes, 0, 0)
}
