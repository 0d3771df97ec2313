package cuda

import (
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
)

// move is a copy from a rank's memory into this rank's output, in bytes.
type move struct {
	from     int // rank
	src, dst int
	bytes    int
}

var endOfCopies = shm.NewLabel("the end of a collective by copies")

// others prepares the collectives that only move data: every rank copies what it needs
// from the others' inputs. A reduce-scatter is an all-reduce of which each rank keeps its
// block, and a reduce one that the root keeps.
func (c *call) others() error {
	p, e := c.plan, c.e
	width := p.DType.Size()
	if c.staged && c.longest()*width > stageBytes {
		return fmt.Errorf("%v through the host: at most %d bytes; use memory that Alloc gives", p, stageBytes)
	}
	switch mine, n := p.Params(e.size).Block(e.rank); {
	case p.Op == dist.ReduceScatter:
		return c.reduceBlock(mine, n)
	case p.Op == dist.Reduce && e.rank == p.Root:
		return c.reduceBlock(0, p.Count)
	case p.Op == dist.Reduce:
		return c.reduceBlock(0, 0)
	}
	if p.Epilogue != nil {
		if err := c.prepareFinish(); err != nil {
			return err
		}
	}
	moves := c.moves()
	c.work = func(c *call, _, _ int) error {
		for _, m := range moves {
			to, from := c.peers[1][e.rank]+cuda.Pointer(m.dst), c.peers[0][m.from]+cuda.Pointer(m.src)
			if m.bytes == 0 || to == from {
				continue
			}
			if err := e.copy(to, from, m.bytes); err != nil {
				return e.broken(c.label.Text(), err)
			}
		}
		if err := c.finish(); err != nil {
			return err
		}
		return e.agreement.Check(endOfCopies) // nobody may change an input that another still reads
	}
	return nil
}

// longest is how many elements the longest buffer of any rank has, the same on all.
func (c *call) longest() (most int) {
	p, size := c.plan, c.e.size
	if p.Op != dist.AllToAll {
		return p.Count
	}
	for r := range size {
		before, _, give := p.Params(size).Pair(r, size-1)
		_, after, get := p.Params(size).Pair(size-1, r)
		most = max(most, before+give, after+get)
	}
	return most
}

