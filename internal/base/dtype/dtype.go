// Package dtype defines the element types of vectors and matrices, the reductions, and
// conversions to and from the narrow floats that Go lacks.
//
// The conversions are simple loops for tests and verification. Fast kernels live in other
// packages and are tested against them.
package dtype

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/suggest"
)

// DType is an element type. The zero value is invalid, so that a missing type is detected.
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

	// Types of operands of matrix products only; Products lists them.
	TF32 // an f32; matrix units read only 10 of its fraction bits
	E4M3 // 8 bits: see Float8
	I8   // signed bytes, whose products are added up in i32
)

// facts has an entry for each type. Aliases are the names in C, NumPy, PyTorch and NCCL.
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
	I8:   {"i8", 1, []string{"int8", "char"}},
}

// All lists the types that vectors may have, in the order of the constants.
func All() []DType { return []DType{F64, F32, F16, BF16, I64, I32, U8} }

// Products lists the types that only operands of matrix products may have.
func Products() []DType { return []DType{TF32, E4M3, I8} }

// Last is the largest of the constants, for arrays indexed by type.
const Last = I8

// Valid reports whether d is one of the types.
func (d DType) Valid() bool { return d >= F64 && int(d) < len(facts) }

// String returns the canonical short name, such as "bf16".
func (d DType) String() string {
	if !d.Valid() {
		return fmt.Sprintf("DType(%d)", uint8(d))
	}
	return facts[d].name
}

// Size returns the number of bytes of one element.
func (d DType) Size() int {
	if !d.Valid() {
		panic("dtype: size of " + d.String()) // a bug of the caller: user input is checked by Parse
	}
	return facts[d].size
}

// Float reports whether the type is a floating-point type. Sums of such elements depend on the
// order of additions.
func (d DType) Float() bool { return d >= F64 && d <= BF16 || d == TF32 || d == E4M3 }

// spellings lists the names that Parse accepts, the canonical one first.
func (d DType) spellings() []string { return append([]string{d.String()}, facts[d].aliases...) }

// Parse reads the name of a type or an alias, in upper or lower case.
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

// MarshalText returns the canonical name, as in the JSON "f32".
func (d DType) MarshalText() ([]byte, error) {
	if !d.Valid() {
		return nil, fmt.Errorf("encoding an element type: %v is not one", d)
	}
	return []byte(d.String()), nil
}

// UnmarshalText accepts everything that Parse does.
func (d *DType) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// Element is a Go type that represents elements.
type Element interface {
	float64 | float32 | Float16 | BFloat16 | int64 | int32 | uint8
}

// Of returns the type whose elements are represented by E.
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
	default: // uint8, by the constraint
		return U8
	}
}

// Reduction is an operation that combines elements.
type Reduction uint8

// The reductions. Avg multiplies the sum by the rounded reciprocal of the number of ranks;
// for integers it divides and truncates.
const (
	Sum Reduction = iota
	Prod
	Min
	Max
	Avg
)

var reductionNames = [...]string{"sum", "prod", "min", "max", "avg"}

// Reductions lists all reductions.
func Reductions() []Reduction { return []Reduction{Sum, Prod, Min, Max, Avg} }

// String returns the name in lower case.
func (r Reduction) String() string {
	if int(r) >= len(reductionNames) {
		return fmt.Sprintf("Reduction(%d)", uint8(r))
	}
	return reductionNames[r]
}

// ParseReduction is the inverse of String.
func ParseReduction(name string) (Reduction, error) {
	if i := slices.Index(reductionNames[:], name); i >= 0 {
		return Reduction(i), nil
	}
	return 0, suggest.Unknown("reduction", name, reductionNames[:])
}
