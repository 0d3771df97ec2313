package point

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
)

func TestParseSpec(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		spec string
		want string // FormatSpec of the result, or "error: " and a part of it
	}{
		{Int, "1,2,8", "1,2,8"},
		{Int, "1K", "1000"},
		{Int, "-1,0,1", "-1,0,1"},
		{Int, "-8:8:+8", "-8,0,8"},
		{Bytes, "1K", "1Ki"},
		{Bytes, "1Ki,64M", "1Ki,64Mi"},
		{Bytes, "1K:64M:x4", "1Ki,4Ki,16Ki,64Ki,256Ki,1Mi,4Mi,16Mi,64Mi"},
		{Bytes, "1K:60K:x4", "1Ki,4Ki,16Ki"},
		{Int, "0:64:+8", "0,8,16,24,32,40,48,56,64"},
		{Int, "0:63:+8", "0,8,16,24,32,40,48,56"},
		{Int, "pow2:8:13", "256,512,1024,2048,4096,8192"},
		{Int, "1,4:16:x2,100", "1,4,8,16,100"},
		{Int, "5:5:x2", "5"},
		{Int, "4611686018427387904:9223372036854775807:x2", "4611686018427387904"},
		{Float, "0:1:+0.25", "0,0.25,0.5,0.75,1"},
		{Float, "0:0.3:+0.1", "0,0.1,0.2,0.30000000000000004"},
		{Float, "1:8:x2", "1,2,4,8"},
		{Float, "-0,1e3,-1e-3", "0,1000,-0.001"},
		{String, `ring, "a,b" ,"say \"hi\""`, `ring,"a,b","say \"hi\""`},
		{String, "host:port", "host:port"},
		{String, `""`, `""`},
		{Bool, "true,off", "true,false"},
		{DType, "float32,bf16", "f32,bf16"},
		{Tuple, "qkv=4096x6144x4096,8x8", "qkv=4096x6144x4096,8x8"},

		{Int, "", "error: missing"},
		{Int, "1,,2", "error: column 3: a value is missing"},
		{Int, "1:8", "error: a range is START:END"},
		{Int, "8:1:x2", "error: ends before it starts"},
		{Int, "1:8:*2", "error: starts with x (times) or + (plus)"},
		{Int, "1:8:x1", "error: factor of at least 2"},
		{Int, "0:8:x2", "error: start above 0"},
		{Int, "1:8:+0", "error: step above 0"},
		{Int, "pow2:9:3", "error: exponents"},
		{Int, "0:10000000:+1", "error: more than 100000"},
		{Int, "x", `error: "x"`},
		{Tuple, "4096xfoo", "error: not a shape"},
		{String, `"open`, "error: never closed"},
		{String, `"a"b`, "error: comma after the closing quote"},
		{Bool, "maybe", "error: neither true nor false"},
		{DType, "f31", "error: f31"},
	} {
		values, err := ParseSpec(c.kind, c.spec)
		if want, isErr := strings.CutPrefix(c.want, "error: "); isErr {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v %q: error %v, want one with %q", c.kind, c.spec, err, want)
			}
			continue
		}
		if err != nil || FormatSpec(values) != c.want {
			t.Errorf("%v %q = %s, %v; want %s", c.kind, c.spec, FormatSpec(values), err, c.want)
		}
	}
}

