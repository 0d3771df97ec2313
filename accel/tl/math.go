package tl

import "github.com/kernbench/kernbench/internal/accel/program"

// Fn is a function of the MATH engine.
type Fn = program.Fn

// The functions for Binary, Unary and the epilogue of a Gemm.
const (
	Add     = program.Add     // a + b
	Sub     = program.Sub     // a - b
	Mul     = program.Mul     // a * b
	Div     = program.Div     // a / b
	Maximum = program.Maximum // the larger of a and b
	Minimum = program.Minimum // the smaller of a and b
	Exp     = program.Exp     // e to the power of a
	Log     = program.Log     // the natural logarithm of a
	Sqrt    = program.Sqrt    // the square root of a
	Rsqrt   = program.Rsqrt   // 1 / sqrt(a)
	Tanh    = program.Tanh    // the hyperbolic tangent of a
	Gelu    = program.Gelu    // a times the normal distribution function of a, with erf and not approximated
	Silu    = program.Silu    // a / (1 + exp(-a))
	Relu    = program.Relu    // the larger of a and 0
	Sum     = program.Sum     // the sum of each row
	Max     = program.Max     // the largest element of each row
	Min     = program.Min     // the smallest element of each row
	Softmax = program.Softmax // exp(a) / sum(exp(a)) in each row, computed without overflow
)

// Binary returns f of two tiles, element by element. f is Add, Sub, Mul, Div, Maximum or Minimum. The tiles have
// the same shape, or one of them has a single row or column, which is repeated. If their types differ, the
// result is f32.
func (p *PE) Binary(f Fn, a, b Tile) Tile {
	if !program.Binary(f) {
		p.fail("%v does not take two tiles", f)
	}
	return p.math(f, a, b)
}

// Add returns a + b, see Binary.
func (p *PE) Add(a, b Tile) Tile { return p.Binary(Add, a, b) }

// AddTo adds src to dst in place. src is broadcast to the shape of dst.
func (p *PE) AddTo(dst, src Tile) {
	d := p.useForWrite("add", dst)
	p.writeTo(dst, program.Op{Fn: Add, A: d, B: p.use("add", src)}, dst, src)
}

// CopyTo copies src into dst. src is broadcast to the shape of dst and converted to its type.
func (p *PE) CopyTo(dst, src Tile) {
	p.useForWrite("copy", dst)
	p.writeTo(dst, program.Op{Fn: program.Copy, A: p.use("copy", src)}, src)
}

// Cast returns a copy of a tile with elements of another type, rounded to nearest.
func (p *PE) Cast(t Tile, to DType) Tile {
	out := t.form
	out.Type = to
	return p.result(out, p.mathOp(program.Op{Fn: program.Copy, A: p.use("cast", t)}, out, t))
}

// FMA returns a*b + c, rounded once. The tiles are broadcast as in Binary.
func (p *PE) FMA(a, b, c Tile) Tile { return p.math(program.FMA, a, b, c) }

// Clamp limits every element to the range from low to high.
func (p *PE) Clamp(a Tile, low, high float32) Tile {
	return p.result(a.form, p.mathOp(program.Op{Fn: program.Clamp, A: p.use("clamp", a), Scalars: [2]float32{low, high}},
		a.form, a))
}

// Unary returns f of one tile: a function of each element from Exp to Relu, Softmax of each row, or the Sum, Max
// or Min of each row, which gives a tile of one column.
func (p *PE) Unary(f Fn, a Tile) Tile {
	out := a.form
	switch {
	case program.Reduces(f):
		out.Cols = 1
	case !program.Pointwise(f) && f != Softmax:
		p.fail("%v does not take one tile", f)
	}
	return p.result(out, p.mathOp(program.Op{Fn: f, A: p.use(f.String(), a)}, out, a))
}

// math records an operation on tiles that are broadcast to a common shape.
func (p *PE) math(f Fn, in ...Tile) Tile {
	out := in[0].form
	for _, t := range in[1:] {
		out = p.broadcast(f.String(), out, t.form)
	}
	o := program.Op{Fn: f, A: p.use(f.String(), in[0]), B: p.use(f.String(), in[1])}
	if len(in) > 2 {
		o.C = p.use(f.String(), in[2])
	}
	return p.result(out, p.mathOp(o, out, in...))
}

// writeTo records an operation on tiles that are broadcast to the shape of an existing one.
func (p *PE) writeTo(dst Tile, o program.Op, in ...Tile) {
	src := in[len(in)-1].form
	if out := p.broadcast(o.Fn.String(), dst.form, src); out.Len() != dst.Len() {
		p.fail("%v of %d x %d into %d x %d: want a shape that repeats to it", o.Fn, src.Rows, src.Cols, dst.form.Rows,
			dst.form.Cols)
	}
	o = p.mathOp(o, dst.form, in...)
	o.Out = int32(dst.value)
	p.emit(o)
}

// broadcast returns the common shape of two tiles and fails if there is none.
func (p *PE) broadcast(what string, a, b program.Form) program.Form {
	out, ok := a.Broadcast(b)
	if !ok {
		p.fail("%s of %d x %d and %d x %d elements: want equal rows and columns, or 1", what, a.Rows, a.Cols, b.Rows, b.Cols)
	}
	return out
}

