package yamlfile

import (
	"fmt"
	"strings"
	"testing"
)

// visit calls f for every single value below a node, in the order of the text. It does not follow aliases deeper
// than the depth, because an anchor may contain itself.
func visit(r *Reader, n Node, depth int, f func(Scalar)) {
	switch {
	case depth == 0:
	case r.IsMapping(n):
		for _, e := range r.Peek(n) {
			f(Scalar{Text: e.Key, Quoted: e.At.Style&quoted != 0, At: e.At})
			visit(r, e.Value, depth-1, f)
		}
	case r.IsList(n):
		items, _ := r.List(n, "")
		for _, item := range items {
			visit(r, item, depth-1, f)
		}
	default:
		if s, ok := r.Scalar(n, ""); ok {
			f(s)
		}
	}
}

// values returns the values of a text as one line, or its first fault.
func values(text string) string {
	r, root := Parse("f.yaml", []byte(text), "box", "n")
	var all []string
	if root != nil {
		visit(r, root, 5, func(s Scalar) { all = append(all, fmt.Sprintf("%q %v", s.Text, s.Quoted)) })
	}
	if len(r.faults) > 0 {
		return r.faults[0].Msg
	}
	return strings.Join(all, ", ")
}

// TestTexts has texts whose parts are easily lost, changed or misunderstood.
func TestTexts(t *testing.T) {
	const twice, early = "the anchor &x is defined twice", "unknown anchor 'x'"
	const mark = "did not find expected comment or line"
	for text, want := range map[string]string{
		"n: 1\t2":       `"n" false, "1\t2" false`,
		"n: [1\t2]":     `"n" false, "1\t2" false`,
		"n\tm: 1":       `"n\tm" false, "1" false`,
		"n: a\tb # c":   `"n" false, "a\tb" false`,
		"n: a\n b\tc":   `"n" false, "a b\tc" false`,
		"n: \t1\t":      `"n" false, "1" false`,
		"n: 1 # a\tb":   `"n" false, "1" false`,
		"n: '1\t2'":     `"n" false, "1\t2" true`,
		"n: |\n  1\t2":  `"n" false, "1\t2" true`,
		"n: >-\n  1\t2": `"n" false, "1\t2" true`,
		"n: |x":         mark,
		"n: >1x":        mark,

		"n: \"a\r\n  b\"\r\n":          `"n" false, "a b" true`,
		"n: 'a\r\n\r\n  b'\r\n":        `"n" false, "a\nb" true`,
		"n: |\r\n  a\r\n  b\r\n":       `"n" false, "a\nb\n" true`,
		"n: 1\r2":                      "could not find expected ':'",
		"n: &x 1\nm: *x\nk: &x 2":      twice,
		"m: *x\nn: &x 1":               early,
		"n: &x 1\nm: [*x, *x]":         `"n" false, "1" false, "m" false, "1" false, "1" false`,
		"n: [1e400, -0, 0x10, 010]":    `"n" false, "1e400" false, "-0" false, "0x10" false, "010" false`,
		"n: [1_000, +1, .5, 5.]":       `"n" false, "1_000" false, "+1" false, ".5" false, "5." false`,
		"n: [.inf, 12.5kB, 1:30, 1,5]": `"n" false, ".inf" false, "12.5kB" false, "1:30" false, "1" false, "5" false`,
		"n: a\x00b":                    "control characters are not allowed",
		"n: \xff":                      "the file is not UTF-8 text",
	} {
		if got := values(text); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// FuzzParse checks that no character of a plain value is lost, that line ends do not matter, and that faults have a
// position.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"n: 3\nm: [a, 'b c', \"d\\n\"]\n", "a: &x\n  b: |\n    t\nc: *x\n", "n: >-\n  a\n- 1",
		"? k\n: v # c", "n: a\n  b", "{a: 1, b: [2, {c: 3}]}", "a: \"x\\\n  y\""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ReplaceAll(text, "\r", "")
		r, root := Parse("f.yaml", []byte(text), "box", "n")
		plain := strings.Join(strings.Fields(text), " ")
		if root != nil {
			visit(r, root, 5, func(s Scalar) {
				if !s.Quoted && !strings.Contains(plain, strings.Join(strings.Fields(s.Text), " ")) {
					t.Errorf("%q has a value %q", text, s.Text)
				}
			})
		}
		for _, fault := range r.faults {
			if fault.Line < 1 || fault.Column < 1 || fault.Msg == "" {
				t.Errorf("%q: a fault without a place: %+v", text, fault)
			}
		}
		if one, two := values(text), values(strings.ReplaceAll(text, "\n", "\r\n")); one != two {
			t.Errorf("%q is read as %s, with other line ends as %s", text, one, two)
		}
	})
}
