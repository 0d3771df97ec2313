package allreduceeval

import (
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The matrix in memory that the host cannot reach, on a stand-in for the GPU's driver:
// right results pass, faults that are planted turn red, and the rows say that the ranks
// shared a GPU.
func TestDeviceMemory(t *testing.T) {
	lib, err := cudatest.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(cuda.LibraryVariable, lib)
	t.Setenv(cuda.ManagementVariable, lib)
	const backend = "cuda"
	for _, c := range []struct {
		part, fault string
		axes        []plan.Assign
	}{
		{matrix.Correctness, matrix.NoFault, assigns("dtype=bf16", "algorithm=auto,two-stage-push", "sizes=small", "num_ranks=2")},
		{matrix.Correctness, skippedTail, assigns("dtype=f32", "algorithm=one-stage", "inplace=false", "epilogue=false", "sizes=small", "num_ranks=2")},
		{matrix.Correctness, staleBuffer, assigns("dtype=f32", "algorithm=one-stage", "inplace=true", "epilogue=false", "sizes=small", "num_ranks=2")},
		{matrix.Performance, matrix.NoFault, assigns("dtype=bf16", "algorithm=lamport", "size=8Ki", "num_ranks=2")},
	} {
		p, err := plan.Make(Bench(), plan.Request{Backend: backend, Axes: c.axes, Seed: 1, Only: []string{`part == "` + c.part + `"`},
			Options: assigns("mutate=" + c.fault)})
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range p.Groups {
			for _, task := range g.Tasks {
				for rank, o := range performOn(t, backend, c.part, task, p.Options) {
					checkShared(t, c.fault, o)
					if t.Failed() {
						t.Fatalf("%s, %s, rank %d: %s %s", c.part, task.Point, rank, o.Status, o.Reason)
					}
				}
			}
		}
	}
}

func checkShared(t *testing.T, fault string, o bench.Outcome) {
	t.Helper()
	want := journal.OK
	if fault != matrix.NoFault {
		want = journal.Failed
	}
	if o.Status != want || o.Details[journal.SharingDetail] != "2" {
		t.Errorf("fault %s: %s, %v", fault, o.Status, o.Details)
	}
}
