package disttest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/verify"
)

// epilogues checks scale, bias and residual against the formula, on every
// algorithm of the operations that reduce and on one that does not.
func epilogues(g *dist.Group) error {
	caps := g.Capabilities()
	for _, d := range []dist.DType{dist.F32, dist.BF16} {
		for _, op := range []dist.Collective{dist.AllReduce, dist.ReduceScatter, dist.AllGather} {
			for _, r := range []dist.Reduction{dist.Sum, dist.Avg} {
				for _, algorithm := range append([]string{"auto"}, caps.Algorithms[op]...) {
					for _, count := range []int{1, 24 * g.Size(), 2000 * g.Size()} {
						if err := epilogue(g, op, r, d, algorithm, count); err != nil {
							return fmt.Errorf("epilogue of %s %s of %d %v %v: %w", algorithm, op, count, d, r, err)
						}
					}
				}
			}
		}
	}
	return nil
}

func epilogue(g *dist.Group, op dist.Collective, r dist.Reduction, d dist.DType, algorithm string, count int) error {
	e := new(vectors).expectations(g, op, cell{dtype: d, count: count})[0]
	out := len(e.out) / d.Size()
	period := 1
	if out%8 == 0 && out > 0 {
		period = 8
	}
	const scale = 0.5
	alpha := scale
	if r == dist.Avg && op.Reduces() {
		alpha /= float64(g.Size())
	}
	bias := vector(d, period, func(i int) float64 { return float64(i + 3) })
	residual := vector(d, out, func(i int) float64 { return float64(int(verify.Hash(9, g.Rank(), i)%16) - 8) })
	// The formula with its roundings: the product and every sum are float32 here.
	want := vector(d, out, func(i int) float64 {
		x := float32(d.Get(e.out, i)) * float32(alpha)
		x += float32(d.Get(bias, i%period))
		return float64(x + float32(d.Get(residual, i)))
	})
	got := make([]byte, len(e.out))
	c := dist.Call{Op: op, Reduction: r, Count: count, Algorithm: algorithm,
		In: as(dist.Of(e.in), d, len(e.in)/d.Size()), Out: as(dist.Of(got), d, out),
		Epilogue: &dist.Epilogue{Scale: scale, Bias: as(dist.Of(bias), d, period), Residual: as(dist.Of(residual), d, out)}}
	p, err := g.Prepare(c)
	if err != nil {
		return err
	}
	if err := p.Run(); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("rank %d has not what the formula gives", g.Rank())
	}
	return nil
}

// identity is a codec that changes nothing.
type identity struct{ group int }

func (c identity) Name() string                         { return fmt.Sprintf("identity%d", c.group) }
func (c identity) Group() int                           { return c.group }
func (c identity) Size(d dist.DType, n int) int         { return n * d.Size() }
func (c identity) Encode(dst, src []byte, _ dist.DType) { copy(dst, src) }
func (c identity) DecodeReduce(dst []byte, srcs [][]byte, d dist.DType, _ dist.Reduction) {
	for i := range len(dst) / d.Size() {
		acc := float32(0)
		for _, s := range srcs {
			acc += float32(d.Get(s, i))
		}
		d.Put(dst, i, float64(acc))
	}
}

// int8Scaled is a lossy codec: a scale per group of 32, then 8-bit integers.
type int8Scaled struct{}

const int8Group = 32

func (int8Scaled) Name() string { return "int8" }
func (int8Scaled) Group() int   { return int8Group }
func (int8Scaled) Size(_ dist.DType, n int) int {
	return n + 4*((n+int8Group-1)/int8Group)
}

func (c int8Scaled) Encode(dst, src []byte, d dist.DType) {
	n := len(src) / d.Size()
	scales := dst[n:]
	for from := 0; from < n; from += int8Group {
		to, most := min(from+int8Group, n), 0.0
		for i := from; i < to; i++ {
			most = max(most, math.Abs(d.Get(src, i)))
		}
		scale := float32(most / 127)
		binary.LittleEndian.PutUint32(scales[from/int8Group*4:], math.Float32bits(scale))
		for i := from; i < to; i++ {
			q := 0.0
			if scale > 0 {
				q = math.RoundToEven(d.Get(src, i) / float64(scale))
			}
			dst[i] = byte(int8(max(-127, min(127, q))))
		}
	}
}

