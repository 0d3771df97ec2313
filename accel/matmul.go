package accel

import (
	"cmp"
	"fmt"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/base/suggest"
)

// Variant says which operands of a product are in the PE before it starts.
type Variant string

// The variants: A and B streamed from memory tile by tile, A loaded up front, or
// both.
const (
	RefRef   Variant = "ref_ref"
	LoadRef  Variant = "load_ref"
	LoadLoad Variant = "load_load"
)

// Variants lists them.
func Variants() []string { return []string{string(RefRef), string(LoadRef), string(LoadLoad)} }

// Split is the dimension of a product that is divided among PEs.
type Split string

// The splits. Along M and N every PE makes a part of the result by itself; along
// K each makes a share of all of it, and they are added up in the end.
const (
	SplitM Split = "m"
	SplitN Split = "n"
	SplitK Split = "k"
)

// Splits lists them.
func Splits() []string { return []string{string(SplitM), string(SplitN), string(SplitK)} }

// Matmul is C = epilogue(A x B) on PEs of SIP 0.
type Matmul struct {
	M, K, N int
	Variant Variant
	// Epilogue is what the MATH engine does to each element and the element of
	// the row of N that is given with the operands: adding it, say.
	Epilogue []tl.Fn
	// Cubes and PEs (of each) share the work along Split; 0 is 1.
	Cubes, PEs int
	Split      Split
	// Once: the operand that is not split lies in the HBM of the first PE only,
	// and all others read it there. Otherwise each has a copy.
	Once bool
	// Change alters a PE's product, for tests of the check.
	Change func(p *tl.PE, g *tl.Gemm)
}

// Operands are the matrices, by rows; nil is zeros.
type Operands struct{ A, B, Row []Float16 }

// Product is what a Matmul gave and took.
type Product struct {
	C      []Float16
	Result *Result
}

// Matmul runs a product.
func (s *System) Matmul(m Matmul, in Operands) (*Product, error) {
	m.Cubes, m.PEs = max(m.Cubes, 1), max(m.PEs, 1)
	m.Split = cmp.Or(m.Split, SplitM)
	p, err := s.matmul(m, in)
	if err != nil {
		return nil, fmt.Errorf("a product of %dx%dx%d (M, K, N) on %d x %d PEs: %w", m.M, m.K, m.N, m.Cubes, m.PEs, err)
	}
	return p, nil
}

// layout is where the matrices of a product lie.
type layout struct {
	a, b, row, c *Tensor
	partial      *Tensor // split k: each PE's share of C
}

// policies says how each matrix is divided, for each split.
var policies = map[Split]struct{ a, b, row, c Placement }{
	SplitM: {RowWise, Replicate, Replicate, RowWise},
	SplitN: {Replicate, ColumnWise, ColumnWise, ColumnWise},
	SplitK: {ColumnWise, RowWise, Replicate, RowWise},
}

func (s *System) layMatmul(m Matmul) (l layout, err error) {
	by, known := policies[m.Split]
	if !known {
		return l, suggest.Unknown("split", string(m.Split), Splits())
	}
	zeros := func(rows, cols int, p Placement) *Tensor {
		policy := Policy{Cube: p, PE: p, Cubes: m.Cubes, PEs: m.PEs}
		if p == Replicate && m.Once {
			policy.Cubes, policy.PEs = 1, 1
		}
		t, fault := s.Zeros(0, rows, cols, policy)
		if err == nil {
			err = fault
		}
		return t
	}
	l.a, l.b = zeros(m.M, m.K, by.a), zeros(m.K, m.N, by.b)
	l.c = zeros(m.M, m.N, by.c)
	if len(m.Epilogue) > 0 {
		l.row = zeros(1, m.N, by.row)
	}
	if m.Split == SplitK {
		m.Once = false
		l.partial = zeros(m.M, m.N, Replicate)
	}
	return l, err
}

func (s *System) matmul(m Matmul, in Operands) (*Product, error) {
	switch m.Variant {
	case RefRef, LoadRef, LoadLoad:
	default:
		return nil, suggest.Unknown("variant", string(m.Variant), Variants())
	}
	if m.Split == SplitK && len(m.Epilogue) > 0 {
		return nil, fmt.Errorf("an epilogue with split %s: the sums are not complete when the pipeline stores them", SplitK)
	}
	l, err := s.layMatmul(m)
	if err != nil {
		return nil, err
	}
	for _, o := range []struct {
		t      *Tensor
		values []Float16
	}{{l.a, in.A}, {l.b, in.B}, {l.row, in.Row}} {
		if o.t != nil && o.values != nil {
			if err := o.t.Set(o.values); err != nil {
				return nil, err
			}
		}
	}
	set := s.CCL.Settings()
	if m.Split == SplitK {
		set.SlotBytes = max(set.SlotBytes, tl.Cdiv(m.M, m.Cubes*m.PEs)*m.N*tl.ElemSize)
	}
	result, err := s.launch(m.kernel(l), s.workers(m), set)
	if err != nil {
		return nil, err
	}
	return &Product{C: l.c.Data(), Result: result}, nil
}

// workers are the PEs that take part.
func (s *System) workers(m Matmul) []PEID {
	var on []PEID
	for i := range m.Cubes * m.PEs {
		on = append(on, PEID{Cube: i / m.PEs, PE: i % m.PEs})
	}
	return on
}

