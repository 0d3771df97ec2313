package yamlfile

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestHostileFiles checks that files made to exhaust the parser are read or refused in a short time.
func TestHostileFiles(t *testing.T) {
	for name, text := range map[string]string{
		"brackets":  strings.Repeat("[", 1_000_000),
		"braces":    strings.Repeat("{a: ", 250_000),
		"dashes":    strings.Repeat("- ", 500_000),
		"questions": strings.Repeat("? ", 500_000),
		"lines":     strings.Repeat("a: 1\n", 200_000),
		"anchors":   strings.Repeat("&a ", 300_000),
		"blanks":    "a: >\n" + strings.Repeat(" \n", 500_000),
	} {
		began := time.Now()
		r, root := Parse("f.yaml", []byte(text), "box", "n")
		if err := r.Err(); (root == nil) != (err != nil) {
			t.Errorf("%s: %.200v", name, err)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("%s takes %v", name, took)
		}
	}
}

// TestLongFile checks that a network of some thousand edges is read.
func TestLongFile(t *testing.T) {
	text := "edges:\n" + strings.Repeat("- {from: 17, to: 4711, bandwidth_gbs: 50, latency_ns: 500}\n", 10_000)
	r, root := Parse("f.yaml", []byte(text), "network", "edges")
	if root == nil {
		t.Fatal(r.Err())
	}
	values, _ := r.Fields(root, "the network", "edges")
	if edges, _ := r.List(values["edges"], "edges"); len(edges) != 10_000 {
		t.Errorf("%d edges", len(edges))
	}
}

// TestAliases checks that aliases are counted as what they stand for, also if an anchor contains itself.
func TestAliases(t *testing.T) {
	values := "[" + strings.Repeat("1, ", 1000) + "2]"
	laugh := "a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]\n"
	for c := 'b'; c < 'k'; c++ {
		laugh += fmt.Sprintf("%c: &%[1]c [%s]\n", c, strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9))
	}
	for name, c := range map[string]struct {
		text, want string
	}{
		"lists": {"a: &l " + values + "\n" + strings.Repeat("b: *l\n", 50), ""},
		"many":  {"a: &l " + values + "\n" + strings.Repeat("b: *l\n", 1000), "more than 100000 values"},
		"laugh": {laugh, "more than 100000 values"},
		"self":  {"a: &a [*a, *a]\nb: &b {c: *b, d: *a}\n", "the anchor &b contains itself"},
	} {
		r, root := Parse("f.yaml", []byte(c.text), "box", "n")
		if err := r.Err(); (root != nil) != (c.want == "") || root == nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDeepButFine checks that ordinary nesting and closed brackets do not count towards the limit.
func TestDeepButFine(t *testing.T) {
	text := "\uFEFFn: [" + strings.Repeat("[1], ", 1000) + "[2]]\nm:\n" + strings.Repeat("  - [x]\n", 1000)
	if r, root := Parse("f.yaml", []byte(text), "box", "n"); root == nil {
		t.Error(r.Err())
	}
}
