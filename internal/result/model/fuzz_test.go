package model

import "testing"

// The rates that are read are finite and above 0.
func FuzzCeilings(f *testing.F) {
	for _, text := range []string{"nvlink-h100", "450 GB/s, pcie4-x16 raw", "1e400", "NaN", "-0", "0x10", "450 MB/s",
		"1,5"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := Ceilings(text)
		for _, c := range list {
			if err == nil && !(c.GBs > 0 && c.GBs <= 1e9 && c.Name != "") {
				t.Errorf("%q gives %+v", text, c)
			}
		}
	})
}
