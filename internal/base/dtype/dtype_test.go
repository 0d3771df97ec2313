package dtype

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

func TestParse(t *testing.T) {
	tests := map[string]DType{
		"f64": F64, "double": F64, "float64": F64, "f32": F32, "fp32": F32, "float": F32, "Float32": F32,
		"half": F16, "float16": F16, "fp16": F16, "F16": F16, "bf16": BF16, "bfloat16": BF16,
		"i64": I64, "int64": I64, "int32": I32, "i32": I32, "uint8": U8, "byte": U8, "u8": U8,
		"tf32": TF32, "int8": I8, "i8": I8, "fp8": E4M3, "e4m3": E4M3, "float8_e4m3fn": E4M3,
	}
	for name, want := range tests {
		if got, err := Parse(name); err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v; want %v", name, got, err, want)
		}
	}
}

// TestParseUnknown checks that the error suggests the nearest name and lists all names.
func TestParseUnknown(t *testing.T) {
	tests := map[string]string{"f33": "f32", "flaot16": "float16", "bfloat61": "bfloat16", "INT46": "int64"}
	for name, near := range tests {
		d, err := Parse(name)
		if err == nil {
			t.Errorf("Parse(%q) = %v, want an error", name, d)
			continue
		}
		for _, part := range []string{"element type", strconv.Quote(name), strconv.Quote(near), "bf16", "double", "u8"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("Parse(%q): %q does not say %s", name, err, part)
			}
		}
	}
	if d, err := Parse(""); err == nil {
		t.Errorf("no name was read as %v", d)
	}
}

// TestFactsAreConsistent checks that each spelling belongs to one type and parses to it.
func TestFactsAreConsistent(t *testing.T) {
	all := append(All(), Products()...)
	if len(all)+1 != len(facts) || all[len(all)-1] != Last {
		t.Fatalf("All and Products list %d types, facts has %d", len(all), len(facts)-1)
	}
	owner := map[string]DType{}
	for _, d := range all {
		for _, spelling := range d.spellings() {
			if other, taken := owner[spelling]; taken {
				t.Errorf("%q means both %v and %v", spelling, other, d)
			}
			owner[spelling] = d
			if got, err := Parse(spelling); err != nil || got != d {
				t.Errorf("Parse(%q) = %v, %v; want %v", spelling, got, err, d)
			}
		}
	}
}

func TestOf(t *testing.T) {
	checkOf[float64](t, F64, true)
	checkOf[float32](t, F32, true)
	checkOf[Float16](t, F16, true)
	checkOf[BFloat16](t, BF16, true)
	checkOf[int64](t, I64, false)
	checkOf[int32](t, I32, false)
	checkOf[uint8](t, U8, false)
}

func checkOf[E Element](t *testing.T, want DType, float bool) {
	t.Helper()
	d := Of[E]()
	if d != want || d.Float() != float {
		t.Errorf("Of[%T] = %v (float: %v), want %v (float: %v)", *new(E), d, d.Float(), want, float)
	}
	if size := int(unsafe.Sizeof(*new(E))); d.Size() != size {
		t.Errorf("%v.Size() = %d, but %T takes %d bytes", d, d.Size(), *new(E), size)
	}
}

func TestText(t *testing.T) {
	written, err := json.Marshal(All())
	if err != nil || string(written) != `["f64","f32","f16","bf16","i64","i32","u8"]` {
		t.Fatalf("written as %s, %v", written, err)
	}
	var d DType
	if err := json.Unmarshal([]byte(`"half"`), &d); err != nil || d != F16 {
		t.Errorf("half read as %v, %v", d, err)
	}
	if err := json.Unmarshal([]byte(`"quarter"`), &d); err == nil {
		t.Error("quarter was read as a type")
	}
}

// TestInvalid checks that invalid types are rejected.
func TestInvalid(t *testing.T) {
	for _, d := range []DType{0, DType(len(facts)), 255} {
		if d.Valid() || d.Float() {
			t.Errorf("%v is valid", d)
		}
		if _, err := d.MarshalText(); err == nil {
			t.Errorf("%v was written", d)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v has a size", d)
				}
			}()
			d.Size()
		}()
	}
}
