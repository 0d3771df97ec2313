package chakra

import "testing"

// Any trace file is read or refused. One that passes the checks has communicator groups, or says why not.
func FuzzParse(f *testing.F) {
	f.Add(encoded(f, sample(f)))
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := Parse("t.0.et", 0, data)
		if err == nil && tr.Check(2) == nil {
			tr.Groups(2)
		}
	})
}
