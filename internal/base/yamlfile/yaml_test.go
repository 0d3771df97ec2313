package yamlfile

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestHostileFiles checks that files made to exhaust the parser are refused before it sees them.
func TestHostileFiles(t *testing.T) {
	const nested = "nested more than 64 deep"
	const long = "more than 30000 values"
	for name, c := range map[string]struct{ text, want string }{
		"brackets":  {strings.Repeat("[", 40_000), nested},
		"braces":    {strings.Repeat("{a: ", 40_000), nested},
		"dashes":    {strings.Repeat("- ", 40_000), nested},
		"questions": {strings.Repeat("? ", 40_000), nested},
		"lines":     {strings.Repeat("a: 1\n", 20_000), long},
		"anchors":   {strings.Repeat("&a ", 20_000), long},
	} {
		r, root := Parse("f.yaml", []byte(c.text), "box", "n")
		if err := r.Err(); root != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.200v, want %q", name, err, c.want)
		}
	}
}

// TestSlowFile checks that a text which takes the parser minutes is given up.
func TestSlowFile(t *testing.T) {
	defer func(before time.Duration) { parseTime = before }(parseTime)
	parseTime = time.Millisecond
	// The parser's time grows with the cube of the lines. The test does not wait for it: it is abandoned.
	r, root := Parse("f.yaml", []byte("a: >\n"+strings.Repeat(" \n", 5_000)), "box", "n")
	if err := r.Err(); root != nil || err == nil || !strings.Contains(err.Error(), "it took longer than 1ms to read") {
		t.Error(err)
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
		text string
		good bool
	}{
		"lists": {"a: &l " + values + "\n" + strings.Repeat("b: *l\n", 50), true},
		"many":  {"a: &l " + values + "\n" + strings.Repeat("b: *l\n", 1000), false},
		"laugh": {laugh, false},
		"self":  {"a: &a [*a, *a]\nb: &b {c: *b, d: *a}\n", true},
	} {
		r, root := Parse("f.yaml", []byte(c.text), "box", "n")
		if err := r.Err(); (root != nil) != c.good || !c.good && !strings.Contains(err.Error(), "more than 100000 values") {
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
