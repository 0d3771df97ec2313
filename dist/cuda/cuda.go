// Package cuda is the dist backend for NVIDIA GPUs. It needs the driver and
// nothing else: its kernels are compiled by the driver when a group first uses
// them. Importing it enables the backend "cuda".
//
// A rank is a process, and all ranks are on one host. Rank r has GPU r modulo the
// number of GPUs. Ranks that share a GPU do so through MPS, for which a private
// daemon is started and ended again: otherwise their kernels take turns, and a
// barrier between two of them takes milliseconds instead of a microsecond. Without
// MPS such a group is refused, unless KERNBENCH_CUDA_TAKE_TURNS is set.
//
// Alloc gives device memory that all ranks of the group reach, by handles that the
// driver passes between processes. The host cannot reach it: see dist.Buffer's
// Mirror and Update. Calls on the program's own memory work too; they are copied to
// the device and back, in pieces if need be. All ranks of a call use the same kind
// of memory.
//
// # Algorithms
//
// All but naive add up in rank order, in float32 (float64 for f64), and round once,
// so all ranks get the same bits, and those of the other backends' one-stage and
// two-stage.
//
//   - one-stage: every rank reads all inputs.
//   - two-stage: every rank sums its part, then fetches the others.
//   - two-stage-push: every rank sums its part and stores it into everyone's output.
//   - lamport: the elements are their own flags; more than 256 KiB go in pieces. A sum
//     of negative zeros is a positive zero.
//   - naive: every rank copies all inputs to itself and adds them up there, rounding
//     at every step.
//
// Bias and residual of an epilogue are each rank's own, so with one of them both
// two-stage algorithms are done as one-stage.
//
// # Mistakes
//
// Before a kernel is started the ranks agree on the call through shared memory, so a
// mistake is found beforehand and is the error that package dist promises, on
// every rank. A kernel that waits for a rank longer than Config.Timeout gives up by
// itself and says which block of which rank waited for whom.
package cuda

import (
	"context"
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
)

// Name is the backend's name.
const Name = "cuda"

const (
	oneStage = "one-stage"
	twoStage = "two-stage"
	push     = "two-stage-push"
	lamport  = "lamport"
	naive    = "naive"
)

func init() {
	schedule.Register(schedule.Algorithm{Info: schedule.Info{Collective: schedule.AllReduce, Name: push, Short: "push",
		Help:  "every rank adds its part from all inputs and stores it into everyone's output",
		Order: schedule.RankOrder, Wide: true,
		Hardware: "memory of others that a rank can store into, as GPUs have it",
		Traffic:  func(ranks int, bytes float64) float64 { return 2 * float64(ranks-1) / float64(ranks) * bytes }}})
	dist.Register(dist.Description{
		Name: Name, Help: "NVIDIA GPUs, by kernels of kernbench's own: one GPU per rank, or shared through MPS",
		Capabilities: capabilities,
		DeviceMemory: true,
	}, backend{})
}

func capabilities() dist.Capabilities {
	return dist.Capabilities{
		Ops:        []dist.Collective{dist.AllReduce, dist.ReduceScatter, dist.AllGather, dist.Broadcast, dist.AllToAll, dist.Barrier},
		DTypes:     gpu.DTypes(),
		Reductions: []dist.Reduction{dist.Sum, dist.Avg},
		Algorithms: map[dist.Collective][]string{dist.AllReduce: {oneStage, twoStage, push, lamport, naive}},
		Symmetric:  true, Epilogue: true, WideEpilogue: true, ScheduleOrder: true,
	}
}

type backend struct{}

// Join meets the other ranks on this host and opens this rank's GPU.
func (backend) Join(ctx context.Context, c dist.Config) (dist.Engine, error) {
	if c.Size > gpu.MaxRanks {
		return nil, fmt.Errorf("%d ranks: the kernels serve at most %d", c.Size, gpu.MaxRanks)
	}
	agreement, err := shm.MeetToAgree(ctx, shm.Identity{ID: c.ID + "/" + Name, Secret: c.Secret, Rank: c.Rank, Size: c.Size, Timeout: c.Timeout})
	if err != nil {
		return nil, outward(err)
	}
	e := &engine{rank: c.Rank, size: c.Size, timeout: c.Timeout, agreement: agreement}
	if err := e.open(); err != nil {
		agreement.Refuse(fmt.Sprintf("rank %d: %v", c.Rank, err))
		e.Close()
		return nil, err
	}
	return e, nil
}

// End ends the MPS daemon, if this process has started one.
func (backend) End() error { return thisProcess.end() }
