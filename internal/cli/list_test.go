package cli

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/host/doctor"
)

// TestLacking checks that a binary without a loader names all libraries of backends. MPI libraries
// are not registered, but listed too.
func TestLacking(t *testing.T) {
	text := missingLibraries(doctor.Libraries())
	for _, want := range []string{"Open MPI", "MPICH", "NCCL", "NVIDIA driver"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not name %s", text, want)
		}
	}
}