// moves are the copies that this rank makes.
func (c *call) moves() (list []move) {
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

// prepareFinish makes the kernel that applies an epilogue to the output: a sum over
// one rank.
func (c *call) prepareFinish() error {
	p := c.plan
	if err := c.aligned(c.out); err != nil {
		return err
	}
	one := p
	one.Op, one.Algorithm, one.InPlace, one.Count, one.Reduction = dist.AllReduce, naive, false, p.Out.Count(), dist.Sum
	c.plan = one
	err := c.allReduce()
	c.plan = p
	if err == nil {
		c.params.Size = 1
	}
	return err
}

// finish applies the epilogue, if there is one, and waits for everything.
func (c *call) finish() error {
	out := c.plan.Out.Count()
	if c.plan.Epilogue == nil || out == 0 {
		return c.wait()
	}
	if err := c.copyVectors(); err != nil {
		return err
	}
	c.params.In[0], c.params.Out[0], c.params.Out[c.e.rank] = uint64(c.peers[1][c.e.rank]), uint64(c.peers[1][c.e.rank]),
		uint64(c.peers[1][c.e.rank])
	c.params.Count, c.params.Base = uint64(out), 0
	if c.bias[1].allocation != nil {
		c.params.Residual = uint64(c.bias[1].pointer(c.e.rank))
	}
	return c.start()
}

// stagedOther is a call of these on the program's own memory.
func (c *call) stagedOther() error {
	p, e := c.plan, c.e
	if p.In.Count() > 0 {
		if err := c.copyIn(e.stage[0].at[e.rank], p.In); err != nil {
			return e.broken(c.label.Text(), err)
		}
	}
	if err := c.meet(); err != nil {
		return err
	}
	if err := c.work(c, 0, p.Count); err != nil {
		return err
	}
	if p.Out.Count() == 0 {
		return nil
	}
	if err := c.copyOut(p.Out, e.stage[1].at[e.rank]); err != nil {
		return e.broken(c.label.Text(), err)
	}
	return nil
}

// reduceBlock sums n elements of all inputs from mine on by the kernel of one stage, each
// rank at a place of its own. Blocks need not be aligned, so it goes through
// scratch memory, in which they are.
func (c *call) reduceBlock(mine, n int) error {
	p, e := c.plan, c.e
	width := p.DType.Size()
	whole := p
	whole.Op, whole.Algorithm, whole.InPlace = dist.AllReduce, naive, false
	c.plan = whole
	if err := c.allReduce(); err != nil {
		return err
	}
	c.plan = p
	c.params.Options &^= gpu.RoundEach // a direct sum
	room := 2 * stageBytes / e.size &^ 255
	c.work = func(c *call, _, _ int) error {
		if err := c.copyVectors(); err != nil {
			return err
		}
		for done := 0; done < n; {
			piece := min(room/width, n-done)
			for r := range e.size {
				to := e.scratch.at[e.rank] + cuda.Pointer(r*room)
				if err := e.copy(to, c.peers[0][r]+cuda.Pointer((mine+done)*width), piece*width); err != nil {
					return e.broken(c.label.Text(), err)
				}
				c.params.In[r], c.params.Out[r] = uint64(to), uint64(c.result())
			}
			c.params.Count, c.params.Base = uint64(piece), uint64(done)
			if c.bias[1].allocation != nil {
				c.params.Residual = uint64(c.bias[1].pointer(e.rank)) + uint64(done*width)
			}
			if err := c.start(); err != nil {
				return err
			}
			to := c.peers[1][e.rank] + cuda.Pointer(done*width)
			if err := e.copy(to, c.result(), piece*width); err != nil {
				return e.broken(c.label.Text(), err)
			}
			if err := c.wait(); err != nil {
				return err
			}
			done += piece
		}
		return e.agreement.Check(endOfCopies)
	}
	return nil
}

// result is where a rank puts a block before it goes to its place.
func (c *call) result() cuda.Pointer { return c.e.partial.at[c.e.rank] }

// copier starts copies on a stream, by the copy engine or by a kernel of package gpu. It
// is used by one call at a time.
type copier struct {
	stream      *cuda.Stream
	params      *gpu.Copy
	all, single *cuda.Launch // of many blocks, and of one; nil: the copy engine
	alike       int          // by what the ends' addresses may differ, or a multiple; 0: by anything
}

// singleBytes is the most that one block copies: more blocks take less time beyond that.
const singleBytes = 64 << 10

// newCopier makes one of a method; "" is the copy engine.
func (e *engine) newCopier(method string, stream *cuda.Stream) (c copier, err error) {
	c = copier{stream: stream, params: new(gpu.Copy)}
	kernel, threads, shared := gpu.Loads, gpu.LoadsThreads, 0
	switch method {
	case "", byEngine:
		return c, nil
	case byBulk:
		kernel, threads, shared, c.alike = gpu.Bulk, gpu.BulkThreads, gpu.BulkShared, gpu.BulkAlignment
	}
	err = e.device.Do(func() error {
		k, err := e.device.kernel(kernel, string(kernel), false)
		if err == nil && shared > 0 {
			err = k.AllowShared(shared)
		}
		if err != nil {
			return err
		}
		// Nobody waits for these blocks, so there may be as many as there is room for.
		blocks := max(1, 2*e.device.multiprocessors/e.residents)
		c.all, c.single = cuda.NewLaunch(k, blocks, threads, shared, false, c.params),
			cuda.NewLaunch(k, 1, threads, shared, false, c.params)
		return nil
	})
	return c, err
}

// flags tells whether a copy can raise a flag.
func (c *copier) flags(bytes int) bool { return c.single != nil && bytes <= singleBytes }

// start starts a copy. A flag, where there can be one, gets the value when it is done.
func (c *copier) start(to, from cuda.Pointer, bytes int, flag cuda.Pointer, value uint32) error {
	if c.all == nil {
		return c.stream.Copy(to, from, bytes)
	}
	if c.alike > 0 && int(to^from)%c.alike != 0 {
		return fmt.Errorf("%s=%s: the ends of a copy do not lie alike within %d bytes", copyKnob, byBulk, c.alike)
	}
	*c.params = gpu.Copy{To: uint64(to), From: uint64(from), Bytes: uint64(bytes), Flag: uint64(flag), Value: value}
	if bytes <= singleBytes {
		return c.single.Start(c.stream)
	}
	c.params.Flag = 0
	return c.all.Start(c.stream)
}

// copy starts a copy of a collective.
func (e *engine) copy(to, from cuda.Pointer, bytes int) error {
	return e.copies.start(to, from, bytes, 0, 0)
}