func TestEnvSpecKeepsTextExactly(t *testing.T) {
	got := must.Get(ParseEnvSpec("X", `32,-,"-",0o17,1_000,no,"INIT,ENV",""`))(t)
	want := []EnvVar{{"X", "32", true}, {"X", "", false}, {"X", "-", true}, {"X", "0o17", true}, {"X", "1_000", true},
		{"X", "no", true}, {"X", "INIT,ENV", true}, {"X", "", true}}
	if len(got) != len(want) {
		t.Fatalf("%d values, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("value %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	if _, err := ParseEnvSpec("X", "a\x00b"); err == nil {
		t.Error("a NUL byte was accepted")
	}
}

// anyValue draws a random value of any kind.
func anyValue(t *rapid.T) Value {
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		return IntValue(rapid.Int64Range(-math.MaxInt64, math.MaxInt64).Draw(t, "n"))
	case 1:
		return BytesValue(rapid.Int64Range(0, math.MaxInt64).Draw(t, "n"))
	case 2:
		return FloatValue(rapid.Float64Range(-1e300, 1e300).Draw(t, "f"))
	case 3:
		return BoolValue(rapid.Bool().Draw(t, "b"))
	case 4:
		v, _ := Parse(DType, rapid.SampledFrom([]string{"f32", "bf16", "u8"}).Draw(t, "d"))
		return v
	case 5:
		label := rapid.StringMatching(`[a-z ,"\\]{0,6}`).Draw(t, "label")
		return TupleValue(label, rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 1, 4).Draw(t, "dims")...)
	}
	return StringValue(rapid.String().Draw(t, "s"))
}

func TestSpecRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyValue(t)
		got, err := ParseSpec(v.Kind(), FormatSpec([]Value{v, v}))
		if err != nil || len(got) != 2 || got[0] != v || got[1] != v {
			t.Fatalf("%#v came back as %#v, %v", v, got, err)
		}
	})
}

func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyValue(t)
		if v.Kind() == String || v.Kind() == Tuple {
			// JSON is UTF-8 and cannot hold other bytes.
			if !json.Valid([]byte(`"` + strings.ToValidUTF8(v.String(), "") + `"`)) {
				t.Skip()
			}
		}
		p := Point{{"a", v}, {"b", IntValue(1)}}
		data := must.Get(json.Marshal(p))(t)
		var back Point
		must.Do(t, json.Unmarshal(data, &back))
		if back[0].Name != "a" || back[1].Name != "b" {
			t.Fatalf("the order was lost: %s", data)
		}
		if got := back[0].Value.Retype(v.Kind()); got != v && strings.ToValidUTF8(v.String(), "\uFFFD") != got.String() {
			t.Fatalf("%#v came back as %#v", v, got)
		}
	})
}

func TestEnvJSON(t *testing.T) {
	e := Env{{"A", "1", true}, {"B", "", false}, {"C", "", true}}
	data, err := json.Marshal(e)
	if err != nil || string(data) != `{"A":"1","B":null,"C":""}` {
		t.Fatalf("%s, %v", data, err)
	}
	var back Env
	if err := json.Unmarshal(data, &back); err != nil || len(back) != 3 || back[1] != e[1] || back[2] != e[2] {
		t.Fatalf("%+v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`{"A": 3}`), &back); err == nil {
		t.Error("a number was taken for an environment value")
	}
}

func TestTupleParts(t *testing.T) {
	v, err := Parse(Tuple, "mlp=1X2x3")
	if err != nil || v.Label() != "mlp" || len(v.Dims()) != 3 || v.Dims()[1] != 2 {
		t.Fatalf("%v %q %v %v", v, v.Label(), v.Dims(), err)
	}
}

func FuzzParseSpec(f *testing.F) {
	for _, s := range []string{"1,2,8", "1K:64M:x4", "0:64:+8", "pow2:8:13", `"a,b",c`, "-", "1:9223372036854775807:+1"} {
		f.Add(uint8(Int), s)
		f.Add(uint8(Float), s)
		f.Add(uint8(String), s)
	}
	f.Fuzz(func(t *testing.T, kind uint8, spec string) {
		k := Kind(kind%7 + 1)
		values, err := ParseSpec(k, spec)
		if err != nil {
			return
		}
		if len(values) == 0 || len(values) > maxTerms {
			t.Fatalf("%q gave %d values", spec, len(values))
		}
		again, err := ParseSpec(k, FormatSpec(values))
		if err != nil || len(again) != len(values) {
			t.Fatalf("%q: %q does not read back: %v", spec, FormatSpec(values), err)
		}
		for i := range values {
			if again[i] != values[i] {
				t.Fatalf("%q: %v came back as %v", spec, values[i], again[i])
			}
		}
	})
}
