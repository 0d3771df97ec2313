package gemm

import (
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/dynlib"
)

// dnnProduct holds the library's objects for products of one shape, and the arguments that C reads.
type dnnProduct struct {
	library         *dnnLibrary
	views           [3]Matrix // C, A and B without their elements
	implementation  string
	descs           []uintptr // memory descriptors
	pd, primitive   uintptr
	a, b, c         uintptr // memory objects
	args            [3]dnnArg
	reorderPD       uintptr // with a packed B: its conversion
	reorder, packed uintptr
	move            [2]dnnArg
	convertedB      uintptr // the converted B
}

// dnnArg is the C type struct { int arg; dnnl_memory_t memory; }.
type dnnArg struct {
	arg    int64
	memory uintptr
}

// The sizes of C structs in version 2, rounded up generously: a memory descriptor and the description of a product.
// Memory for the library is aligned to pages, which is more than its kernels want.
const (
	dnnAlign        = 4 << 10
	dnnDescBytes    = 4 << 10
	dnnProductBytes = 16 << 10
)

// like reports whether the product has the shape, the types and the strides of these matrices.
func (p *dnnProduct) like(c, a, b *Matrix) bool {
	if p == nil {
		return false
	}
	for i, m := range [...]*Matrix{c, a, b} {
		v := &p.views[i]
		if m.Type != v.Type || m.Rows != v.Rows || m.Cols != v.Cols || m.RowStep != v.RowStep || m.ColStep != v.ColStep {
			return false
		}
	}
	return true
}

// destroy frees the library's objects.
func (p *dnnProduct) destroy() {
	if p == nil {
		return
	}
	l := p.library
	for _, x := range []struct {
		object  uintptr
		destroy dynlib.Func
	}{{p.a, l.destroyMemory}, {p.b, l.destroyMemory}, {p.c, l.destroyMemory}, {p.packed, l.destroyMemory},
		{p.primitive, l.destroyPrimitive}, {p.reorder, l.destroyPrimitive}, {p.pd, l.destroyPD},
		{p.reorderPD, l.destroyPD}, {p.convertedB, l.free}} {
		if x.object != 0 {
			x.destroy.Call(x.object)
		}
	}
	for _, d := range p.descs {
		if l.version[0] == 2 {
			l.free.Call(d)
		} else {
			l.destroyDesc.Call(d)
		}
	}
}

// run executes a primitive and waits for its end.
func (l *dnnLibrary) run(doing string, primitive uintptr, args []dnnArg) error {
	if err := dnnError(doing,
		l.execute.Call(primitive, l.stream, uintptr(len(args)), uintptr(unsafe.Pointer(&args[0])))); err != nil {
		return err
	}
	return dnnError(doing, l.wait.Call(l.stream))
}

// desc makes a memory descriptor for a matrix: as it is stored, or in the layout that the library prefers.
func (p *dnnProduct) desc(m *Matrix, any bool) (uintptr, error) {
	l := p.library
	size, strides := new([12]int64), new([12]int64)
	size[0], size[1] = int64(m.Rows), int64(m.Cols)
	// The stride of a single row or column has no meaning for us, but the library checks it.
	strides[0], strides[1] = int64(m.RowStep), int64(m.ColStep)
	if m.Rows == 1 && m.ColStep == 1 {
		strides[0] = int64(m.Cols)
	} else if m.Cols == 1 && m.RowStep == 1 {
		strides[1] = int64(m.Rows)
	}
	init, last := l.descByStrides, strides
	handle := new(uintptr)
	if l.version[0] == 2 {
		*handle = l.alloc.Call(dnnAlign, dnnDescBytes)
		p.descs = append(p.descs, *handle)
	}
	var status uintptr
	switch {
	case any && l.version[0] == 2:
		status = l.descByTag.Call(*handle, 2, uintptr(unsafe.Pointer(size)), dnnTypes[m.Type], dnnAny)
	case any:
		status = l.descByTag.Call(uintptr(unsafe.Pointer(handle)), 2, uintptr(unsafe.Pointer(size)), dnnTypes[m.Type], dnnAny)
	case l.version[0] == 2:
		status = init.Call(*handle, 2, uintptr(unsafe.Pointer(size)), dnnTypes[m.Type], uintptr(unsafe.Pointer(last)))
	default:
		status = init.Call(uintptr(unsafe.Pointer(handle)), 2, uintptr(unsafe.Pointer(size)), dnnTypes[m.Type],
			uintptr(unsafe.Pointer(last)))
	}
	if err := dnnError("describing a matrix", status); err != nil {
		return 0, err
	}
	if l.version[0] == 3 {
		p.descs = append(p.descs, *handle)
	}
	return *handle, nil
}

