package yamlfile

import (
	"strings"
	"testing"
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

// TestDeepButFine checks that ordinary nesting and closed brackets do not count towards the limit.
func TestDeepButFine(t *testing.T) {
	text := "\uFEFFn: [" + strings.Repeat("[1], ", 1000) + "[2]]\nm:\n" + strings.Repeat("  - [x]\n", 1000)
	if r, root := Parse("f.yaml", []byte(text), "box", "n"); root == nil {
		t.Error(r.Err())
	}
}
