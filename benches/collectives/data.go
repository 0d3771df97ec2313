package collectives

import (
	"bytes"
	"fmt"

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

// stretch is how many elements are made at a time, so that they stay in the cache.
const stretch = 1024

// stretches calls f for the elements [from, from+n) of a buffer and their bytes.
func stretches(b dist.Buffer, f func(from, n int, elements []byte)) {
	size, data := b.DType().Size(), b.Bytes()
	for from := 0; from < b.Count(); from += stretch {
		n := min(stretch, b.Count()-from)
		f(from, n, data[from*size:(from+n)*size])
	}
}

// fill writes a rank's input, wherever its memory is.
func (in inputs) fill(to dist.Buffer, rank, first int) error {
	b, err := to.Mirror()
	if err != nil {
		return err
	}
	var values [stretch]float64 // the inputs are small whole numbers
	stretches(b, func(from, n int, elements []byte) {
		for i := range n {
			values[i] = float64(in.Value(rank, first+from+i))
		}
		b.DType().Encode(elements, values[:n])
	})
	return to.Update(b)
}

// check compares a rank's output with what it must be. The error is a
// *bench.Wrong that counts elements.
func (in inputs) check(out dist.Buffer, sh shape, rank int) error {
	b, err := out.Mirror()
	if err != nil {
		return err
	}
	var wrong bench.Wrong
	var values [stretch]float64
	d := b.DType()
	want := make([]byte, stretch*d.Size())
	stretches(b, func(from, n int, elements []byte) {
		for i := range n {
			values[i] = in.wanted(d, sh, rank, from+i)
		}
		want := want[:len(elements)]
		d.Encode(want, values[:n])
		if bytes.Equal(want, elements) {
			return
		}
		for i := range n {
			have, want := d.Get(elements, i), d.Get(want, i)
			if have == want {
				continue
			}
			if wrong.Count++; wrong.Count == 1 {
				wrong.Detail = fmt.Sprintf("rank %d, element %d is %v, want %v", rank, from+i, have, want)
			}
		}
	})
	if wrong.Count > 0 {
		return &wrong
	}
	return nil
}

// wanted is what the i-th output element of a rank must be, before it is rounded
// to the element type.
func (in inputs) wanted(d dtype.DType, sh shape, rank, i int) float64 {
	from, position := sh.origin(rank, i)
	switch {
	case from != everyone:
		return float64(in.Value(from, position))
	case in.Reduction() == dist.Avg:
		return average(d, in.Reduced(position), in.Ranks())
	}
	return float64(in.Reduced(position))
}

// average is the sum times the rounded reciprocal, as package dist defines it: of
// f64 in f64, of the other floats in f32. Integers are divided and truncated.
func average(d dtype.DType, sum int64, ranks int) float64 {
	switch {
	case d == dtype.F64:
		return float64(sum) * (1 / float64(ranks))
	case d.Float():
		return float64(float32(sum) * float32(1/float64(ranks)))
	}
	return float64(sum / int64(ranks))
}
