package disttest

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/verify"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// epilogues checks scale, bias and residual against the formula, with every algorithm of the operations that reduce and
// with one that does not.
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
	// The formula with its roundings: the product and every sum are float32.
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
		return fmt.Errorf("the output of rank %d differs from the formula", g.Rank())
	}
	return nil
}

// norms checks residual and norm in one epilogue against the formula, with every algorithm, and with rows that do and
// do not fill vector registers of a device.
func norms(g *dist.Group) error {
	caps := g.Capabilities()
	for _, d := range []dist.DType{dist.F32, dist.F16, dist.BF16} {
		for _, algorithm := range append([]string{"auto"}, caps.Algorithms[dist.AllReduce]...) {
			for k, row := range []int{1, 7, 64, 1000} {
				if err := norm(g, d, algorithm, row, 3*row*g.Size(), caps.Has(dist.SymmetricMemory) && k%2 == 0); err != nil {
					return fmt.Errorf("norm of rows of %d %v by %s: %w", row, d, algorithm, err)
				}
			}
		}
	}
	return nil
}

func norm(g *dist.Group, d dist.DType, algorithm string, row, count int, symmetric bool) error {
	const epsilon = 1e-5
	e := new(vectors).expectations(g, dist.AllReduce, cell{dtype: d, count: count})[0]
	space, err := newSpace(g, count)
	if err != nil {
		return err
	}
	kind := kindOf(symmetric)
	in, out := as(space.in[kind], d, count), as(space.out[kind], d, count)
	weight := vector(d, row, func(i int) float64 { return float64(i%13+4) / 8 })
	residual := vector(d, count, func(i int) float64 { return float64(int(verify.Hash(9, g.Rank(), i)%16) - 8) })
	h := vector(d, count, func(i int) float64 { return d.Get(e.out, i) + d.Get(residual, i) })
	if err := put(in, e.in); err != nil {
		return err
	}
	err = g.Do(dist.Call{Op: dist.AllReduce, In: in, Out: out, Algorithm: algorithm,
		Epilogue: &dist.Epilogue{Residual: as(dist.Of(residual), d, count),
			Norm: &dist.RMSNorm{Weight: as(dist.Of(weight), d, row), Epsilon: epsilon}}})
	if err != nil {
		return err
	}
	got, err := get(out)
	if err != nil {
		return err
	}
	// The squares may be added in any order, and a few float32 roundings follow; the last one is to the element type.
	tolerance := float64(row+16)*0x1p-24 + map[dist.DType]float64{dist.F32: 0, dist.F16: 0x1p-11, dist.BF16: 0x1p-8}[d]
	squares := make([]float64, count/row)
	for i := range count {
		squares[i/row] += d.Get(h, i) * d.Get(h, i)
	}
	for i := range count {
		want := d.Get(h, i) / math.Sqrt(squares[i/row]/float64(row)+epsilon) * d.Get(weight, i%row)
		if x := d.Get(got, i); !(math.Abs(x-want) <= tolerance*math.Abs(want)) {
			return fmt.Errorf("element %d of %d is %v, want %v", i, count, x, want)
		}
	}
	return nil
}

// identity is a codec that leaves elements unchanged.
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

// codecs checks that a codec that the program defines, and that changes nothing, returns the sum on all ranks.
func codecs(g *dist.Group) error {
	if g.Size() == 1 {
		return nil
	}
	for _, d := range []dist.DType{dist.F32, dist.BF16} {
		for _, count := range []int{1, 31, 1000, 70001} {
			e := new(vectors).expectations(g, dist.AllReduce, cell{dtype: d, count: count})[0]
			for _, c := range []dist.Codec{identity{1}, identity{7}} {
				out := make([]byte, len(e.out))
				if err := g.Do(dist.Call{Op: dist.AllReduce, Codec: c, Out: as(dist.Of(out), d, count),
					In: as(dist.Of(e.in), d, count)}); err != nil {
					return fmt.Errorf("codec %s of %d %v: %w", c.Name(), count, d, err)
				}
				if !bytes.Equal(out, e.out) {
					return fmt.Errorf("codec %s of %d %v: wrong at element %d", c.Name(), count, d, differing(out, e.out)/d.Size())
				}
			}
		}
	}
	return nil
}

// quantising reports whether the group accepts the built-in codecs.
func quantising(c dist.Capabilities) bool {
	return !slices.ContainsFunc(quant.Codecs(), func(codec quant.Codec) bool { return !c.Takes(codec) })
}

// quantised checks that a backend's own implementation of the built-in codecs, such as a GPU kernel,
// returns the bits of their Go code. The inputs have groups of very different magnitudes, some of
// which round to zero.
func quantised(g *dist.Group) error {
	caps := g.Capabilities()
	if g.Size() == 1 {
		return nil // nothing moves, so nothing is encoded
	}
	for _, d := range []dist.DType{dist.F32, dist.F16, dist.BF16} {
		for _, count := range []int{1, 31, 32, 33, 1000, 40007} {
			space, err := newSpace(g, count)
			if err != nil {
				return err
			}
			for _, c := range quant.Codecs() {
				for k, r := range []dist.Reduction{dist.Sum, dist.Avg} {
					if !slices.Contains(caps.Reductions, r) {
						continue
					}
					inputs, want := roundTrip(c, d, r, count, g.Size())
					kind := kindOf(caps.Has(dist.SymmetricMemory) && k == 0)
					in, out := as(space.in[kind], d, count), as(space.out[kind], d, count)
					if err := put(in, inputs[g.Rank()]); err != nil {
						return err
					}
					if err := g.Do(dist.Call{Op: dist.AllReduce, In: in, Out: out, Reduction: r, Codec: c}); err != nil {
						return fmt.Errorf("codec %s of %d %v: %w", c.Name(), count, d, err)
					}
					got, err := get(out)
					if err != nil {
						return err
					}
					if !bytes.Equal(got, want) {
						return fmt.Errorf("codec %s of %d %v (%v): other bits than its Go code, first at element %d", c.Name(),
							count, d, r, differing(got, want)/d.Size())
					}
				}
			}
		}
	}
	return nil
}

// roundTrip returns the ranks' inputs and their sum after all encoding and decoding.
func roundTrip(c dist.Codec, d dist.DType, r dist.Reduction, count, size int) (inputs [][]byte, out []byte) {
	var codes [][]byte
	encode := func(b []byte) []byte {
		code := make([]byte, c.Size(d, count))
		c.Encode(code, b, d)
		return code
	}
	for rank := range size {
		in := vector(d, count, func(i int) float64 {
			magnitude := []int{0, 4, -9, -140, 8}[i/c.Group()%5]
			return math.Ldexp(float64(int(verify.Hash(8, rank, i)%4001)-2000)/1024, magnitude)
		})
		inputs, codes = append(inputs, in), append(codes, encode(in))
	}
	out = make([]byte, count*d.Size())
	c.DecodeReduce(out, codes, d, dist.Sum)
	c.DecodeReduce(out, [][]byte{encode(out)}, d, dist.Sum)
	if r == dist.Avg {
		for i := range count {
			d.Put(out, i, float64(float32(d.Get(out, i))*float32(1/float64(size))))
		}
	}
	return inputs, out
}

func differing(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return 0
}