func (c int8Scaled) DecodeReduce(dst []byte, srcs [][]byte, d dist.DType, _ dist.Reduction) {
	n := len(dst) / d.Size()
	for i := range n {
		acc := float32(0)
		for _, s := range srcs {
			scale := math.Float32frombits(binary.LittleEndian.Uint32(s[n+i/int8Group*4:]))
			acc += float32(int8(s[i])) * scale
		}
		d.Put(dst, i, float64(acc))
	}
}

// codecs checks that a codec that changes nothing gives the sum, and that a
// lossy one gives the same bits everywhere, near the sum and not equal to it.
func codecs(g *dist.Group) error {
	if g.Size() == 1 {
		return nil
	}
	for _, d := range []dist.DType{dist.F32, dist.BF16} {
		for _, count := range []int{1, 31, 1000, 70001} {
			e := new(vectors).expectations(g, dist.AllReduce, cell{dtype: d, count: count})[0]
			for _, c := range []dist.Codec{identity{1}, identity{7}, int8Scaled{}} {
				out := make([]byte, len(e.out))
				if err := g.AllReduce(as(dist.Of(out), d, count), as(dist.Of(e.in), d, count), dist.Sum, dist.WithCodec(c)); err != nil {
					return fmt.Errorf("codec %s of %d %v: %w", c.Name(), count, d, err)
				}
				all := make([]byte, len(out)*g.Size())
				if err := g.AllGather(dist.Of(all), dist.Of(out)); err != nil {
					return err
				}
				for r := range g.Size() {
					if !bytes.Equal(all[r*len(out):(r+1)*len(out)], out) {
						return fmt.Errorf("codec %s of %d %v: ranks %d and %d got different bits", c.Name(), count, d, g.Rank(), r)
					}
				}
				if err := near(e.out, out, d, c, g.Size()); err != nil {
					return fmt.Errorf("codec %s of %d %v: %w", c.Name(), count, d, err)
				}
			}
		}
	}
	return nil
}

func near(want, got []byte, d dist.DType, c dist.Codec, size int) error {
	_, lossy := c.(int8Scaled)
	// Half a step of 1/127 of the largest in its group, for each input and once
	// more for their sum, which is at most as large as all of them; and one for
	// the rounding to the type.
	all := float64(size) * float64(inputs(d, dist.Sum, size).Most())
	tolerance := 2*all/254 + 1
	for i := range len(want) / d.Size() {
		a, b := d.Get(want, i), d.Get(got, i)
		if a != b && (!lossy || math.Abs(a-b) > tolerance) {
			return fmt.Errorf("element %d is %v, want %v", i, b, a)
		}
	}
	return nil
}

// combiners checks a reduction of the program's own, the bitwise or, by every algorithm.
func combiners(g *dist.Group) error {
	or := dist.NewCombiner("or", func(acc, x []int32) {
		for i, v := range x {
			acc[i] |= v
		}
	})
	value := func(rank, i int) int32 { return int32(verify.Hash(5, rank, i) & verify.Hash(6, rank, i)) }
	for _, op := range []dist.Collective{dist.AllReduce, dist.ReduceScatter, dist.Reduce} {
		algorithms := append([]string{"auto"}, g.Capabilities().Algorithms[op]...)
		for _, algorithm := range algorithms {
			for _, count := range []int{1, 1000, 33333} {
				in, want := make([]int32, count), make([]int32, count)
				for i := range in {
					in[i] = value(g.Rank(), i)
					for r := range g.Size() {
						want[i] |= value(r, i)
					}
				}
				if op == dist.ReduceScatter {
					off, n := dist.Block(count, g.Size(), g.Rank())
					want = want[off : off+n]
				}
				out := make([]int32, len(want))
				p, err := g.Prepare(dist.Call{Op: op, In: dist.Of(in), Out: dist.Of(out), Algorithm: algorithm, Combiner: or})
				if err == nil {
					err = p.Run()
				}
				if (op != dist.Reduce || g.Rank() == 0) && err == nil && !slices.Equal(out, want) {
					err = errors.New("it is not the bitwise or of all inputs")
				}
				if err != nil {
					return fmt.Errorf("%s of %d by %s with a combiner: %w", op, count, algorithm, err)
				}
			}
		}
	}
	return nil
}
