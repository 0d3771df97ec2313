package connection

import "testing"

// A range of ports that is read has enough ports and reads back.
func FuzzParsePortRange(f *testing.F) {
	for _, text := range []string{"29500-29599", "1-65535", "1-65536", "0x10-100", "-5-20", "30-10", "1_000-2_000", "1-"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePortRange(text)
		if err != nil || text == "" {
			return
		}
		if again, err := ParsePortRange(p.String()); err != nil || again != p || p.First < 1 || p.Last > 65535 ||
			p.Last-p.First+1 < minPorts {
			t.Errorf("%q is %v, which is read as %v, %v", text, p, again, err)
		}
	})
}