// mathOp completes an operation of the MATH engine. Its time depends on the larger of its result and its operands. The
// forms of the tiles are recorded only if they differ, which is rare.
func (p *PE) mathOp(o program.Op, out program.Form, in ...Tile) program.Op {
	o.Kind, o.Type, o.N = program.Math, out.Type, max(out.Len(), in[0].Len())
	f := program.Forms{Out: out}
	plain := true
	for i, t := range in {
		f.In[i] = t.form
		plain = plain && t.form == in[0].form
	}
	reduces := program.Reduces(o.Fn)
	if byRow := reduces || o.Fn == Softmax; !plain || out != in[0].form && !reduces || byRow && out.Rows != 1 {
		o.Forms = &f
	}
	return o
}

// Cdiv returns a/b rounded up: the number of tiles of b elements that cover a elements.
func Cdiv(a, b int) int { return program.Cdiv(a, b) }

// Operand is a matrix argument of a Gemm, see Ref and Loaded.
type Operand struct {
	ptr  Ptr
	tile Tile
}

// Ref is a matrix in HBM. It is streamed to the PE tile by tile during the product.
func Ref(p Ptr) Operand { return Operand{ptr: p} }

// Loaded is a matrix that has already been loaded into the PE.
func Loaded(t Tile) Operand { return Operand{tile: t} }

// Gemm is Out = Epilogue(A x B) with A of M x K and B of K x N elements. Matrices are stored by rows and have the same
// type.
type Gemm struct {
	M, K, N  int
	A, B     Operand
	Out      Ptr // in HBM
	Epilogue []Epilogue
}

// Epilogue is one step on each element of the result before it is stored. Fn is a function of one element (Exp to
// Relu) or of two; the second is then the element of Arg, a row of N elements, in the same column.
type Epilogue struct {
	Fn  Fn
	Arg Tile
}

// Dot returns the product of two tiles of one type: a of m x k and b of k x n elements. It is summed in f32. The result
// has the type of the operands unless another one is given.
func (p *PE) Dot(a, b Tile, m, k, n int, of ...DType) Tile {
	if a.Len() != m*k || b.Len() != k*n {
		p.fail("dot of %dx%d and %dx%d: the tiles have %d and %d elements", m, k, k, n, a.Len(), b.Len())
	}
	if a.form.Type != b.form.Type {
		p.fail("dot of %v and %v: want equal types", a.form.Type, b.form.Type)
	}
	out := program.Form{Rows: m, Cols: n, Type: typeOr(of, a.form.Type)}
	return p.result(out, program.Op{Kind: program.Dot, A: p.use("dot", a), B: p.use("dot", b), N: m * n,
		Gemm: &program.Gemm{M: m, K: k, N: n, Type: a.form.Type}})
}

// Composite starts a matrix product that goes tile by tile through DMA read, fetch, GEMM, epilogue,
// store and DMA write. The kernel continues; Wait waits until the result is in HBM.
func (p *PE) Composite(g Gemm) Handle {
	if g.M < 1 || g.K < 1 || g.N < 1 {
		p.fail("composite of %dx%dx%d: want at least 1 each", g.M, g.K, g.N)
	}
	p.checkMemory("composite: out", g.Out, g.M*g.N)
	p.checkNoOverlap("A", g.A, g.M*g.K, g)
	p.checkNoOverlap("B", g.B, g.K*g.N, g)
	reads := []Tile{g.A.tile, g.B.tile}
	gemm := &program.Gemm{M: g.M, K: g.K, N: g.N, Type: g.Out.Type, Out: g.Out.Addr,
		A: p.operand("A", g.A, g.M*g.K, g.Out.Type), B: p.operand("B", g.B, g.K*g.N, g.Out.Type)}
	for _, e := range g.Epilogue {
		switch {
		case program.Binary(e.Fn):
			p.use("composite: epilogue", e.Arg)
			reads = append(reads, e.Arg)
			if e.Arg.Len() != g.N || e.Arg.form.Type != g.Out.Type {
				p.fail("composite: the %v of the epilogue has %d elements of %v, want a row of %d of %v", e.Fn, e.Arg.Len(),
					e.Arg.form.Type, g.N, g.Out.Type)
			}
		case !program.Pointwise(e.Fn):
			p.fail("composite: %v cannot be an epilogue", e.Fn)
		}
		gemm.Epilogue = append(gemm.Epilogue, program.EpilogueStep{Fn: e.Fn, Arg: int32(e.Arg.value)})
	}
	p.emit(program.Op{Kind: program.Composite, Type: g.Out.Type, N: g.M * g.N, Gemm: gemm})
	return p.startAsync(Tile{}, reads...)
}

// checkNoOverlap checks that the result of a composite does not overlap an operand in HBM. The composite still reads
// the operand when it writes the first tiles of the result.
func (p *PE) checkNoOverlap(name string, o Operand, n int, g Gemm) {
	if o.tile.pe == nil && o.ptr.Addr < g.Out.Plus(g.M*g.N).Addr && g.Out.Addr < o.ptr.Plus(n).Addr {
		p.fail("composite: out overlaps %s, which is read while tiles of the result are written", name)
	}
}

// operand checks an operand of n elements.
func (p *PE) operand(name string, o Operand, n int, want DType) program.Operand {
	elem := o.ptr.Type
	switch {
	case o.tile.pe == nil:
		p.checkMemory("composite: "+name, o.ptr, n)
	case o.tile.Len() != n:
		p.fail("composite: %s has %d elements, want %d", name, o.tile.Len(), n)
	default:
		p.use("composite: "+name, o.tile)
		elem = o.tile.form.Type
	}
	if elem != want {
		p.fail("composite: %s is %v and out %v: want equal types", name, elem, want)
	}
	return program.Operand{Value: int32(o.tile.value), Addr: o.ptr.Addr}
}
