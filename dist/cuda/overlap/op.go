package overlap

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/gpufused"
	"github.com/kernbench/kernbench/internal/kernel/gpugemm"
)

// Range is a range of rows or columns of C. To is exclusive.
type Range struct{ From, To int }

// Plan describes how C is partitioned.
type Plan struct {
	Columns bool    // Ranges are columns, not rows
	Ranges  []Range // the partitions
	Overlap bool    // sum a partition while the next one is multiplied
	// OneKernel multiplies and sums in one kernel, which ignores Ranges.
	OneKernel bool
}

func roundUp(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }

// Alloc allocates A (m x k), B (k x n) and C with up to the given number of partitions. It is collective
// and may be called once.
func (r *Rank) Alloc(m, n, k, partitions int) (err error) {
	if m < 1 || n < 1 || k < 1 {
		return fmt.Errorf("%d x %d x %d: all sizes must be at least 1", m, n, k)
	}
	r.m, r.n, r.k = m, n, roundUp(k, gpugemm.StepK)
	if r.c, err = r.group.Alloc(dist.F32, m*(n+gpugemm.StepC*partitions)); err != nil {
		return err
	}
	if r.addresses, err = r.engine.Addresses(r.c); err != nil {
		return err
	}
	r.words = gpufused.FlagWords(m, n)
	flags, err := r.group.Alloc(dist.F32, r.words) // Alloc zeroes them
	if err != nil {
		return err
	}
	if r.flags, err = r.engine.Addresses(flags); err != nil {
		return err
	}
	return r.device.Do(func() error {
		for i, rows := range []int{m, n} {
			if r.operands[i], err = r.device.Alloc(rows * r.k * r.config.DType.Size()); err != nil {
				return err
			}
		}
		for range 2 + partitions {
			e, err := r.device.Event()
			if err != nil {
				return err
			}
			r.events = append(r.events, e)
		}
		return nil
	})
}

// Load copies this rank's A and B to the GPU. B is stored there by columns.
func (r *Rank) Load(a, b gemm.Matrix) error {
	return r.device.Do(func() error {
		return errors.Join(r.device.Write(r.operands[0], r.pack(a, r.m)),
			r.device.Write(r.operands[1], r.pack(b.T(), r.n)))
	})
}

// pack returns the elements row by row, with K padded with zeros to r.k.
func (r *Rank) pack(m gemm.Matrix, rows int) []byte {
	size := m.Type.Size()
	to := make([]byte, rows*r.k*size)
	for i := range rows {
		line := to[i*r.k*size:]
		if m.ColStep == 1 {
			copy(line, m.Run(i, 0, m.Cols))
			continue
		}
		for j := range m.Cols {
			copy(line[j*size:(j+1)*size], m.Run(i, j, 1))
		}
	}
	return to
}

// part is a prepared partition.
type part struct {
	from, to   int // rows or columns of C
	offset     int // of its first element in the memory of C, in elements
	rows, cols int
	stride     int // distance between rows in elements
	product    *gpugemm.Product
	sum        *launch
}

// launch is a kernel launch with its parameters.
type launch struct {
	*cuda.Launch
	params *gpufused.Params
}

// Op is a prepared plan. All ranks must run their ops in the same order.
type Op struct {
	rank      *Rank
	plan      Plan
	parts     []part
	gate      *launch
	oneKernel *oneKernel // nil if the plan has partitions
	// unordered is a fault for tests: sums do not wait for the products that they add.
	unordered bool
}

// Prepare prepares a plan. It is collective.
func (r *Rank) Prepare(p Plan) (*Op, error) {
	o := &Op{rank: r, plan: p}
	if p.OneKernel {
		return o, o.prepareOneKernel()
	}
	err := r.device.Do(func() error {
		gate, err := gpufused.Gate(r.config.Dependent).Load(r.device)
		if err != nil {
			return err
		}
		o.gate = r.launch(gate, 1, gpufused.GateThreads, 0, r.params())
		offset := 0
		for _, extent := range p.Ranges {
			part, err := o.preparePart(extent, offset)
			if err != nil {
				return err
			}
			o.parts = append(o.parts, part)
			offset += part.rows * part.stride
		}
		return nil
	})
	return o, err
}

