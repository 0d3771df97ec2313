package tuning

import "testing"

// A choice that is read has a name that gives the same choice, and no negative numbers.
func FuzzParseChoice(f *testing.F) {
	for _, name := range []string{"steps:ring@64Ki#4", "ring@1.5K", "x#+3", "x@0x10", "x#1_0", "@1", "steps:steps:"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		c, err := ParseChoice(name)
		if err != nil {
			return
		}
		if again, err := ParseChoice(c.String()); err != nil || again != c || c.ChunkBytes < 0 || c.Blocks < 0 {
			t.Errorf("%q is %+v, written as %q, and read as %+v, %v", name, c, c, again, err)
		}
	})
}
