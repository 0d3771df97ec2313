// Package kernels has the matrix products that the benches of the simulated accelerator run: Matmul on
// some PEs of one SIP, and Fused, a product whose partitions are all-reduced over SIPs. It is built on
// the public packages accel and tl alone.
package kernels

import (
	"cmp"
	"fmt"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/base/suggest"
)

// Variant says which operands of a product are loaded into the PE before it starts.
type Variant string

// The variants: both operands streamed from HBM tile by tile, A loaded up front, or both loaded.
const (
	RefRef   Variant = "ref_ref"
	LoadRef  Variant = "load_ref"
	LoadLoad Variant = "load_load"
)

// Variants returns the names of the variants.
func Variants() []string { return []string{string(RefRef), string(LoadRef), string(LoadLoad)} }

// Split is the dimension of a product that is divided among PEs.
type Split string

// The splits. Along M and N every PE computes a part of the result by itself. Along K each PE computes
// a partial sum of the whole result, and the partial sums are added up at the end.
const (
	SplitM Split = "m"
	SplitN Split = "n"
	SplitK Split = "k"
)

// Splits returns the names of the splits.
func Splits() []string { return []string{string(SplitM), string(SplitN), string(SplitK)} }

// Matmul is C = epilogue(A x B) on PEs of SIP 0.
type Matmul struct {
	M, K, N int
	Variant Variant
	// Epilogue holds the functions that the MATH engine applies to each element of the result. Their
	// second argument is the element of Operands.Row in the same column.
	Epilogue []tl.Fn
	// Cubes and PEs (of each cube) share the work along Split; 0 means 1.
	Cubes, PEs int
	Split      Split
	// Once places the operand that is not split in the HBM of the first PE only, where all others
	// read it. Otherwise each PE has a copy.
	Once bool
	// Corrupt, if set, changes a PE's product before it starts. Tests of the verification use it.
	Corrupt func(p *tl.PE, g *tl.Gemm)
}

// Operands holds the matrices of a product, by rows; nil means zeros.
type Operands struct{ A, B, Row []accel.Float16 }

// Product is the result of a Matmul.
type Product struct {
	C      []accel.Float16
	Result *accel.Result
}

// Run multiplies on a system.
func (m Matmul) Run(s *accel.System, in Operands) (*Product, error) {
	m.Cubes, m.PEs = max(m.Cubes, 1), max(m.PEs, 1)
	m.Split = cmp.Or(m.Split, SplitM)
	p, err := m.run(s, in)
	if err != nil {
		return nil, fmt.Errorf("a product of %dx%dx%d (M, K, N) on %d x %d PEs: %w", m.M, m.K, m.N, m.Cubes, m.PEs, err)
	}
	return p, nil
}

// layout holds the matrices of a product in HBM.
type layout struct {
	a, b, row, c *accel.Tensor
	partial      *accel.Tensor // SplitK: each PE's partial sum of C
}

// placements holds the placement of each matrix for each split.
var placements = map[Split]struct{ a, b, row, c accel.Placement }{
	SplitM: {accel.RowWise, accel.Replicate, accel.Replicate, accel.RowWise},
	SplitN: {accel.Replicate, accel.ColumnWise, accel.ColumnWise, accel.ColumnWise},
	SplitK: {accel.ColumnWise, accel.RowWise, accel.Replicate, accel.RowWise},
}

