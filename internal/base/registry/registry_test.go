package registry

import (
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// colour is a value with a name, an alias and help.
type colour struct{ name, alias string }

func (c colour) entry() Entry {
	e := Entry{Name: c.name, Help: "the colour " + c.name}
	if c.alias != "" {
		e.Aliases = []string{c.alias}
	}
	return e
}

func TestRegistry(t *testing.T) {
	for _, c := range []struct {
		make func(string, func(colour) Entry) *Registry[colour]
		want []string
	}{
		{New[colour], []string{"blue", "green", "red"}},
		{NewOrdered[colour], []string{"red", "blue", "green"}},
	} {
		r := c.make("colour", colour.entry)
		for _, v := range []colour{{"red", ""}, {"blue", "azure"}, {"green", ""}} {
			r.Register(v)
		}
		if got := r.Names(); !slices.Equal(got, c.want) {
			t.Errorf("Names: %q, want %q", got, c.want)
		}
		if got := lists.Map(r.All(), func(v colour) string { return v.name }); !slices.Equal(got, c.want) {
			t.Errorf("All: %q, want %q", got, c.want)
		}
		short := r.NamesWhere(func(v colour) bool { return len(v.name) < 4 })
		if !slices.Equal(short, []string{"red"}) {
			t.Errorf("NamesWhere: %q", short)
		}
		for _, name := range []string{"blue", "azure"} {
			if v, err := r.Lookup(name); v.name != "blue" || err != nil {
				t.Errorf("Lookup(%q): %q, %v", name, v.name, err)
			}
		}
		_, err := r.Lookup("gren")
		if err == nil || !strings.Contains(err.Error(), `unknown colour "gren", did you mean "green"?`) {
			t.Errorf("Lookup of an unknown name: %v", err)
		}
		for _, bad := range []colour{{"", ""}, {"red", ""}, {"azure", ""}, {"cyan", "green"}} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%+v was registered", bad)
					}
				}()
				r.Register(bad)
			}()
		}
	}
}

// TestKinds finds a registry in the catalogue, with values registered after it was made.
func TestKinds(t *testing.T) {
	shades := New("shade", colour.entry)
	shades.Register(colour{"dark", ""})
	kind, ok := lists.First(Kinds(), func(k Kind) bool { return k.Noun == "shade" })
	if !ok {
		t.Fatal("the registry is not in the catalogue")
	}
	if got := kind.Entries(); len(got) != 1 || got[0].Name != "dark" || got[0].Help != "the colour dark" {
		t.Errorf("Entries: %+v", got)
	}
}
