package collectives

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/verify"
)

// inputs fill the ranks' vectors and say what must come out.
type inputs struct{ verify.Inputs }

func newInputs(seed uint64, sh shape) inputs {
	return inputs{verify.NewInputs(seed, sh.dtype, sh.reduction, sh.ranks)}
}

// typed is what the element type needs to be filled and compared: how it
// holds an integer, and how it divides a sum into an average.
type typed[E dtype.Element] struct {
	of      func(int64) E
	average func(sum int64, ranks int) E
}

// whole is for integers, which truncate an average.
func whole[E int64 | int32 | uint8]() typed[E] {
	return typed[E]{
		of:      func(v int64) E { return E(v) },
		average: func(sum int64, ranks int) E { return E(sum / int64(ranks)) },
	}
}

var (
	asF64 = typed[float64]{
		of:      func(v int64) float64 { return float64(v) },
		average: func(sum int64, ranks int) float64 { return float64(sum) * (1 / float64(ranks)) },
	}
	asF32 = typed[float32]{
		of:      func(v int64) float32 { return float32(v) },
		average: averageF32,
	}
	asF16 = typed[dtype.Float16]{
		of:      func(v int64) dtype.Float16 { return dtype.Float16From(float32(v)) },
		average: func(sum int64, ranks int) dtype.Float16 { return dtype.Float16From(averageF32(sum, ranks)) },
	}
	asBF16 = typed[dtype.BFloat16]{
		of:      func(v int64) dtype.BFloat16 { return dtype.BFloat16From(float32(v)) },
		average: func(sum int64, ranks int) dtype.BFloat16 { return dtype.BFloat16From(averageF32(sum, ranks)) },
	}
)

// averageF32 is the sum times the rounded reciprocal, as package dist defines
// it; the 16-bit types do it so too and round once more.
func averageF32(sum int64, ranks int) float32 {
	return float32(sum) * float32(1/float64(ranks))
}

// fill writes a rank's input.
func (in inputs) fill(b dist.Buffer, rank, first int) {
	switch b.DType() {
	case dtype.F64:
		fill(in, asF64, dist.Slice[float64](b), rank, first)
	case dtype.F32:
		fill(in, asF32, dist.Slice[float32](b), rank, first)
	case dtype.F16:
		fill(in, asF16, dist.Slice[dtype.Float16](b), rank, first)
	case dtype.BF16:
		fill(in, asBF16, dist.Slice[dtype.BFloat16](b), rank, first)
	case dtype.I64:
		fill(in, whole[int64](), dist.Slice[int64](b), rank, first)
	case dtype.I32:
		fill(in, whole[int32](), dist.Slice[int32](b), rank, first)
	case dtype.U8:
		fill(in, whole[uint8](), dist.Slice[uint8](b), rank, first)
	}
}

func fill[E dtype.Element](in inputs, t typed[E], to []E, rank, first int) {
	for i := range to {
		to[i] = t.of(in.Value(rank, first+i))
	}
}

// check compares a rank's output with what it must be. The error is a
// *bench.Wrong that counts elements.
func (in inputs) check(b dist.Buffer, sh shape, rank int) error {
	switch b.DType() {
	case dtype.F64:
		return check(in, asF64, dist.Slice[float64](b), sh, rank)
	case dtype.F32:
		return check(in, asF32, dist.Slice[float32](b), sh, rank)
	case dtype.F16:
		return check(in, asF16, dist.Slice[dtype.Float16](b), sh, rank)
	case dtype.BF16:
		return check(in, asBF16, dist.Slice[dtype.BFloat16](b), sh, rank)
	case dtype.I64:
		return check(in, whole[int64](), dist.Slice[int64](b), sh, rank)
	case dtype.I32:
		return check(in, whole[int32](), dist.Slice[int32](b), sh, rank)
	case dtype.U8:
		return check(in, whole[uint8](), dist.Slice[uint8](b), sh, rank)
	}
	return nil
}

func check[E dtype.Element](in inputs, t typed[E], got []E, sh shape, rank int) error {
	var wrong bench.Wrong
	for i, have := range got {
		var want E
		from, position := sh.origin(rank, i)
		switch {
		case from != everyone:
			want = t.of(in.Value(from, position))
		case in.Reduction() == dist.Avg:
			want = t.average(in.Reduced(position), in.Ranks())
		default:
			want = t.of(in.Reduced(position))
		}
		if have == want {
			continue
		}
		if wrong.Count++; wrong.Count == 1 {
			wrong.Detail = fmt.Sprintf("rank %d, element %d is %v, want %v", rank, i, number(have), number(want))
		}
	}
	if wrong.Count > 0 {
		return &wrong
	}
	return nil
}

// number is an element as people read it.
func number(v any) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case float32:
		return float64(v)
	case dtype.Float16:
		return float64(v.Float32())
	case dtype.BFloat16:
		return float64(v.Float32())
	case int64:
		return float64(v)
	case int32:
		return float64(v)
	case uint8:
		return float64(v)
	}
	return math.NaN()
}