// layOut allocates the matrices.
func (m Matmul) layOut(s *accel.System) (l layout, err error) {
	by, known := placements[m.Split]
	if !known {
		return l, suggest.Unknown("split", string(m.Split), Splits())
	}
	zeros := func(rows, cols int, p accel.Placement) *accel.Tensor {
		policy := accel.Policy{Cube: p, PE: p, Cubes: m.Cubes, PEs: m.PEs}
		if p == accel.Replicate && m.Once {
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
		l.partial = zeros(m.M, m.N, accel.Replicate)
	}
	return l, err
}

// run lays out the operands, launches the kernel and reads the result back.
func (m Matmul) run(s *accel.System, in Operands) (*Product, error) {
	switch m.Variant {
	case RefRef, LoadRef, LoadLoad:
	default:
		return nil, suggest.Unknown("variant", string(m.Variant), Variants())
	}
	if m.Split == SplitK && len(m.Epilogue) > 0 {
		return nil, fmt.Errorf("an epilogue with split %s: the sums are not complete when the pipeline stores them", SplitK)
	}
	l, err := m.layOut(s)
	if err != nil {
		return nil, err
	}
	for _, o := range []struct {
		t      *accel.Tensor
		values []accel.Float16
	}{{l.a, in.A}, {l.b, in.B}, {l.row, in.Row}} {
		if o.t != nil && o.values != nil {
			if err := o.t.Set(o.values); err != nil {
				return nil, err
			}
		}
	}
	if m.Split == SplitK { // a receive slot must hold a PE's rows of C
		config := s.CCL
		defer func() { s.CCL = config }()
		s.CCL, err = config.With(config.Algorithm, func(set *ccl.Settings) {
			set.SlotBytes = max(set.SlotBytes, tl.Cdiv(m.M, m.Cubes*m.PEs)*m.N*tl.ElemSize)
		})
		if err != nil {
			return nil, err
		}
	}
	var on []accel.PEID
	for i := range m.Cubes * m.PEs {
		on = append(on, m.worker(i))
	}
	result, err := s.Launch(m.kernel(l), on)
	if err != nil {
		return nil, err
	}
	return &Product{C: l.c.Data(), Result: result}, nil
}

// worker returns the i-th PE that takes part.
func (m Matmul) worker(i int) accel.PEID { return accel.PEID{Cube: i / m.PEs, PE: i % m.PEs} }

// kernel computes a PE's part of the product.
func (m Matmul) kernel(l layout) tl.Kernel {
	return func(p *tl.PE) {
		a, b, c := shardFor(l.a, p), shardFor(l.b, p), shardFor(l.c, p)
		if l.partial != nil {
			c = shardFor(l.partial, p)
		}
		g := tl.Gemm{M: a.Rows, K: a.Cols, N: b.Cols, A: tl.Ref(a.Ptr), B: tl.Ref(b.Ptr), Out: c.Ptr}
		if m.Variant != RefRef {
			g.A = tl.Loaded(p.Load(a.Ptr, a.Rows*a.Cols))
		}
		if m.Variant == LoadLoad {
			g.B = tl.Loaded(p.Load(b.Ptr, b.Rows*b.Cols))
		}
		if len(m.Epilogue) > 0 {
			row := p.Load(shardFor(l.row, p).Ptr, b.Cols)
			for _, fn := range m.Epilogue {
				g.Epilogue = append(g.Epilogue, tl.Epilogue{Fn: fn, Arg: row})
			}
		}
		if m.Corrupt != nil {
			m.Corrupt(p, &g)
		}
		p.Wait(p.Composite(g))
		if l.partial != nil {
			m.addPartials(p, c, shardFor(l.c, p))
		}
	}
}

// addPartials adds up the partial sums of all PEs. Each PE sends every other PE that one's rows and adds
// up its own rows. A PE starts with its next neighbour, so that the first messages go to different PEs.
func (m Matmul) addPartials(p *tl.PE, partial, own accel.Shard) {
	count := m.Cubes * m.PEs
	me := p.ID().Cube*m.PEs + p.ID().PE
	n := own.Rows * own.Cols
	for step := 1; step < count; step++ {
		to := (me + step) % count
		p.SendTo(m.worker(to), p.Load(partial.Ptr.Plus(to*n), n))
	}
	sum := p.Load(partial.Ptr.Plus(me*n), n)
	for step := 1; step < count; step++ {
		p.AddTo(sum, p.RecvFrom(m.worker((me-step+count)%count), n))
	}
	p.Store(own.Ptr, sum)
}

// shardFor returns the shard of p, or the first one if p has none (Matmul.Once).
func shardFor(t *accel.Tensor, p *tl.PE) accel.Shard {
	if s, ok := t.On(p.ID()); ok {
		return s
	}
	return t.Shards[0]
}

// PipelineModel is an ideal pipeline for a product, derived from the topology's numbers alone. All
// stages work at the same time, each on another tile. They advance in lockstep with the slowest stage,
// and paths have no latency.
type PipelineModel struct {
	Stages int     // stages that a tile passes until its product is in the accumulator
	Tile   float64 // ns of the GEMM engine per tile
	Tiles  int
	Fill   float64 // useful share of the engine's multiplications
	Total  float64 // ns for all tiles
}

// Ideal returns the model for a product on one PE. Its stages are the HBM reads of streamed operands, the
// fetch of both operands, and the multiplication. Smaller tiles at the edges are read and fetched faster,
// but the engine takes the same time for them. A few small tiles can pass sooner than in lockstep; the
// total is then the sum of what each stage needs for them.
func Ideal(t *accel.Topology, m Matmul) PipelineModel {
	g, tile := program.Gemm{M: m.M, K: m.K, N: m.N}, program.TileOf(t)
	hbm, gemm := &t.Cube.HBM, t.PE.TileCost
	model := PipelineModel{Stages: 3, Tile: gemm.Nanoseconds(), Tiles: g.Tiles(tile), Fill: g.Fill(tile)}
	if m.Variant == LoadLoad {
		model.Stages = 2
	}
	burst := hbm.ChannelBW.Time(hbm.Burst)
	var lockstep, read, fetched, done, fetch accel.Time
	for i := range model.Tiles {
		s := g.Step(tile, i)
		var drain accel.Time
		for _, streamed := range []struct {
			is bool
			n  int
		}{{m.Variant == RefRef, s.M * s.K}, {m.Variant != LoadLoad, s.K * s.N}} {
			if streamed.is {
				drain += hbm.BW.Time(streamed.n * tl.ElemSize)
				read += burst + hbm.BW.Time(streamed.n*tl.ElemSize)
			}
		}
		lockstep += max(gemm, drain, fetch) // this tile is read while the previous one is fetched
		fetch = t.PE.FetchBW.Time((s.M*s.K + s.K*s.N) * tl.ElemSize)
		fetched = max(fetched, read) + fetch
		done = max(done, fetched) + gemm
	}
	lockstep += max(gemm, fetch) // of the last tile
	if model.Stages == 3 {
		lockstep += gemm
	}
	last := g.Step(tile, model.Tiles-1)
	bytes := last.M * last.N * tl.ElemSize
	model.Total = min(lockstep, done+t.PE.FetchBW.Time(bytes)+hbm.BW.Time(bytes)+burst).Nanoseconds()
	return model
}

// Utilization returns the useful share of the GEMM engine's multiplications over the whole product,
// including the time to fill and drain the pipeline. No real pipeline exceeds it.
func (m PipelineModel) Utilization() float64 { return m.Fill * float64(m.Tiles) * m.Tile / m.Total }
