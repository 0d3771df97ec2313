package allreduceeval

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The matrix passes in device memory, on a fake GPU driver. Faults around the call and in the kernels
// are detected, and the rows record that the ranks share a GPU.
func TestDeviceMemory(t *testing.T) {
	cudatest.Library(t, cuda.LibraryVariable, cuda.ManagementVariable)
	const backend = "cuda"
	for i, c := range []struct {
		part, fault string
		axes        []plan.Assign
	}{
		{matrix.Correctness, matrix.NoFault,
			assigns("dtype=bf16", "algorithm=auto,two-stage-push", "sizes=small", "num_ranks=2")},
		{matrix.Correctness, skippedTail,
			assigns("dtype=f32", "algorithm=one-stage", "inplace=false", "epilogue=false", "sizes=small", "num_ranks=2")},
		{matrix.Correctness, staleBuffer,
			assigns("dtype=f32", "algorithm=one-stage", "inplace=true", "epilogue=false", "sizes=small", "num_ranks=2")},
		{matrix.Correctness, matrix.NoFault,
			assigns("dtype=f16", "algorithm=quickreduce,quickreduce-int6,quickreduce-int4", "sizes=small", "num_ranks=2")},
		{matrix.Correctness, kernelPrefix + instrument.DroppedBarrier,
			assigns("dtype=f32", "algorithm=two-stage-push", "inplace=false", "epilogue=false", "sizes=small", "num_ranks=2")},
		{matrix.Correctness, kernelPrefix + instrument.SkippedTail,
			assigns("dtype=f32", "algorithm=quickreduce-int4", "inplace=false", "epilogue=false", "sizes=small", "num_ranks=2")},
		{matrix.Correctness, kernelPrefix + instrument.WrongSlot,
			assigns("dtype=f32", "algorithm=lamport", "inplace=true", "epilogue=true", "sizes=small", "num_ranks=2")},
		{matrix.Correctness, kernelPrefix + instrument.DroppedBarrier,
			assigns("dtype=f32", "algorithm=naive", "inplace=false", "epilogue=false", "sizes=small", "num_ranks=2")},
		{matrix.Correctness, matrix.NoFault,
			assigns("dtype=f32", "algorithm=multimem", "inplace=false", "epilogue=false", "sizes=small", "num_ranks=2")},
		{matrix.Performance, matrix.NoFault, assigns("dtype=bf16", "algorithm=lamport", "size=8Ki", "num_ranks=2")},
		{matrix.Performance, matrix.NoFault, assigns("dtype=bf16", "algorithm=lamport", "size=2Mi", "num_ranks=2")},
	} {
		if testing.Short() && i > 0 {
			break // the first case covers the host code; the others differ in their kernels
		}
		p := must.Get(plan.Make(Bench(),
			plan.Request{Backend: backend, Axes: c.axes, Seed: 1, Only: []string{`part == "` + c.part + `"`},
				Options: assigns("mutate=" + c.fault)}))(t)
		for _, g := range p.Groups {
			for _, task := range g.Tasks {
				for rank, o := range performOn(t, backend, c.part, task, p.Options) {
					want := journal.OK
					switch algorithm := task.Point.At("algorithm").String(); {
					case strings.Contains(task.Point.String(), "size=2Mi"):
						if o.Status != journal.Skipped || !strings.Contains(o.Reason, "made for calls of up to 1Mi") {
							t.Fatalf("lamport beyond its range: %s %s", o.Status, o.Reason)
						}
						continue
					// naive has no barrier to drop, and the fake GPU has no multicast memory
					case c.fault == kernelPrefix+instrument.DroppedBarrier && algorithm == "naive", algorithm == "multimem":
						want = journal.NotExecuted
					case c.fault != matrix.NoFault:
						want = journal.Failed
					}
					checkShared(t, want, o)
					if t.Failed() {
						t.Fatalf("%s, %s, rank %d: %s %s", c.part, task.Point, rank, o.Status, o.Reason)
					}
				}
			}
		}
	}
}

func checkShared(t *testing.T, want journal.Status, o decl.Outcome) {
	t.Helper()
	if o.Status != want || o.Details[journal.SharingDetail] != "2" {
		t.Errorf("%s, want %s: %v", o.Status, want, o.Details)
	}
}
