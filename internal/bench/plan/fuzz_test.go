package plan

import "testing"

// A noise that is read is a share of the median.
func FuzzParseNoise(f *testing.F) {
	for _, text := range []string{"1%", "0.01", "100%", "NaN", "inf%", "-0", "1e-400", "0x1p-4", " 5 %", "1,5%", "5 %%"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := ParseNoise(text); err == nil && !(v >= 0 && v < 1) {
			t.Errorf("%q is %v", text, v)
		}
	})
}
