package yamlfile

import (
	"strings"
	"testing"
)

func TestFixed(t *testing.T) {
	for _, c := range []struct {
		text   string
		digits int
		want   int64
		ok     bool
	}{
		{"0", 0, 0, true}, {"12", 0, 12, true}, {"12", 3, 12000, true}, {"-1.5", 2, -150, true}, {"0.125", 3, 125, true},
		{"0.1255", 3, 0, false}, {"1.", 2, 0, false}, {".5", 2, 0, false}, {"1e3", 3, 0, false}, {"0x10", 0, 0, false},
		{"1_000", 0, 0, false}, {"--1", 0, 0, false}, {"+1", 0, 0, false}, {"", 0, 0, false},
		{"99999999999999999999", 0, 0, false}, {"1.5", 0, 0, false},
	} {
		if got, ok := fixed(c.text, c.digits); got != c.want || ok != c.ok {
			t.Errorf("fixed(%q, %d) = %d, %v; want %d, %v", c.text, c.digits, got, ok, c.want, c.ok)
		}
	}
}

// TestStruct checks each kind of fault and its position.
func TestStruct(t *testing.T) {
	read := func(text string) (n int, err error) {
		r, root := Parse("f.yaml", []byte(text), "box", "n")
		if root == nil {
			return 0, r.Err()
		}
		r.Struct(root, "the box",
			Field{Key: "n", Read: func(v Node, what string) { n, _ = r.Int(v, what, 1, 9) }},
			Field{Key: "flag", Optional: true, Read: func(v Node, what string) { r.Word(v, what, "boolean", "true", "false") }},
			Field{Key: "in", Optional: true, Read: func(v Node, what string) {
				r.Struct(v, what, Field{Key: "x", Read: func(v Node, what string) { r.Decimal(v, what, 2, 0, 1000) }})
			}})
		return n, r.Err()
	}
	if n, err := read("n: 3\nflag: true\nin: {x: 1.25}\n"); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for text, want := range map[string]string{
		"":                     "f.yaml:1:1: the file is empty: a box has at least n",
		"flag: true\n":         `f.yaml:1:1: the box: the key "n" is missing`,
		"n: 3\nm: 4\n":         `f.yaml:2:1: the box: unknown key "m"`,
		"n: 3\nn: 4\n":         `f.yaml:2:1: the box: duplicate key "n"`,
		"n: 10\n":              `f.yaml:1:4: n: want a whole number from 1 to 9, have "10"`,
		"n: \"3\"\n":           `f.yaml:1:4: n: want a whole number from 1 to 9, have "3"`,
		"n: [3]\n":             `f.yaml:1:4: n: want a single value, have a list`,
		"n: 3\nflag: maybe\n":  `f.yaml:2:7: flag: unknown boolean "maybe"`,
		"n: 3\nin: {x: 1.255}": `f.yaml:2:9: in.x: want a number with at most 2 decimals from 0 to 10, have "1.255"`,
		"n: 3\nin: {}\n":       `f.yaml:2:5: in: the key "x" is missing`,
		"n: 3\nin: 4\n":        `f.yaml:2:5: in: want a mapping of names to values, have "4"`,
		"[n, 3]\n":             `f.yaml:1:1: the box: want a mapping`,
		"n: 3\n---\nn: 4\n":    `f.yaml:3:1: a second document: one file holds one box`,
		"n: {{\n":              "f.yaml:1:6: did not find expected node content",
		"n: 3\nflag: 'x\n":     "f.yaml:2:9: found unexpected end of stream",
		"n: 3\nm: a: b\n":      "f.yaml:2:8: mapping values are not allowed in this context",
	} {
		if _, err := read(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q gives %v, want %s", text, err, want)
		}
	}
}