// kernel is the product on one PE.
func (m Matmul) kernel(l layout) tl.Kernel {
	return func(p *tl.PE) {
		a, b, c := l.a.near(p.ID()), l.b.near(p.ID()), l.c.near(p.ID())
		if l.partial != nil {
			c = l.partial.near(p.ID())
		}
		g := tl.Gemm{M: a.Rows, K: a.Cols, N: b.Cols, A: tl.Ref(a.Ptr), B: tl.Ref(b.Ptr), Out: c.Ptr}
		if m.Variant != RefRef {
			g.A = tl.Loaded(p.Load(a.Ptr, a.Rows*a.Cols))
		}
		if m.Variant == LoadLoad {
			g.B = tl.Loaded(p.Load(b.Ptr, b.Rows*b.Cols))
		}
		if len(m.Epilogue) > 0 {
			row := p.Load(l.row.near(p.ID()).Ptr, b.Cols)
			for _, fn := range m.Epilogue {
				g.Epilogue = append(g.Epilogue, tl.Epilogue{Fn: fn, Arg: row})
			}
		}
		if m.Change != nil {
			m.Change(p, &g)
		}
		p.Wait(p.Composite(g))
		if l.partial != nil {
			m.addUp(p, c, l.c.near(p.ID()))
		}
	}
}

// addUp makes the sum of all PEs' shares: each sends every other its rows and adds
// up its own. Each PE starts with its next neighbour, so that no PE is
// the first of all others.
func (m Matmul) addUp(p *tl.PE, share, mine Shard) {
	count := m.Cubes * m.PEs
	me := p.ID().Cube*m.PEs + p.ID().PE
	other := func(i int) PEID { return PEID{Cube: i / m.PEs, PE: i % m.PEs} }
	n := mine.Rows * mine.Cols
	for step := 1; step < count; step++ {
		to := (me + step) % count
		p.SendTo(other(to), p.Load(share.Ptr.Plus(to*n), n))
	}
	sum := p.Load(share.Ptr.Plus(me*n), n)
	for step := 1; step < count; step++ {
		p.AddTo(sum, p.RecvFrom(other((me-step+count)%count), n))
	}
	p.Store(mine.Ptr, sum)
}

// near is a PE's own shard, or the only one that there is.
func (t *Tensor) near(id PEID) Shard {
	if s, own := t.On(id); own {
		return s
	}
	return t.Shards[0]
}

// PipelineModel is what an ideal pipeline makes of a product, from the topology's
// numbers alone: every stage works on a tile at the same time, in step with the GEMM
// engine or with what is slower, and no way has latency.
type PipelineModel struct {
	Stages int     // that a tile passes before its product is in the accumulator
	Tile   float64 // ns that the GEMM engine needs for a tile
	Tiles  int
	Fill   float64 // share of the engine's multiplications that are of use
	Total  float64 // ns of all tiles
}

// Ideal derives the model for a product on one PE: reading what is streamed from
// the HBM, fetching both operands, multiplying. Tiles at the edges are read and
// fetched as small as they are, but the engine takes the same time for them. A few
// small tiles can get through sooner than in step; then it is what they need at least.
func Ideal(t *Topology, m Matmul) PipelineModel {
	g, tile := tl.Gemm{M: m.M, K: m.K, N: m.N}, TileSize(t)
	hbm, gemm := &t.Cube.HBM, t.PE.TileCost
	model := PipelineModel{Stages: 3, Tile: gemm.Nanoseconds(), Tiles: g.Tiles(tile), Fill: g.Fill(tile)}
	if m.Variant == LoadLoad {
		model.Stages = 2
	}
	burst := hbm.ChannelBW.Time(hbm.Burst)
	var inStep, read, fetched, done, fetch Time
	for i := range model.Tiles {
		s := g.Step(tile, i)
		var drain Time
		for _, streamed := range []struct {
			is bool
			n  int
		}{{m.Variant == RefRef, s.M * s.K}, {m.Variant != LoadLoad, s.K * s.N}} {
			if streamed.is {
				drain += hbm.BW.Time(streamed.n * tl.ElemSize)
				read += burst + hbm.BW.Time(streamed.n*tl.ElemSize)
			}
		}
		inStep += max(gemm, drain, fetch) // this tile is read while the one before is fetched
		fetch = t.PE.FetchBW.Time((s.M*s.K + s.K*s.N) * tl.ElemSize)
		fetched = max(fetched, read) + fetch
		done = max(done, fetched) + gemm
	}
	inStep += max(gemm, fetch) // the last tile's
	if model.Stages == 3 {
		inStep += gemm
	}
	last := g.Step(tile, model.Tiles-1)
	bytes := last.M * last.N * tl.ElemSize
	model.Total = min(inStep, done+t.PE.FetchBW.Time(bytes)+hbm.BW.Time(bytes)+burst).Nanoseconds()
	return model
}

// Utilization is the share of the GEMM engine's multiplications that are of use
// while the pipeline fills, runs and drains: none can be used better.
func (m PipelineModel) Utilization() float64 { return m.Fill * float64(m.Tiles) * m.Tile / m.Total }

// TileSize is that of the topology's GEMM engine.
func TileSize(t *Topology) tl.TileSize {
	return tl.TileSize{M: t.PE.TileM, K: t.PE.TileK, N: t.PE.TileN}
}
