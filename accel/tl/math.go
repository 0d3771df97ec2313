package tl

// Fn is a function of the math engine.
type Fn uint8

// The functions. Sum and Largest make one element of many; the others work
// element by element.
const (
	Copy Fn = iota
	Add
	Sub
	Mul
	Div
	Maximum
	Minimum
	FMA
	Clamp
	Exp
	Sum
	Largest
	Softmax
)

func (f Fn) String() string {
	return [...]string{"copy", "add", "sub", "mul", "div", "maximum", "minimum", "fma", "clamp", "exp", "sum", "max",
		"softmax"}[f]
}

// Binary is f of two tiles of equal length.
func (p *PE) Binary(f Fn, a, b Tile) Tile {
	if f < Add || f > Minimum {
		p.fail("%v does not take two tiles", f)
	}
	p.same(f.String(), a, b)
	t := p.tile(a.n, true)
	p.emit(Op{Kind: Math, Fn: f, Out: int32(t.value), A: p.take(f.String(), a), B: p.take(f.String(), b), N: a.n})
	return t
}

// Add is a + b.
func (p *PE) Add(a, b Tile) Tile { return p.Binary(Add, a, b) }

// AddTo adds src to what dst holds.
func (p *PE) AddTo(dst, src Tile) {
	p.same("add", dst, src)
	d := p.take("add", dst)
	p.emit(Op{Kind: Math, Fn: Add, Out: d, A: d, B: p.take("add", src), N: dst.n})
}

// CopyTo copies src into the memory of dst.
func (p *PE) CopyTo(dst, src Tile) {
	p.same("copy", dst, src)
	p.emit(Op{Kind: Math, Fn: Copy, Out: p.take("copy", dst), A: p.take("copy", src), N: dst.n})
}

// FMA is a*b + c, rounded once.
func (p *PE) FMA(a, b, c Tile) Tile {
	p.same("fma", a, b)
	p.same("fma", a, c)
	t := p.tile(a.n, true)
	p.emit(Op{Kind: Math, Fn: FMA, Out: int32(t.value), A: p.take("fma", a), B: p.take("fma", b), C: p.take("fma", c),
		N: a.n})
	return t
}

// Clamp keeps every element between two bounds.
func (p *PE) Clamp(a Tile, low, high float32) Tile {
	t := p.tile(a.n, true)
	p.emit(Op{Kind: Math, Fn: Clamp, Out: int32(t.value), A: p.take("clamp", a), N: a.n, Scalars: [2]float32{low, high}})
	return t
}

// Unary is Exp or Softmax of a tile, or its Sum or Largest element.
func (p *PE) Unary(f Fn, a Tile) Tile {
	n := a.n
	switch f {
	case Exp, Softmax:
	case Sum, Largest:
		n = 1
	default:
		p.fail("%v does not take one tile", f)
	}
	t := p.tile(n, true)
	p.emit(Op{Kind: Math, Fn: f, Out: int32(t.value), A: p.take(f.String(), a), N: a.n})
	return t
}

// Cdiv is the quotient rounded up: how many tiles cover so many elements.
func Cdiv(a, b int) int { return (a + b - 1) / b }

// Operand is a matrix for a composite: in memory (Ref), from where tiles are
// streamed, or loaded before.
type Operand struct {
	ptr  Ptr
	tile Tile
}

// Ref is a matrix that stays in memory.
func Ref(p Ptr) Operand { return Operand{ptr: p} }

// Loaded is a matrix that is in the PE already.
func Loaded(t Tile) Operand { return Operand{tile: t} }

// Resident reports whether the operand is in the PE.
func (o Operand) Resident() bool { return o.tile.value != 0 }

// Gemm is out = epilogue(A x B), matrices stored by rows.
type Gemm struct {
	M, K, N  int
	A, B     Operand
	Out      Ptr
	Epilogue []Epilogue
}

// Epilogue is one step on the result before it is stored: Fn of the element and
// that of Arg, a row of N elements, where Fn takes two.
type Epilogue struct {
	Fn  Fn
	Arg Tile
}

// Dot is the product of two tiles in the PE.
func (p *PE) Dot(a, b Tile, m, k, n int) Tile {
	if a.n != m*k || b.n != k*n {
		p.fail("dot of %dx%d and %dx%d: the tiles have %d and %d elements", m, k, k, n, a.n, b.n)
	}
	t := p.tile(m*n, true)
	p.emit(Op{Kind: Dot, Out: int32(t.value), A: p.take("dot", a), B: p.take("dot", b), N: m * n,
		Gemm: &Gemm{M: m, K: k, N: n}})
	return t
}

// Composite starts a whole product, tile by tile through DMA, fetch, GEMM,
// epilogue and store; Wait waits for its end.
func (p *PE) Composite(g Gemm) Handle {
	if g.M < 1 || g.K < 1 || g.N < 1 {
		p.fail("composite of %dx%dx%d: want at least 1 each", g.M, g.K, g.N)
	}
	for _, o := range []struct {
		name string
		Operand
		n int
	}{{"A", g.A, g.M * g.K}, {"B", g.B, g.K * g.N}} {
		switch {
		case !o.Resident():
			p.memory("composite: "+o.name, o.ptr, o.n)
		case o.tile.n != o.n:
			p.fail("composite: %s has %d elements, want %d", o.name, o.tile.n, o.n)
		}
	}
	p.memory("composite: out", g.Out, g.M*g.N)
	for _, e := range g.Epilogue {
		switch {
		case e.Fn >= Add && e.Fn <= Minimum:
			p.take("composite: epilogue", e.Arg)
			if e.Arg.n != g.N {
				p.fail("composite: the %v of the epilogue has %d elements, want a row of %d", e.Fn, e.Arg.n, g.N)
			}
		case e.Fn != Exp:
			p.fail("composite: %v cannot be an epilogue", e.Fn)
		}
	}
	p.emit(Op{Kind: Composite, N: g.M * g.N, Gemm: &g})
	return Handle{op: len(p.prog.Ops) - 1}
}
