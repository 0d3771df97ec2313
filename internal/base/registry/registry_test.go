package registry

import (
	"slices"
	"strings"
	"testing"
)

func TestRegistry(t *testing.T) {
	r := New("colour", func(s string) string { return s })
	for _, name := range []string{"red", "blue", "green"} {
		r.Register(name)
	}
	if got := r.All(); !slices.Equal(got, []string{"blue", "green", "red"}) {
		t.Errorf("All: %q", got)
	}
	if got := r.Names(func(s string) bool { return len(s) > 3 }); !slices.Equal(got, []string{"blue", "green"}) {
		t.Errorf("Names: %q", got)
	}
	if v, err := r.Lookup("green"); v != "green" || err != nil {
		t.Errorf("Lookup: %q, %v", v, err)
	}
	if _, err := r.Lookup("gren"); err == nil ||
		!strings.Contains(err.Error(), `unknown colour "gren", did you mean "green"?`) {
		t.Errorf("an unknown name: %v", err)
	}
	for _, bad := range []string{"", "red"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was registered", bad)
				}
			}()
			r.Register(bad)
		}()
	}
}
