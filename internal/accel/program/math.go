package program

import (
	"math"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// DType is the type of elements. The zero value is f16.
type DType uint8

// The types of elements.
const (
	F16 DType = iota
	BF16
	F32
)

func (d DType) String() string { return d.dtype().String() }

// Size returns the size of an element in bytes.
func (d DType) Size() int { return d.dtype().Size() }

func (d DType) dtype() dtype.DType { return [...]dtype.DType{dtype.F16, dtype.BF16, dtype.F32}[d] }

// common returns the type in which elements of two types are combined: their own if they are equal, otherwise f32,
// which holds all values of both.
func (d DType) common(o DType) DType {
	if d == o {
		return d
	}
	return F32
}

// Decode returns elements of a type as float32.
func Decode(d DType, b []byte) []float32 {
	values := make([]float32, len(b)/d.Size())
	vec.Widen(values, b, d.dtype())
	return values
}

// Encode rounds values to elements of a type, to nearest, ties to even.
func Encode(d DType, to []byte, values []float32) { vec.Narrow(to, values, d.dtype()) }

// Form is the shape and the element type of a tile. Elements are stored by rows.
type Form struct {
	Rows, Cols int
	Type       DType
}

// Len returns the number of elements.
func (f Form) Len() int { return f.Rows * f.Cols }

// Bytes returns the size of the tile.
func (f Form) Bytes() int { return f.Len() * f.Type.Size() }

// Broadcast returns the shape of f and o combined element by element by NumPy's rule: rows and columns are equal, or 1
// in one of the two, which is then repeated. The type is their common one. ok is false if the shapes do not fit.
func (f Form) Broadcast(o Form) (result Form, ok bool) {
	result = Form{max(f.Rows, o.Rows), max(f.Cols, o.Cols), f.Type.common(o.Type)}
	return result, f.fits(result) && o.fits(result)
}

// fits reports whether f can be repeated to the shape of o.
func (f Form) fits(o Form) bool {
	return (f.Rows == o.Rows || f.Rows == 1) && (f.Cols == o.Cols || f.Cols == 1)
}

// Forms are the forms of the operands and of the result of a Math operation. Operands smaller than the result are
// repeated.
type Forms struct {
	Out Form
	In  [3]Form // A, B and C
}

// forms returns the forms of a Math operation.
func (o *Op) forms() Forms {
	if o.Forms != nil {
		return *o.Forms
	}
	same := Form{1, o.N, o.Type}
	f := Forms{same, [3]Form{same, same, same}}
	if Reduces(o.Fn) {
		f.Out.Cols = 1
	}
	return f
}

// Work returns how many 16-bit elements the MATH engine handles in the time of a Math operation: an f32 operand or
// result counts twice.
func (o *Op) Work() int {
	f := o.forms()
	size := f.Out.Type.Size()
	for _, in := range f.In {
		size = max(size, in.Type.Size())
	}
	return o.N * size / ElemSize
}

// Fn is a function of the MATH engine.
type Fn uint8

// The functions of the MATH engine. Sum, Max and Min reduce each row to one element; Softmax needs whole rows; the
// others work element by element.
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
	Log
	Sqrt
	Rsqrt
	Tanh
	Gelu
	Silu
	Relu
	Sum
	Max
	Min
	Softmax
)

func (f Fn) String() string {
	return [...]string{"copy", "add", "sub", "mul", "div", "maximum", "minimum", "fma", "clamp", "exp", "log", "sqrt",
		"rsqrt", "tanh", "gelu", "silu", "relu", "sum", "max", "min", "softmax"}[f]
}

// Binary reports whether f takes two tiles.
func Binary(f Fn) bool { return f >= Add && f <= Minimum }

// Pointwise reports whether f takes one tile and works element by element.
func Pointwise(f Fn) bool { return f >= Exp && f <= Relu }

// Reduces reports whether f reduces each row of a tile to one element.
func Reduces(f Fn) bool { return f >= Sum && f <= Min }

// compute performs an operation of the MATH engine. A sum of tiles of the same form, which dominates all-reduce, uses
// the vectorised kernel; it rounds the same way.
func compute(o *Op, f Forms, out, a, b, c []byte) {
	switch {
	case o.Fn == Copy && f.In[0] == f.Out:
		copy(out, a)
		return
	case o.Fn == Add && f.In[0] == f.Out && f.In[1] == f.Out:
		vec.Reduce2(out, a, b, f.Out.Type.dtype(), vec.Sum)
		return
	}
	x := widen(a, f.In[0])
	result := make([]float32, f.Out.Len())
	switch {
	case Reduces(o.Fn) || o.Fn == Softmax:
		for row := range f.In[0].Rows {
			reduce(o.Fn, result[row*f.Out.Cols:(row+1)*f.Out.Cols], x[row*f.In[0].Cols:(row+1)*f.In[0].Cols])
		}
	default:
		var y, z []float32
		if Binary(o.Fn) || o.Fn == FMA {
			y = widen(b, f.In[1])
		}
		if o.Fn == FMA {
			z = widen(c, f.In[2])
		}
		at := func(v []float32, form Form, row, col int) float32 {
			if v == nil {
				return 0
			}
			return v[min(row, form.Rows-1)*form.Cols+min(col, form.Cols-1)]
		}
		for i := range result {
			row, col := i/f.Out.Cols, i%f.Out.Cols
			result[i] = o.element(at(x, f.In[0], row, col), at(y, f.In[1], row, col), at(z, f.In[2], row, col))
		}
	}
	Encode(f.Out.Type, out, result)
}

func widen(b []byte, f Form) []float32 { return Decode(f.Type, b[:f.Bytes()]) }

// element computes one element.
func (o *Op) element(x, y, z float32) float32 {
	switch wide := float64(x); o.Fn {
	case Add:
		return x + y
	case Sub:
		return x - y
	case Mul:
		return x * y
	case Div:
		return x / y
	case Maximum:
		return max(x, y)
	case Minimum:
		return min(x, y)
	case FMA:
		return float32(math.FMA(wide, float64(y), float64(z)))
	case Clamp:
		return min(max(x, o.Scalars[0]), o.Scalars[1])
	case Exp:
		return float32(math.Exp(wide))
	case Log:
		return float32(math.Log(wide))
	case Sqrt:
		return float32(math.Sqrt(wide))
	case Rsqrt:
		return float32(1 / math.Sqrt(wide))
	case Tanh:
		return float32(math.Tanh(wide))
	case Gelu:
		return float32(0.5 * wide * (1 + math.Erf(wide/math.Sqrt2)))
	case Silu:
		return float32(wide / (1 + math.Exp(-wide)))
	case Relu:
		return max(x, 0)
	}
	return x // Copy
}

// reduce computes the functions that need a whole row. Softmax subtracts the maximum first to avoid overflow.
func reduce(f Fn, out, row []float32) {
	largest, smallest, sum := float32(math.Inf(-1)), float32(math.Inf(1)), float32(0)
	for _, v := range row {
		largest, smallest, sum = max(largest, v), min(smallest, v), sum+v
	}
	switch f {
	case Sum:
		out[0] = sum
	case Max:
		out[0] = largest
	case Min:
		out[0] = smallest
	case Softmax:
		total := 0.0
		for _, v := range row {
			total += math.Exp(float64(v - largest))
		}
		for i, v := range row {
			out[i] = float32(math.Exp(float64(v-largest)) / total)
		}
	}
}