// prepare makes the objects for a product. With packed, the library chooses the layout of B.
func (l *dnnLibrary) prepare(c, a, b *Matrix, packed bool) (p *dnnProduct, err error) {
	p = &dnnProduct{library: l, views: [3]Matrix{*c, *a, *b}}
	for i := range p.views {
		p.views[i].Data = nil
	}
	defer func() {
		if err != nil {
			p.destroy()
			p = nil
		}
	}()
	var descs [4]uintptr // of C, A, B, and B as the product takes it
	for i := range p.views {
		if descs[i], err = p.desc(&p.views[i], false); err != nil {
			return p, err
		}
	}
	if descs[3] = descs[2]; packed {
		if descs[3], err = p.desc(&p.views[2], true); err != nil {
			return p, err
		}
	}
	if err := p.create(descs[1], descs[3], descs[0]); err != nil {
		return p, err
	}
	for i, to := range []*uintptr{&p.c, &p.a, &p.b} {
		if err := dnnError("creating a memory object",
			l.createMemory.Call(uintptr(unsafe.Pointer(to)), descs[i], l.engine, 0)); err != nil {
			return p, err
		}
	}
	weights := p.b
	if packed {
		if err := p.createPacking(descs[2]); err != nil {
			return p, err
		}
		weights = p.packed
	}
	p.args = [3]dnnArg{{dnnSrc, p.a}, {dnnWeights, weights}, {dnnDst, p.c}}
	return p, nil
}

// create makes the primitive for a product with these memory descriptors.
func (p *dnnProduct) create(a, b, c uintptr) error {
	l, doing := p.library, "preparing a product"
	var status uintptr
	if l.version[0] == 2 {
		op := l.alloc.Call(dnnAlign, dnnProductBytes)
		defer l.free.Call(op)
		if err := dnnError(doing, l.initProduct.Call(op, a, b, 0, c)); err != nil {
			return err
		}
		status = l.createPD.Call(uintptr(unsafe.Pointer(&p.pd)), op, 0, l.engine, 0)
	} else {
		status = l.createPD.Call(uintptr(unsafe.Pointer(&p.pd)), l.engine, a, b, 0, c, 0)
	}
	if err := dnnError(doing, status); err != nil {
		return err
	}
	name := new(uintptr)
	if status := l.query.Call(p.pd, dnnImplementation, 0, uintptr(unsafe.Pointer(name))); int32(status) == 0 {
		p.implementation = dynlib.String(*name)
	}
	return dnnError(doing, l.createPrimitive.Call(uintptr(unsafe.Pointer(&p.primitive)), p.pd))
}

// createPacking makes the primitive that converts B, and the memory for the result.
func (p *dnnProduct) createPacking(b uintptr) error {
	l, doing := p.library, "preparing to pack B"
	layout := l.queryDesc.Call(p.pd, dnnWeightsDescriptor, 0)
	p.convertedB = l.alloc.Call(dnnAlign, uintptr(roundUp(int(l.descSize.Call(layout)), dnnAlign)))
	if err := dnnError(doing,
		l.createMemory.Call(uintptr(unsafe.Pointer(&p.packed)), layout, l.engine, p.convertedB)); err != nil {
		return err
	}
	if err := dnnError(doing,
		l.createReorderPD.Call(uintptr(unsafe.Pointer(&p.reorderPD)), b, l.engine, layout, l.engine, 0)); err != nil {
		return err
	}
	p.move = [2]dnnArg{{dnnSrc, p.b}, {dnnDst, p.packed}}
	return dnnError(doing, l.createPrimitive.Call(uintptr(unsafe.Pointer(&p.reorder)), p.reorderPD))
}

// dense returns the matrix, or a copy without gaps if there are gaps between its lines.
func (m *Matrix) dense() Matrix {
	switch {
	case m.ColStep != 1:
		t := m.T()
		return t.dense().T()
	case m.RowStep == m.Cols || m.Rows == 1:
		return *m
	}
	d := New(m.Type, m.Rows, m.Cols)
	d.copyFrom(m)
	return d
}

// copyFrom copies the elements of a matrix with the same shape and direction, unless it is the same memory.
func (m *Matrix) copyFrom(src *Matrix) {
	if m.first() == src.first() {
		return
	}
	to, from := *m, *src
	if to.ColStep != 1 {
		to, from = to.T(), from.T()
	}
	for i := range to.Rows {
		copy(to.Run(i, 0, to.Cols), from.Run(i, 0, to.Cols))
	}
}
