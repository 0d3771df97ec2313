package sweep

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/point"
)

func testPoint() point.Point {
	return point.Point{
		{Name: "size", Value: point.BytesValue(65536)},
		{Name: "shape", Value: point.TupleValue("qkv", 4096, 6144)},
		{Name: "a.0", Value: point.StringValue("dotted")},
		{Name: "on", Value: point.BoolValue(true)},
		{Name: "f", Value: point.FloatValue(0.5)},
		{Name: "tricky", Value: point.StringValue("{size} }{")},
	}
}

func TestSubstitute(t *testing.T) {
	four := 4
	for _, c := range []struct {
		arg   string
		ranks *int
		want  string // or, after "error: ", a part of the error
	}{
		{"plain", nil, "plain"}, {"", nil, ""}, {"{size}", nil, "65536"}, {"-b{size}-e{size}", nil, "-b65536-e65536"},
		{"{shape}", nil, "qkv=4096x6144"}, {"{shape.0}x{shape.1}", nil, "4096x6144"}, {"{a.0}", nil, "dotted"},
		{"{on},{f}", nil, "true,0.5"}, {"{{size}}", nil, "{size}"}, {"{{{size}}}", nil, "{65536}"},
		{`{{"a": {f}}}`, nil, `{"a": 0.5}`},
		{"{tricky}", nil, "{size} }{"}, // values are not expanded again
		{"{num_ranks}", &four, "4"},
		{"{num_ranks}", nil, "error: starts its own ranks"},
		{"{sise}", nil, `error: unknown axis "sise", did you mean "size"`},
		{"{shape.2}", nil, "error: has components 0 to 1"},
		{"{size.0}", nil, "error: only an axis of type tuple"},
		{"{size", nil, "error: a { without its }"}, {"size}", nil, "error: a } without its {"},
		{"{a{b}}", nil, "error: a { without its }"},
		{"{}", nil, "error: unknown axis"},
	} {
		got, err := Substitute([]string{c.arg}, testPoint(), c.ranks)
		if want, isError := strings.CutPrefix(c.want, "error: "); isError {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: have %v and error %v, want %q", c.arg, got, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.arg, err)
		} else if diff := cmp.Diff([]string{c.want}, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.arg, diff)
		}
	}
}

// Arguments built from parts with known results expand to those results: no placeholder remains,
// and no brace is lost.
func TestSubstituteProperty(t *testing.T) {
	part := rapid.SampledFrom([][2]string{
		{"{{", "{"}, {"}}", "}"}, {"{size}", "65536"}, {"{shape.1}", "6144"}, {"{num_ranks}", "3"}, {"x", "x"}, {"é", "é"},
		{" ", " "},
	})
	rapid.Check(t, func(t *rapid.T) {
		ranks := 3
		var arg, want strings.Builder
		for _, p := range rapid.SliceOf(part).Draw(t, "parts") {
			arg.WriteString(p[0])
			want.WriteString(p[1])
		}
		got, err := Substitute([]string{arg.String()}, testPoint(), &ranks)
		if err != nil {
			t.Fatalf("%q: %v", arg.String(), err)
		}
		if got[0] != want.String() {
			t.Fatalf("%q: have %q, want %q", arg.String(), got[0], want.String())
		}
	})
}

func FuzzSubstitute(f *testing.F) {
	for _, s := range []string{"{size}", "{{", "{shape.1}", "a}b", "{a.0}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		out, err := Substitute([]string{arg}, testPoint(), nil)
		if err != nil {
			return
		}
		// An argument without placeholders keeps its text, except for doubled braces.
		if text, constant := literalArg(arg); constant && text != out[0] {
			t.Fatalf("%q: %q and %q", arg, text, out[0])
		}
	})
}
