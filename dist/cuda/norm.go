package cuda

import (
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
)

// norm is a launch of its own for the norm of an epilogue, where the kernel of the
// algorithm has no block that sees whole rows: a sum over one rank.
type norm struct {
	params *gpu.Params
	launch *cuda.Launch
}

// row is how many elements a norm takes together, 0 where there is none.
func (c *call) row() int {
	if x := c.plan.Epilogue; x != nil && x.Norm != nil {
		return x.Norm.Weight.Count()
	}
	return 0
}

func (c *call) prepareNorm() error {
	name, err := gpu.Norm.Kernel(c.plan.DType, gpu.Any)
	if err != nil {
		return err
	}
	var k *cuda.Kernel
	if err := c.e.device.Do(func() error { k, err = c.e.device.kernel(gpu.Norm, name, false); return err }); err != nil {
		return err
	}
	p, l := c.params, c.launch // those of the sum
	alone := *p
	alone.Size, alone.Scale, alone.Bias = 1, 1, 0
	alone.Options, alone.DelayNS = gpu.DropStart|gpu.DropEnd, 0
	c.params = &alone
	err = c.shape(k, min(c.piece, c.plan.Count)*c.plan.DType.Size(), false)
	c.norm = &norm{c.params, c.launch}
	c.params, c.launch = p, l
	return err
}

// normalise does the norm of a piece that the kernel of the sum has left.
func (c *call) normalise() error {
	if c.norm == nil {
		return nil
	}
	n, out := c.norm, c.params.Out[c.e.rank]
	n.params.In[0], n.params.Out[c.e.rank], n.params.Count = out, out, c.params.Count
	if err := n.launch.Start(c.e.stream); err != nil {
		return c.e.broken(c.label.Text(), err)
	}
	return c.wait()
}