// overlaps reports whether products and sums run concurrently.
func (o *Op) overlaps() bool { return o.plan.Overlap && len(o.plan.Ranges) > 1 }

// preparePart prepares the product and the sum of one partition, whose first element is at offset.
func (o *Op) preparePart(extent Range, offset int) (part, error) {
	r := o.rank
	x := part{from: extent.From, to: extent.To, offset: offset, rows: extent.To - extent.From, cols: r.n}
	row := cuda.Pointer(extent.From * r.k * r.config.DType.Size())
	a, b := r.operands[0]+row, r.operands[1]
	if o.plan.Columns {
		x.rows, x.cols, a, b = r.m, extent.To-extent.From, r.operands[0], r.operands[1]+row
	}
	x.stride = roundUp(x.cols, gpugemm.StepC)
	shape := gpugemm.Shape{DType: r.config.DType, M: x.rows, N: x.cols, K: r.k, StrideC: x.stride,
		Multiprocessors: r.multiprocessors}
	blocks := 2 * r.multiprocessors
	if o.overlaps() {
		shape.Multiprocessors, blocks = max(1, r.multiprocessors-r.sumMultiprocessors()), 2*r.sumMultiprocessors()
	}
	var err error
	if x.product, err = r.products.Prepare(shape, a, b, r.addresses[r.group.Rank()]+cuda.Pointer(4*offset)); err != nil {
		return x, err
	}
	kernel, err := gpufused.Sum(r.group.Size(), r.config.Dependent).Load(r.device)
	if err != nil {
		return x, err
	}
	p := r.params()
	p.First, p.Packs = uint64(offset/gpugemm.StepC), uint64(x.rows*x.stride/gpugemm.StepC)
	each := (int(p.Packs)/r.group.Size() + gpufused.SumThreads) / gpufused.SumThreads
	x.sum = r.launch(kernel, max(1, min(blocks, each)), gpufused.SumThreads, 0, p)
	return x, nil
}

// params returns new parameters with the fields that all launches have in common.
func (r *Rank) params() *gpufused.Params {
	failure, limit := r.engine.KernelTimeout()
	p := &gpufused.Params{Failure: uint64(failure), LimitNS: uint64(limit), Rank: uint32(r.group.Rank()),
		Size: uint32(r.group.Size())}
	for rank := range r.group.Size() {
		p.C[rank], p.Flags[rank] = uint64(r.addresses[rank]), uint64(r.flags[rank])
	}
	return p
}

func (r *Rank) launch(k *cuda.Kernel, blocks, threads, shared int, p *gpufused.Params) *launch {
	l := cuda.NewLaunch(k, blocks, threads, shared, false, p)
	if r.config.Dependent {
		l.Dependent()
	}
	return &launch{l, p}
}

// Details returns how the product is computed, for the stored result.
func (o *Op) Details() map[string]string {
	if o.oneKernel != nil {
		return o.oneKernel.details()
	}
	return o.parts[0].product.Details()
}

// Poison fills C with NaNs, so that elements that a run does not write are found.
func (r *Rank) Poison() error {
	const nan = 0xff // a float32 of four such bytes is a NaN
	return r.device.Do(func() error { return r.device.Fill(r.addresses[r.group.Rank()], nan, r.c.Count()*4) })
}

// Parts returns the partitions of C, read from the GPU. They are valid until the next call.
func (o *Op) Parts() ([]gemm.Matrix, error) {
	last, r := o.parts[len(o.parts)-1], o.rank
	need := 4 * (last.offset + last.rows*last.stride)
	err := r.device.Do(func() (err error) {
		if r.mirror == nil { // allocated once, because C may have gigabytes and is read often; pinned, because that is fast
			if r.mirror, err = r.device.Share(4 * r.c.Count()); err != nil {
				return err
			}
		}
		return r.device.Read(r.mirror.Bytes[:need], r.addresses[r.group.Rank()])
	})
	if err != nil {
		return nil, err
	}
	bytes := r.mirror.Bytes[:need]
	values := unsafe.Slice((*float32)(unsafe.Pointer(&bytes[0])), len(bytes)/4)
	var all []gemm.Matrix
	for _, x := range o.parts {
		all = append(all, gemm.Of(values[x.offset:x.offset+x.rows*x.stride], x.rows, x.cols, x.stride))
	}
	return all, nil
}
