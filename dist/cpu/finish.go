package cpu

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/kernel/epilogue"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// combine is the operation of the kernels for a reduction; an average is a sum
// that the finish divides.
func combine(r dist.Reduction) vec.Op {
	return [...]vec.Op{dist.Sum: vec.Sum, dist.Prod: vec.Prod, dist.Min: vec.Min, dist.Max: vec.Max, dist.Avg: vec.Sum}[r]
}

// finish is what happens to elements between the sum and the output.
type finish struct {
	epilogue.Step
	local bool // ranks may do different things, so each does it to its own output
}

func newFinish(p dist.Plan, size int) finish {
	var f finish
	if p.Op.Reduces() && p.Reduction == dist.Avg {
		f.Step = epilogue.Average(p.DType, size)
	}
	if e := p.Epilogue; e != nil {
		f.Step, f.local = f.Then(p.DType, e.Scale, e.Bias.Bytes(), e.Residual.Bytes()), true
	}
	return f
}

// shared is done by the one rank that makes a sum, before others get it.
func (f *finish) shared(out []byte) {
	if !f.local {
		f.apply(out, 0)
	}
}

// own is done by every rank to the part of its output that begins at a byte.
func (f *finish) own(out []byte, at int) {
	if f.local {
		f.apply(out, at)
	}
}

func (f *finish) apply(out []byte, at int) { f.Apply(out, at) }
