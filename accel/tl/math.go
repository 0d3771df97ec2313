package tl

import (
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

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
	Sum     = program.Sum     // the sum of all elements
	Max     = program.Max     // the largest element
	Softmax = program.Softmax // exp(a) / sum(exp(a)), computed without overflow
)

// Binary returns f of two tiles of equal length, element by element. f is Add, Sub, Mul, Div,
// Maximum or Minimum.
func (p *PE) Binary(f Fn, a, b Tile) Tile {
	if !f.Binary() {
		p.fail("%v does not take two tiles", f)
	}
	p.same(f.String(), a, b)
	return p.result(a.n, program.Op{Kind: program.Math, Fn: f, A: p.take(f.String(), a), B: p.take(f.String(), b), N: a.n})
}

// Add returns a + b.
func (p *PE) Add(a, b Tile) Tile { return p.Binary(Add, a, b) }

// AddTo adds src to dst in place.
func (p *PE) AddTo(dst, src Tile) {
	p.same("add", dst, src)
	d := p.target("add", dst)
	p.emit(program.Op{Kind: program.Math, Fn: Add, Out: d, A: d, B: p.take("add", src), N: dst.n})
}

// CopyTo copies src into dst.
func (p *PE) CopyTo(dst, src Tile) {
	p.same("copy", dst, src)
	p.emit(program.Op{Kind: program.Math, Fn: program.Copy, Out: p.target("copy", dst), A: p.take("copy", src), N: dst.n})
}

// FMA returns a*b + c, rounded once.
func (p *PE) FMA(a, b, c Tile) Tile {
	p.same("fma", a, b)
	p.same("fma", a, c)
	return p.result(a.n, program.Op{Kind: program.Math, Fn: program.FMA,
		A: p.take("fma", a), B: p.take("fma", b), C: p.take("fma", c), N: a.n})
}

// Clamp limits every element to the range from low to high.
func (p *PE) Clamp(a Tile, low, high float32) Tile {
	return p.result(a.n, program.Op{Kind: program.Math, Fn: program.Clamp, A: p.take("clamp", a), N: a.n,
		Scalars: [2]float32{low, high}})
}

// Unary returns f of one tile. f is Exp or Softmax, or Sum or Max, which return a tile of one element.
func (p *PE) Unary(f Fn, a Tile) Tile {
	n := a.n
	switch f {
	case Exp, Softmax:
	case Sum, Max:
		n = 1
	default:
		p.fail("%v does not take one tile", f)
	}
	return p.result(n, program.Op{Kind: program.Math, Fn: f, A: p.take(f.String(), a), N: a.n})
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

// Gemm is Out = Epilogue(A x B) with A of M x K and B of K x N elements. Matrices are stored by rows.
type Gemm struct {
	M, K, N  int
	A, B     Operand
	Out      Ptr // in HBM
	Epilogue []Epilogue
}

// Epilogue is one step on each element of the result before it is stored. Fn is Exp or a function of
// two arguments; the second is then the element of Arg, a row of N elements, in the same column.
type Epilogue struct {
	Fn  Fn
	Arg Tile
}

// Dot returns the product of two tiles: a of m x k and b of k x n elements.
func (p *PE) Dot(a, b Tile, m, k, n int) Tile {
	if a.n != m*k || b.n != k*n {
		p.fail("dot of %dx%d and %dx%d: the tiles have %d and %d elements", m, k, k, n, a.n, b.n)
	}
	return p.result(m*n, program.Op{Kind: program.Dot, A: p.take("dot", a), B: p.take("dot", b), N: m * n,
		Gemm: &program.Gemm{M: m, K: k, N: n}})
}

// Composite starts a matrix product that goes tile by tile through DMA read, fetch, GEMM, epilogue,
// store and DMA write. The kernel continues; Wait waits until the result is in HBM.
func (p *PE) Composite(g Gemm) Handle {
	if g.M < 1 || g.K < 1 || g.N < 1 {
		p.fail("composite of %dx%dx%d: want at least 1 each", g.M, g.K, g.N)
	}
	p.memory("composite: out", g.Out, g.M*g.N)
	p.apart("A", g.A, g.M*g.K, g)
	p.apart("B", g.B, g.K*g.N, g)
	reads := []Tile{g.A.tile, g.B.tile}
	gemm := &program.Gemm{M: g.M, K: g.K, N: g.N, Out: topo.Address(g.Out),
		A: p.operand("A", g.A, g.M*g.K), B: p.operand("B", g.B, g.K*g.N)}
	for _, e := range g.Epilogue {
		switch {
		case e.Fn.Binary():
			p.take("composite: epilogue", e.Arg)
			reads = append(reads, e.Arg)
			if e.Arg.n != g.N {
				p.fail("composite: the %v of the epilogue has %d elements, want a row of %d", e.Fn, e.Arg.n, g.N)
			}
		case e.Fn != Exp:
			p.fail("composite: %v cannot be an epilogue", e.Fn)
		}
		gemm.Epilogue = append(gemm.Epilogue, program.EpilogueStep{Fn: e.Fn, Arg: int32(e.Arg.value)})
	}
	p.emit(program.Op{Kind: program.Composite, N: g.M * g.N, Gemm: gemm})
	return p.started(Tile{}, reads...)
}

// apart checks that the result of a composite does not overlap an operand in HBM, which is still read while the
// first tiles of the result are written.
func (p *PE) apart(name string, o Operand, n int, g Gemm) {
	if o.tile.pe == nil && o.ptr < g.Out.Plus(g.M*g.N) && g.Out < o.ptr.Plus(n) {
		p.fail("composite: out overlaps %s, which is read while tiles of the result are written", name)
	}
}

// operand checks an operand of n elements.
func (p *PE) operand(name string, o Operand, n int) program.Operand {
	switch {
	case o.tile.pe == nil:
		p.memory("composite: "+name, o.ptr, n)
	case o.tile.n != n:
		p.fail("composite: %s has %d elements, want %d", name, o.tile.n, n)
	default:
		p.take("composite: "+name, o.tile)
	}
	return program.Operand{Value: int32(o.tile.value), Addr: topo.Address(o.ptr)}
}
