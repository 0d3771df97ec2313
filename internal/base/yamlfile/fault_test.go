package yamlfile

import "testing"

// TestExcerptKeepsTabs checks that the caret stands under its column at any tab width.
func TestExcerptKeepsTabs(t *testing.T) {
	s := newSource("s.yaml", []byte("a:\tb\n"))
	if got, want := s.excerpt(1, 4), "  1 | a:\tb\n    |   \t^"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
