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
// Groups that Split makes have the GPUs and the memory of the group they come from, and
// memory of their own for their calls. A rank that is in several groups makes calls in
// one at a time: kernels of two may not run at once.
//
// Alloc gives device memory that all ranks of the group reach, by handles that the
// driver passes between processes. The host cannot reach it: see dist.Buffer's
// Mirror and Update. Calls on the program's own memory work too; they are copied to
// the device and back, in pieces if need be. All ranks of a call use the same kind
// of memory.
//
// # Algorithms
//
// All but naive and multimem add up in rank order, in float32 (float64 for f64), and round once,
// so all ranks get the same bits, and those of the other backends' one-stage and
// two-stage.
//
//   - one-stage: every rank reads all inputs.
//   - two-stage: every rank sums its part, then fetches the others.
//   - two-stage-push: every rank sums its part and stores it into everyone's output.
//   - lamport: every rank stores its elements at all others, each word with a flag. It is for small
//     calls: more than 1 MiB goes in pieces, each a launch.
//   - multimem: the switch between the GPUs adds, in an order of its own, where every rank has
//     a GPU with multicast memory. An average is divided after the sum was rounded.
//   - naive: every rank copies all inputs to itself and adds them up there, rounding
//     at every step.
//   - the codecs int8, int6 and int4 (quickreduce): every rank encodes its input and stores
//     each part at its owner, who adds up and stores the encoded sum at all. The bits are
//     those of the other backends. Other codecs are code of the program, which no GPU runs.
//
// Bias and residual of an epilogue are each rank's own, so with one of them both
// two-stage algorithms and multimem are done as one-stage; with another epilogue multimem is
// done as two-stage-push.
//
// # Messages
//
// A Send and its Recv in device memory are one copy, which the receiver starts once the
// sender has said, in shared memory of the host, where the elements are; the sender returns
// when the receiver has them. So two ranks that both Send first wait for each other,
// whatever the length: start one of the two. Up to 64 KiB a single block copies and raises a
// flag that the host sees; beyond, the copy engine does it. No kernel waits for a rank.
// Messages in the program's own memory go through the host and never see the GPU. Both ends
// have the same kind of memory.
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
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/mps"
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
	multimem = "multimem"
)

func init() {
	schedule.Register(schedule.Algorithm{Info: schedule.Info{Collective: schedule.AllReduce, Name: push, Short: "push",
		Help:  "every rank adds its part from all inputs and stores it into everyone's output",
		Order: schedule.RankOrder, Wide: true,
		Hardware: "memory of others that a rank can store into, as GPUs have it",
		Traffic:  func(ranks int, bytes float64) float64 { return 2 * float64(ranks-1) / float64(ranks) * bytes }}})
	dist.Register(dist.Description{
		Name: Name, Help: "NVIDIA GPUs, by kernels of kernbench's own: one GPU per rank, or shared through MPS",
		Capabilities: capabilities(),
		Hints: hints.Hints{
			NoShrink: "kernels may still wait for a rank that is gone, in memory that went with it; start the ranks anew",
			Knobs:    declaredKnobs,
		},
	}, backend{})
}

func capabilities() dist.Capabilities {
	return dist.Capabilities{
		Ops: []dist.Collective{dist.AllReduce, dist.ReduceScatter, dist.AllGather, dist.Broadcast, dist.Reduce, dist.Gather,
			dist.Scatter,
			dist.AllToAll, dist.Barrier, dist.Send, dist.Recv},
		DTypes:     gpu.DTypes(),
		Reductions: []dist.Reduction{dist.Sum, dist.Avg},
		Algorithms: map[dist.Collective][]string{dist.AllReduce: {oneStage, twoStage, push, lamport, naive, multimem}},
		Codecs:     codecs(),
		Features: []dist.Feature{dist.SymmetricMemory, dist.OnDevice, dist.UnevenBlocks, dist.ThreadBlocks,
			dist.FusedEpilogue, dist.FusedNorm, dist.WideEpilogue, dist.ScheduleOrder},
	}
}

