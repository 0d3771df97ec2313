// Package cuda is the dist backend for NVIDIA GPUs. It needs only the driver, which compiles the kernels
// when a group first uses them. Importing the package enables the backend "cuda".
//
// A rank is a process, and all ranks are on one host. Rank r uses GPU r modulo the number of GPUs. Ranks
// that share a GPU do so through MPS, NVIDIA's Multi-Process Service. The backend starts a private MPS
// daemon for them and stops it in the end. Without MPS, kernels of different processes take turns, and a
// barrier between them takes milliseconds instead of a microsecond. Groups that share a GPU without MPS
// are therefore refused, unless KERNBENCH_CUDA_TAKE_TURNS is set.
//
// Groups made by Split use the GPUs of their parent group. They can work on its memory, and allocate
// their own flags and scratch memory. A rank that belongs to several groups may use only one of them at
// a time, because their kernels may not be resident together.
//
// Alloc returns device memory that all ranks of the group can access, through handles that the driver
// passes between processes. The host cannot access it: see Mirror and Update of dist.Buffer. Calls on
// host memory work too; the data is copied to the device and back, in pieces if it is long. All ranks of
// a call must use the same kind of memory.
//
// # Algorithms
//
// All algorithms except naive and multimem add in rank order, in float32 (float64 for f64), and round
// once. So all ranks get the same bits, and the same as one-stage and two-stage of the other backends.
//
//   - one-stage: every rank reads all inputs.
//   - two-stage: every rank sums its part, then reads the other parts.
//   - two-stage-push: every rank sums its part and stores it into everyone's output.
//   - lamport: every rank stores its elements at all other ranks, each word with a flag. It suits small
//     calls: more than 1 MiB is sent in pieces, with a launch for each.
//   - multimem: the switch between the GPUs adds, in its own order. It needs a GPU with multicast memory
//     for every rank. An average is divided after the sum was rounded.
//   - naive: every rank copies all inputs to its own memory and adds them there, rounding at every step.
//   - the codecs int8, int6 and int4 (quickreduce): every rank encodes its input and stores each part at
//     its owner, which adds the parts and stores the encoded sum at all ranks. The result has the same
//     bits as on the other backends. Codecs defined by the program cannot run on a GPU.
//
// The bias and the residual of an epilogue may differ between ranks. With either of them, one-stage
// replaces two-stage, two-stage-push and multimem. With other epilogues, two-stage-push replaces
// multimem.
//
// # Messages
//
// A Send and its Recv in device memory are one copy. The sender publishes the address of its elements in
// shared memory of the host, the receiver starts the copy, and the sender returns when the copy is done.
// So if two ranks both Send first, they wait for each other, whatever the length: start one of the two
// asynchronously. Up to 64 KiB, a single block copies and raises a flag that the host polls; longer
// messages use the copy engine. No kernel waits for another rank. Messages in host memory go through
// shared memory of the host, not through the GPU. Sender and receiver must use the same kind of memory.
//
// # Mistakes
//
// Before a kernel is launched, the ranks agree on the call through shared memory. A mistake is therefore
// found beforehand, and every rank gets the error that package dist promises. A kernel that waits for a
// rank longer than Config.Timeout gives up, and the error says which block of which rank waited for
// whom.
package cuda

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/dist/devicegroup"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/mps"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
)

// Name is the backend's name.
const Name = "cuda"

const (
	oneStage     = "one-stage"
	twoStage     = "two-stage"
	twoStagePush = "two-stage-push"
	lamport      = "lamport"
	naive        = "naive"
	multimem     = "multimem"
)

func init() {
	schedule.Register(schedule.Algorithm{Info: schedule.Info{
		Collective: schedule.AllReduce, Name: twoStagePush, Short: "push",
		Help:  "every rank sums its part of all inputs and stores it into everyone's output",
		Order: schedule.RankOrder, Wide: true,
		Hardware: "ranks that can store into each other's memory, such as GPUs",
		Traffic:  func(ranks int, bytes float64) float64 { return 2 * float64(ranks-1) / float64(ranks) * bytes }}})
	dist.Register(dist.Description{
		Name: Name, Help: "NVIDIA GPUs, with kernbench's own kernels: one GPU per rank, or shared through MPS",
		Capabilities: capabilities(),
		Hints: hints.Hints{
			Knobs:    declaredKnobs,
			MaxRanks: gpu.MaxRanks, CheckMemory: checkMemory,
		},
	}, backend{})
}

