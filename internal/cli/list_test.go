package cli

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/host/doctor"
)

// A binary without a loader names every library that backends open, MPI's too; those of benches declare themselves.
func TestLacking(t *testing.T) {
	text := lacking(doctor.Libraries())
	for _, want := range []string{"Open MPI", "MPICH", "NCCL", "NVIDIA driver"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not name %s", text, want)
		}
	}
}