type backend struct{}

// Join meets the other ranks on this host and opens this rank's GPU.
func (backend) Join(ctx context.Context, c dist.Config) (dist.Engine, error) {
	if c.Size > gpu.MaxRanks {
		return nil, fmt.Errorf("%d ranks: the kernels serve at most %d", c.Size, gpu.MaxRanks)
	}
	// What is missing here is missing for all, who need not meet to learn it. But where
	// there may be a GPU to share, the driver must not be opened before MPS is there.
	if cuda.Count(os.LookupEnv) == 0 {
		if _, err := cuda.Open(); err != nil {
			return nil, lacking(err)
		}
	}
	a, err := shm.JoinCallChecker(ctx, shm.Identity{
		ID: c.ID + "/" + Name, Secret: c.Secret, Rank: c.Rank, Size: c.Size, Timeout: c.Timeout})
	if err != nil {
		return nil, err
	}
	e := newEngine(a, c.Timeout, knobsOf(c.Knobs))
	return e.joined(e.open())
}

// lacking tells a machine without a GPU from a driver that does not work.
func lacking(err error) error {
	if cuda.Code(err) == cuda.CodeNoDevice {
		return &dist.UnavailableError{Err: err}
	}
	return err
}

// End ends the MPS daemon, if this process has started one.
func (backend) End() error { return thisProcess.end() }

// Sweep ends the MPS daemons of processes that could not do so themselves.
func (backend) Sweep() error { return mps.Sweep() }

const (
	ranksAsKnob = "ranks_as"
	asProcesses = "processes"
	asBlocks    = "blocks"

	blocksKnob = "blocks"
	auto       = "auto"

	scopeKnob   = "scope"
	systemScope = "system"
	deviceScope = "device"

	copyKnob = "copy"
	byEngine = "engine"
	byLoads  = "loads"
	byBulk   = "bulk"
)

var declaredKnobs = []hints.Knob{
	{Name: ranksAsKnob, Default: asProcesses, Values: []string{asProcesses, asBlocks},
		Help: "who does a rank's part of a call: its own process, or blocks of one kernel that rank 0 starts for all, " +
			"which is the limit",
		Retune: true},
	{Name: blocksKnob, Default: auto, Check: checkBlocks,
		Help: "blocks of each rank: auto, or a number of at most as many as the GPU runs at once"},
	{Name: scopeKnob, Default: auto, Values: []string{auto, systemScope, deviceScope},
		Help: "how far the flags of a barrier reach: the system, or the one GPU on which all ranks are"},
	{Name: copyKnob, Default: auto, Values: []string{auto, byEngine, byLoads, byBulk},
		Help: "how elements are copied where an algorithm or a message copies them: by the copy engine, by loads and " +
			"stores of a kernel, or by bulk copies of one"},
}

func checkBlocks(value string) error {
	if n, err := strconv.Atoi(value); err != nil || n < 1 || n > maxBlocks {
		return fmt.Errorf("want %s or a number from 1 to %d", auto, maxBlocks)
	}
	return nil
}

// knobs are what the group was told of how to work.
type knobs struct {
	asBlocks bool
	blocks   int // of each rank; 0: as many as fit the call
	scope    string
	copy     string // "": as it is fastest
}

func knobsOf(values map[string]string) knobs {
	n, _ := strconv.Atoi(values[blocksKnob]) // auto is 0; others were checked
	return knobs{asBlocks: values[ranksAsKnob] == asBlocks, blocks: n, scope: values[scopeKnob],
		copy: strings.TrimPrefix(values[copyKnob], auto)}
}