// capabilities returns what the backend can do on a machine that has everything. Each call returns a new
// value, which the caller may change.
func capabilities() dist.Capabilities {
	return dist.Capabilities{
		Missing: map[string]string{},
		Ops: []dist.Collective{dist.AllReduce, dist.ReduceScatter, dist.AllGather, dist.Broadcast, dist.Reduce,
			dist.Gather, dist.Scatter, dist.AllToAll, dist.Barrier, dist.Send, dist.Recv},
		DTypes:     gpu.DTypes(),
		Reductions: []dist.Reduction{dist.Sum, dist.Avg},
		Algorithms: map[dist.Collective][]string{
			dist.AllReduce: {oneStage, twoStage, twoStagePush, lamport, naive, multimem}},
		Codecs: codecs(),
		Features: []dist.Feature{dist.SymmetricMemory, dist.OnDevice, dist.UnevenBlocks, dist.ThreadBlocks,
			dist.FusedEpilogue, dist.FusedNorm, dist.WideEpilogue, dist.ScheduleOrder},
	}
}

// checkMemory returns an error if the largest GPU of this host could not hold the buffers of the ranks that share it.
func checkMemory(ranks int, bytes int64) error {
	var largest cuda.Installed
	installed := cuda.AllInstalled()
	for _, g := range installed {
		if g.Bytes > largest.Bytes {
			largest = g
		}
	}
	gpus := cmp.Or(cuda.Count(os.LookupEnv), len(installed))
	if gpus == 0 || largest.Bytes == 0 {
		return nil // the ranks will find out
	}
	sharing := (ranks + gpus - 1) / gpus
	if need := float64(sharing) * float64(bytes); need > float64(largest.Bytes) {
		const gib = 1 << 30
		of := "" // the only rank on a GPU is not worth mentioning
		if sharing > 1 {
			of = fmt.Sprintf("of %d ranks on one GPU ", sharing)
		}
		return fmt.Errorf("the buffers %sneed %.1f GiB, and a GPU (%s) has %.1f GiB", of, need/gib, largest.Name,
			float64(largest.Bytes)/gib)
	}
	return nil
}

type backend struct{}

// CapabilitiesWith returns what groups with these knobs can do on a machine that has everything.
func (backend) CapabilitiesWith(knobs map[string]string) dist.Capabilities {
	return parseKnobs(knobs).restrict(capabilities())
}

// Join waits for the other ranks on this host and opens this rank's GPU.
func (backend) Join(ctx context.Context, c dist.Config) (dist.Engine, error) {
	if c.Size > gpu.MaxRanks {
		return nil, fmt.Errorf("%d ranks: the kernels support at most %d", c.Size, gpu.MaxRanks)
	}
	if err := devicegroup.CheckOneHost(ctx, c); err != nil {
		return nil, err
	}
	// If there is no GPU, all ranks find out here, without waiting for each other. If there is one, do
	// not open the driver yet: it looks for MPS only when it is opened.
	if cuda.Count(os.LookupEnv) == 0 {
		if _, err := cuda.Open(); err != nil {
			return nil, devicegroup.Classify(err)
		}
	}
	g, err := devicegroup.Join(ctx, c)
	if err != nil {
		return nil, err
	}
	e := newEngine(g, parseKnobs(c.Knobs))
	return e.finishJoin(e.open())
}

var _ io.Closer = backend{} // dist.End closes the backends that implement it

// Close stops the MPS daemon if this process has started one.
func (backend) Close() error { return thisProcess.stopMPS() }

// Sweep stops MPS daemons whose process has died without stopping them.
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
		Help: "what performs a rank's part of a call: its own process, or blocks of one kernel that rank 0 launches for " +
			"all ranks, which shows the lower limit of the time",
		Retune: true},
	{Name: blocksKnob, Default: auto, Check: checkBlocks,
		Help: "thread blocks of each rank: auto, or a number; the GPU must be able to run all of them at once"},
	{Name: scopeKnob, Default: auto, Values: []string{auto, systemScope, deviceScope},
		Help: "memory scope of barrier flags: the system, or the device if all ranks are on one GPU"},
	{Name: copyKnob, Default: auto, Values: []string{auto, byEngine, byLoads, byBulk},
		Help: "how an algorithm or a message copies elements: by the copy engine, by loads and stores of a kernel, or by " +
			"bulk copies of a kernel"},
}

func checkBlocks(value string) error {
	if n, err := strconv.Atoi(value); err != nil || n < 1 || n > maxBlocks {
		return fmt.Errorf("want %s or a number from 1 to %d", auto, maxBlocks)
	}
	return nil
}

// knobs are the group's options, parsed.
type knobs struct {
	asBlocks bool   // ranks are blocks of one kernel
	blocks   int    // thread blocks of each rank; 0: chosen for each call
	scope    string // auto, systemScope or deviceScope
	copy     string // byEngine, byLoads or byBulk; "": chosen for each copy
}

