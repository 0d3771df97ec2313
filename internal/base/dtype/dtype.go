// Package dtype names the element types kernels work on and converts the two
// 16-bit floats that Go lacks.
//
// It says what an element is, not how to compute with arrays of them: fast
// loops live in the packages that own the kernels and are tested against the
// conversions here.
package dtype

import (
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/internal/base/suggest"
)

// DType is an element type. The zero value is no type at all, so that a
// forgotten one is noticed.
type DType uint8

// The element types, from wide to narrow.
const (
	F64 DType = iota + 1
	F32
	F16
	BF16
	I64
	I32
	U8

	// Only operands of matrix products have these; Products lists them.
	TF32 // an f32 of which the matrix units read 10 bits of the fraction
	E4M3 // 8 bits, four of them for the exponent; there is no infinity
)

// facts has one entry per type; aliases are the spellings of C, NumPy,
// PyTorch and NCCL.
var facts = [...]struct {
	name    string
	size    int
	aliases []string
}{
	F64:  {"f64", 8, []string{"float64", "fp64", "double"}},
	F32:  {"f32", 4, []string{"float32", "fp32", "float", "single"}},
	F16:  {"f16", 2, []string{"float16", "fp16", "half"}},
	BF16: {"bf16", 2, []string{"bfloat16", "bfloat"}},
	I64:  {"i64", 8, []string{"int64", "long"}},
	I32:  {"i32", 4, []string{"int32", "int"}},
	U8:   {"u8", 1, []string{"uint8", "byte"}},
	TF32: {"tf32", 4, []string{"tensorfloat32"}},
	E4M3: {"e4m3", 1, []string{"fp8", "f8e4m3", "fp8_e4m3", "float8_e4m3fn"}},
}

// All lists every type that memory is full of, in the order of the constants.
func All() []DType { return []DType{F64, F32, F16, BF16, I64, I32, U8} }

// Products lists the types that only operands of matrix products have.
func Products() []DType { return []DType{TF32, E4M3} }

// Last is the greatest of the constants, for tables by type.
const Last = E4M3

// Valid reports whether d is one of the types.
func (d DType) Valid() bool { return d >= F64 && int(d) < len(facts) }

// String is the canonical short name, such as "bf16".
func (d DType) String() string {
	if !d.Valid() {
		return fmt.Sprintf("DType(%d)", uint8(d))
	}
	return facts[d].name
}

// Size is the number of bytes of one element.
func (d DType) Size() int {
	if !d.Valid() {
		panic("dtype: size of " + d.String()) // a caller's bug: nothing the user types gets here
	}
	return facts[d].size
}

// Float reports whether the type is a floating-point one, so that results are
// compared within a tolerance instead of exactly.
func (d DType) Float() bool { return d >= F64 && d <= BF16 || d >= TF32 && d <= Last }

// spellings are the names a type may be given, the canonical one first.
func (d DType) spellings() []string { return append([]string{d.String()}, facts[d].aliases...) }

// Parse reads a type's name or an alias of it, in either case.
func Parse(name string) (DType, error) {
	var known []string
	for _, d := range append(All(), Products()...) {
		for _, spelling := range d.spellings() {
			if strings.EqualFold(name, spelling) {
				return d, nil
			}
			known = append(known, spelling)
		}
	}
	return 0, suggest.Unknown("element type", name, known)
}

// MarshalText writes the canonical name, so that JSON and YAML hold "f32".
func (d DType) MarshalText() ([]byte, error) {
	if !d.Valid() {
		return nil, fmt.Errorf("encoding an element type: %v is not one", d)
	}
	return []byte(d.String()), nil
}

// UnmarshalText reads what Parse reads.
func (d *DType) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// Element is the Go type of an element.
type Element interface {
	float64 | float32 | Float16 | BFloat16 | int64 | int32 | uint8
}

// Of gives the type whose elements are E in Go.
func Of[E Element]() DType {
	var e E
	switch any(e).(type) {
	case float64:
		return F64
	case float32:
		return F32
	case Float16:
		return F16
	case BFloat16:
		return BF16
	case int64:
		return I64
	case int32:
		return I32
	default: // the constraint leaves only this one
		return U8
	}
}