// capabilities leaves out what one kernel cannot do for all ranks: what each does by
// itself.
func (k knobs) capabilities(c dist.Capabilities) dist.Capabilities {
	if k.copy != "" {
		return k.copying(c)
	}
	if !k.asBlocks {
		return c
	}
	c.Ops = []dist.Collective{dist.AllReduce, dist.Barrier}
	c.Algorithms = maps.Clone(c.Algorithms)
	c.Algorithms[dist.AllReduce] = slices.DeleteFunc(slices.Clone(c.Algorithms[dist.AllReduce]), func(name string) bool {
		return ways[name].own
	})
	// Bias and residual belong to each rank, and one kernel works for all.
	c.Features = slices.DeleteFunc(slices.Clone(c.Features), func(f dist.Feature) bool { return f == dist.FusedEpilogue })
	c.Codecs = nil
	return c
}

// copying leaves the algorithms that copy: the others do not depend on how.
func (k knobs) copying(c dist.Capabilities) dist.Capabilities {
	c.Algorithms, c.Missing = maps.Clone(c.Algorithms), maps.Clone(c.Missing)
	all := c.Algorithms[dist.AllReduce]
	c.Algorithms[dist.AllReduce] = nil
	for _, name := range all {
		if ways[name].own {
			c.Algorithms[dist.AllReduce] = append(c.Algorithms[dist.AllReduce], name)
		} else {
			c.Missing[name] = fmt.Sprintf("%s=%s: its kernel adds up what it loads and copies nothing", copyKnob, k.copy)
		}
	}
	c.Codecs = nil
	return c
}

// unable is why this rank's GPU cannot work as the knobs say.
func (e *engine) unable() error {
	switch {
	case e.knobs.copy == "":
		return nil
	case e.knobs.asBlocks:
		return fmt.Errorf("%s=%s: ranks that are blocks of one kernel copy nothing", copyKnob, e.knobs.copy)
	case e.knobs.copy != byBulk:
		return nil
	}
	major, err := e.device.Device().Get(cuda.ComputeMajor)
	if err == nil && major < gpu.BulkMajor {
		err = fmt.Errorf("%s=%s: GPU %d (%s) has compute capability %d, and bulk copies came with %d.0", copyKnob, byBulk,
			e.device.ordinal, e.device.Device().Name, major, gpu.BulkMajor)
	}
	return err
}

// near tells whether flags need to reach no further than this GPU. By itself that is
// taken for granted only among blocks of one kernel, of which CUDA promises it.
func (e *engine) near() bool {
	return e.knobs.scope == deviceScope || e.knobs.asBlocks && e.knobs.scope != systemScope
}

// misfit is what the knobs want of ranks that have several GPUs.
func (e *engine) misfit() error {
	switch {
	case e.sharing == e.size:
		return nil
	case e.knobs.asBlocks:
		return fmt.Errorf("%s=%s: all ranks must be on one GPU, and %d of %d are", ranksAsKnob, asBlocks, e.sharing, e.size)
	case e.knobs.scope == deviceScope:
		return fmt.Errorf("%s=%s: all ranks must be on one GPU, and %d of %d are", scopeKnob, deviceScope, e.sharing, e.size)
	}
	return nil
}

// launches tells whether this rank starts kernels.
func (e *engine) launches() bool { return !e.knobs.asBlocks || e.rank == 0 }

// lead makes a launch that of all ranks, where they are blocks of one.
func (c *call) lead(blocks int) (grid int, cooperative bool) {
	if !c.e.knobs.asBlocks {
		return blocks, false
	}
	c.params.Rank = gpu.RanksAsBlocks
	return blocks * c.e.size, true
}

var ofRank0 = shm.NewLabel("a kernel of rank 0 for all ranks")

// ended waits for the end of a launch, be it this rank's or that of rank 0.
func (c *call) ended() error {
	if c.e.launches() {
		if err := c.wait(); err != nil {
			return err
		}
	}
	if c.e.knobs.asBlocks {
		return c.e.agreement.Check(ofRank0)
	}
	return nil
}
