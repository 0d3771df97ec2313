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
	if c.staged && max(p.Count, p.Out.Count())*width > stageBytes {
		return fmt.Errorf("%v through the host: at most %d bytes; use memory that Alloc gives", p, stageBytes)
	}
	switch mine, n := dist.Block(p.Count, e.size, e.rank); {
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
	var moves []move
	mine, n := dist.Block(p.Count, e.size, e.rank)
	switch p.Op {
	case dist.AllGather:
		for r := range e.size {
			off, block := dist.Block(p.Count, e.size, r)
			moves = append(moves, move{r, 0, off * width, block * width})
		}
	case dist.Gather:
		for r := range e.size {
			if off, block := dist.Block(p.Count, e.size, r); e.rank == p.Root {
				moves = append(moves, move{r, 0, off * width, block * width})
			}
		}
	case dist.Scatter:
		moves = append(moves, move{p.Root, mine * width, 0, n * width})
	case dist.Broadcast:
		moves = append(moves, move{p.Root, 0, 0, p.Count * width})
	case dist.AllToAll:
		for r := range e.size {
			moves = append(moves, move{r, mine * width, r * n * width, n * width})
		}
	}
	c.work = func(c *call, _, _ int) error {
		for _, m := range moves {
			to, from := c.peers[1][e.rank]+cuda.Pointer(m.dst), c.peers[0][m.from]+cuda.Pointer(m.src)
			if m.bytes == 0 || to == from {
				continue
			}
			if err := e.stream.Copy(to, from, m.bytes); err != nil {
				return e.broken(c.label.Text(), err)
			}
		}
		if err := c.finish(); err != nil {
			return err
		}
		return e.agree(endOfCopies) // nobody may change an input that another still reads
	}
	return nil
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
	c.params.In[0], c.params.Out[0], c.params.Out[c.e.rank] = uint64(c.peers[1][c.e.rank]), uint64(c.peers[1][c.e.rank]), uint64(c.peers[1][c.e.rank])
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
				if err := e.stream.Copy(to, c.peers[0][r]+cuda.Pointer((mine+done)*width), piece*width); err != nil {
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
			if err := e.stream.Copy(to, c.result(), piece*width); err != nil {
				return e.broken(c.label.Text(), err)
			}
			if err := c.wait(); err != nil {
				return err
			}
			done += piece
		}
		return e.agree(endOfCopies)
	}
	return nil
}

// result is where a rank puts a block before it goes to its place.
func (c *call) result() cuda.Pointer { return c.e.partial.at[c.e.rank] }
