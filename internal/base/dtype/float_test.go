package dtype

import (
	"math"
	"sort"
	"testing"

	"pgregory.net/rapid"
)

// format describes a 16-bit float by the widths of its fields, for a simple reference
// implementation.
type format struct {
	name                       string
	exponentBits, fractionBits int
	from                       func(float32) uint16
	to                         func(uint16) float32
	positive                   []float64 // the values of the bit patterns 0, 1, 2, ... up to where infinity would be
	quiet, infinity, signBit   uint16
}

func formats() []*format {
	half := &format{
		name: "float16", exponentBits: 5, fractionBits: 10,
		from: func(f float32) uint16 { return uint16(Float16From(f)) },
		to:   func(bits uint16) float32 { return Float16(bits).Float32() },
	}
	brain := &format{
		name: "bfloat16", exponentBits: 8, fractionBits: 7,
		from: func(f float32) uint16 { return uint16(BFloat16From(f)) },
		to:   func(bits uint16) float32 { return BFloat16(bits).Float32() },
	}
	for _, f := range []*format{half, brain} {
		f.signBit = 1 << 15
		f.quiet = 1 << (f.fractionBits - 1)
		f.infinity = (1<<f.exponentBits - 1) << f.fractionBits
		for bits := range int(f.infinity) + 1 {
			f.positive = append(f.positive, f.value(bits))
		}
	}
	return []*format{half, brain}
}

// value computes the value of a bit pattern by definition. The pattern of infinity has the value of
// the next power of two, as needed for rounding.
func (f *format) value(bits int) float64 {
	bias := 1<<(f.exponentBits-1) - 1
	exponent, fraction := bits>>f.fractionBits, float64(bits%(1<<f.fractionBits))
	if exponent == 0 {
		return math.Ldexp(fraction, 1-bias-f.fractionBits)
	}
	return math.Ldexp(fraction+math.Ldexp(1, f.fractionBits), exponent-bias-f.fractionBits)
}

// round is a slow reference: it finds the two neighbours and compares with their mean, which is
// exact in float64.
func (f *format) round(x float32) uint16 {
	var sign uint16
	if math.Signbit(float64(x)) {
		sign = f.signBit
	}
	size := math.Abs(float64(x))
	above := sort.SearchFloat64s(f.positive, size)
	switch {
	case above == len(f.positive):
		return sign | f.infinity
	case f.positive[above] == size:
		return sign | uint16(above)
	}
	below := above - 1
	middle := (f.positive[below] + f.positive[above]) / 2
	if size > middle || (size == middle && below%2 == 1) {
		return sign | uint16(above)
	}
	return sign | uint16(below)
}

func (f *format) isNaN(bits uint16) bool { return bits&^f.signBit > f.infinity }

// All 65536 patterns survive a round trip. A NaN keeps its payload and becomes quiet.
func TestEveryPattern(t *testing.T) {
	for _, f := range formats() {
		for pattern := range 1 << 16 {
			bits := uint16(pattern)
			wide := f.to(bits)
			back := f.from(wide)
			switch size := bits &^ f.signBit; {
			case f.isNaN(bits):
				payload := uint32(bits%(1<<f.fractionBits)) << (23 - f.fractionBits)
				if !math.IsNaN(float64(wide)) || math.Float32bits(wide)%(1<<23) != payload || back != bits|f.quiet {
					t.Fatalf("%s NaN %#04x: widened to %v, came back as %#04x", f.name, bits, wide, back)
				}
			case size == f.infinity:
				if !math.IsInf(float64(wide), 0) || math.Signbit(float64(wide)) != (bits >= f.signBit) || back != bits {
					t.Fatalf("%s infinity %#04x: widened to %v, came back as %#04x", f.name, bits, wide, back)
				}
			default:
				want := f.positive[size]
				if bits >= f.signBit {
					want = -want
				}
				if float64(wide) != want || math.Signbit(float64(wide)) != (bits >= f.signBit) || back != bits {
					t.Fatalf("%s %#04x: widened to %v, want %v; came back as %#04x", f.name, bits, wide, want, back)
				}
			}
		}
	}
}

// Rounding can go wrong at the values, at the means between neighbours, and at the float32 values
// next to them.
func TestRoundingAtEveryBoundary(t *testing.T) {
	for _, f := range formats() {
		for bits := range len(f.positive) - 1 {
			value, next := f.positive[bits], f.positive[bits+1]
			for _, at := range []float64{value, (value + next) / 2} {
				// Above the largest float32 this is infinity, which must work too.
				f.check(t, float32(at))
				f.check(t, math.Nextafter32(float32(at), float32(math.Inf(1))))
				f.check(t, math.Nextafter32(float32(at), 0))
			}
		}
		for _, x := range []float32{0, math.SmallestNonzeroFloat32, math.MaxFloat32, float32(math.Inf(1))} {
			f.check(t, x)
		}
	}
}

// A prime stride visits all exponents with different low bits.
func TestRoundingAcrossAllFloats(t *testing.T) {
	for _, f := range formats() {
		for bits := uint64(0); bits < 1<<31; bits += 4099 {
			if x := math.Float32frombits(uint32(bits)); x == x {
				f.check(t, x)
			}
		}
	}
}

func (f *format) check(t *testing.T, x float32) {
	t.Helper()
	for _, signed := range []float32{x, -x} {
		if got, want := f.from(signed), f.round(signed); got != want {
			t.Fatalf("%s of %v (%#08x) = %#04x, want %#04x", f.name, signed, math.Float32bits(signed), got, want)
		}
	}
}

// A NaN stays a NaN, whichever bits of its payload are kept.
func TestNaNsStay(t *testing.T) {
	for _, f := range formats() {
		rapid.Check(t, func(t *rapid.T) {
			payload := rapid.Uint32Range(1, 1<<23-1).Draw(t, "payload")
			sign := rapid.Uint32Range(0, 1).Draw(t, "sign")
			x := math.Float32frombits(sign<<31 | infinity32 | payload)
			got := f.from(x)
			if !f.isNaN(got) || uint32(got>>15) != sign || got&f.quiet == 0 {
				t.Fatalf("%s of NaN %#08x = %#04x", f.name, math.Float32bits(x), got)
			}
		})
	}
}

func TestKnownValues(t *testing.T) {
	tests := []struct {
		x    float32
		half Float16
		bf   BFloat16
	}{
		{0, 0, 0}, {1, 0x3c00, 0x3f80}, {-2, 0xc000, 0xc000}, {65504, 0x7bff, 0x4780},
		{65519.996, 0x7bff, 0x4780}, {65520, 0x7c00, 0x4780}, {0x1p-24, 1, 0x3380}, {0x1p-25, 0, 0x3300},
		{0x1.000002p-25, 1, 0x3300}, {math.MaxFloat32, 0x7c00, 0x7f80}, {1.0 / 3, 0x3555, 0x3eab},
	}
	for _, tt := range tests {
		if half, bf := Float16From(tt.x), BFloat16From(tt.x); half != tt.half || bf != tt.bf {
			t.Errorf("%v: float16 %#04x and bfloat16 %#04x, want %#04x and %#04x", tt.x, half, bf, tt.half, tt.bf)
		}
	}
}

func BenchmarkFloat16From(b *testing.B) {
	var sum Float16
	x := float32(0.1)
	for b.Loop() {
		sum += Float16From(x)
		x += 0.001
	}
	_ = sum
}
