package journal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInputsChanged(t *testing.T) {
	a := Inputs{"command": "1", "file x": "2", "unit lat": "us"}
	b := Inputs{"command": "1", "file x": "3", "variable OMP_NUM_THREADS": "7"}
	if d := cmp.Diff([]string{"file x", "unit lat", "variable OMP_NUM_THREADS"}, a.Changed(b)); d != "" {
		t.Error(d)
	}
	if a.Fingerprint() == b.Fingerprint() || Inputs(nil).Fingerprint() != "" || (Inputs{}).Fingerprint() == "" {
		t.Error("fingerprints of different inputs are equal, or of equal ones different")
	}
}