func parseKnobs(values map[string]string) knobs {
	n, _ := strconv.Atoi(values[blocksKnob]) // 0 for auto; other values were checked
	return knobs{asBlocks: values[ranksAsKnob] == asBlocks, blocks: n, scope: values[scopeKnob],
		copy: strings.TrimPrefix(values[copyKnob], auto)}
}

// restrict removes from c the capabilities that the knobs rule out. It changes the map and slices of c.
func (k knobs) restrict(c dist.Capabilities) dist.Capabilities {
	if k.copy == "" && !k.asBlocks {
		return c
	}
	c.Codecs = nil
	all := c.Algorithms[dist.AllReduce]
	c.Algorithms[dist.AllReduce] = lists.Filter(all, func(name string) bool {
		return variants[name].copiesInputs == (k.copy != "") && (k.copy == "" || !k.asBlocks)
	})
	for _, name := range all {
		switch copies := variants[name].copiesInputs; {
		case k.copy != "" && k.asBlocks:
			c.Missing[name] = fmt.Sprintf("ranks that are blocks of one kernel make no copies (%s=%s)", copyKnob, k.copy)
		case k.copy != "" && !copies: // the algorithm would not depend on the knob
			c.Missing[name] = fmt.Sprintf("its kernel adds while it loads, and copies nothing (%s=%s)", copyKnob, k.copy)
		case k.copy == "" && copies:
			c.Missing[name] = fmt.Sprintf("ranks that are blocks of one kernel make no copies (%s=%s)", ranksAsKnob, asBlocks)
		}
	}
	if k.copy != "" {
		return c
	}
	// One kernel works for all ranks, so it cannot do what each rank does for itself.
	c.Ops = []dist.Collective{dist.AllReduce, dist.Barrier}
	c.Features = lists.Filter(c.Features, func(f dist.Feature) bool { return f != dist.FusedEpilogue })
	return c
}

// checkCopyKnob returns an error if this rank's GPU does not support the knob "copy".
func (e *engine) checkCopyKnob() error {
	switch {
	case e.knobs.copy == "":
		return nil
	case e.knobs.asBlocks:
		return fmt.Errorf("%s=%s: ranks that are blocks of one kernel make no copies", copyKnob, e.knobs.copy)
	case e.knobs.copy != byBulk:
		return nil
	}
	major, err := e.device.Device().Get(cuda.ComputeMajor)
	if err == nil && major < gpu.BulkMajor {
		err = fmt.Errorf("%s=%s: GPU %d (%s) has compute capability %d, and bulk copies need %d.0", copyKnob,
			byBulk, e.device.ordinal, e.device.Device().Name, major, gpu.BulkMajor)
	}
	return err
}

// flagsOnOneGPU reports whether flags use the memory scope of the GPU instead of the system. By default
// only blocks of one kernel do: for processes that share a GPU, CUDA does not guarantee that it works.
func (e *engine) flagsOnOneGPU() bool {
	return e.knobs.scope == deviceScope || e.knobs.asBlocks && e.knobs.scope != systemScope
}

// checkOneGPU returns an error if the knobs need all ranks on one GPU and they are on several.
func (e *engine) checkOneGPU() error {
	var knob string
	switch {
	case e.knobs.asBlocks:
		knob = ranksAsKnob + "=" + asBlocks
	case e.knobs.scope == deviceScope:
		knob = scopeKnob + "=" + deviceScope
	}
	if knob == "" || e.ranksOnGPU == e.size {
		return nil
	}
	return fmt.Errorf("%s: all ranks must be on one GPU, and %d of %d are", knob, e.ranksOnGPU, e.size)
}

// launches reports whether this rank launches kernels.
func (e *engine) launches() bool { return !e.knobs.asBlocks || e.rank == 0 }

// gridOf returns the grid for the given number of blocks per rank. If the ranks are blocks of one kernel, the launch
// contains the blocks of all ranks and must be cooperative, so that all are resident.
func (c *call) gridOf(blocks int) (grid int, cooperative bool) {
	if !c.e.knobs.asBlocks {
		return blocks, false
	}
	c.params.Rank = gpu.RanksAsBlocks
	return blocks * c.e.size, true
}

var rank0KernelDone = shm.NewLabel("a kernel of rank 0 for all ranks")

// awaitLaunch waits for the end of a launch, by this rank or, for all ranks, by rank 0.
func (c *call) awaitLaunch() error {
	if c.e.launches() {
		if err := c.wait(); err != nil {
			return err
		}
	}
	if c.e.knobs.asBlocks {
		return c.e.Checker.Check(rank0KernelDone)
	}
	return nil
}
