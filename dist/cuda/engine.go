package cuda

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/dist/devicegroup"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
)

const (
	// stageBytes is the size of the device memory for calls on host memory, for input and output
	// each. Longer calls go in pieces.
	stageBytes = 16 << 20
	// lamportBytes is the most that one launch of the Lamport algorithm sends.
	lamportBytes = 1 << 20
	// maxBlocks is the largest number of thread blocks of a rank.
	maxBlocks = 1024
)

// lamportSlot returns how many bytes a rank receives in one call of the Lamport algorithm: every word comes
// with a flag, which doubles the size. There are two such slots, used alternately.
func lamportSlot(ranks int) int { return 2 * ranks * lamportBytes }

// engine is one rank's side of a group.
type engine struct {
	devicegroup.Group
	rank, size    int
	lineage       []ancestor // this group, the group it was split from, and so on
	device        *device
	ranksOnGPU    int    // number of the group's ranks on this rank's GPU
	residentRanks int    // number of ranks on the GPU in the original group; their kernels must be resident at once
	severalGPUs   bool   // the ranks of the original group are on several GPUs
	exclusiveGPUs bool   // every rank of the group has its own GPU
	model         string // name of the GPUs if all are equal and equally shared, else ""
	knobs         knobs
	stream        *cuda.Stream
	failure       *cuda.Shared

	mu             sync.Mutex // guards allocations, which messages read concurrently
	allocations    map[int]*allocation
	nextAllocation int // id of the next allocation
	// multicastMissing is the reason why the group has no multicast memory, or "" if it has.
	multicastMissing string
	flags            *allocation    // for barriers between blocks
	lamportSlots     *allocation    // where Lamport receives
	scratch          *allocation    // partial sums of two-stage, encodings of quickreduce, copied inputs
	stage            [2]*allocation // input and output of calls on host memory
	blockSum         *allocation    // aligned result of prepareBlockSum
	vectorCopies     map[*call]bool // calls that hold copies of epilogue vectors in host memory

	copier  copier // for collectives
	mailbox *mailbox

	fault        string // injected by a test; see Plant
	flagEpoch    uint32 // number of barriers passed on flags
	lamportCalls uint32 // number of Lamport calls
}

var (
	_ dist.Engine              = (*engine)(nil)
	_ instrument.Observer      = (*engine)(nil)
	_ instrument.FaultInjector = (*engine)(nil)
	_ instrument.Timer         = (*engine)(nil)
)

func (e *engine) failureRecord() *gpu.Failure {
	return (*gpu.Failure)(unsafe.Pointer(&e.failure.Bytes[0]))
}

func (e *engine) Capabilities() dist.Capabilities {
	c := capabilities()
	if e.multicastMissing != "" {
		c.Algorithms[dist.AllReduce] = slices.DeleteFunc(c.Algorithms[dist.AllReduce], func(name string) bool {
			return name == multimem
		})
		c.Missing[multimem] = e.multicastMissing
	}
	return e.knobs.restrict(c)
}

// Facts returns what the group runs on, for [dist.Group.Facts].
func (e *engine) Facts() dist.Facts {
	d := e.device.Device()
	return dist.Facts{Library: fmt.Sprintf("%v, %s", d.Driver(), d.Name), RanksPerDevice: e.ranksOnGPU, Device: e.model}
}

// open finds this rank's GPU and allocates the group's buffers. It is collective.
func (e *engine) open() error {
	n := cuda.Count(os.LookupEnv) // without opening the driver, which must not happen before MPS is set up
	if n > 0 && e.size > n {
		pipes, err := thisProcess.startMPS(e.rank == 0)
		if err != nil {
			return err
		}
		all, err := e.Checker.AllGather("init", []byte(pipes))
		if err != nil {
			return err
		}
		if err := thisProcess.useMPS(string(all[0])); err != nil {
			return err
		}
	}
	var err error
	if e.device, err = thisProcess.openDevice(e.rank); err != nil {
		return err
	}
	e.GPU = e.device.Context
	if err := e.checkCopyKnob(); err != nil { // before the next exchange: every rank finds the same error by itself
		return &dist.UnavailableError{Err: err}
	}
	if e.ranksOnGPU, err = e.countSharers(); err != nil {
		return err
	}
	e.residentRanks, e.severalGPUs = e.ranksOnGPU, e.ranksOnGPU < e.size
	if err := e.checkOneGPU(); err != nil {
		return err
	}
	return e.allocateBuffers()
}

// allocateBuffers creates the stream and allocates the flags and buffers that calls need. It is
// collective.
func (e *engine) allocateBuffers() error {
	e.allocations = map[int]*allocation{}
	err := e.device.Do(func() (err error) {
		if e.stream, err = e.device.Stream(); err != nil {
			return err
		}
		if e.failure, err = e.device.Share(int(unsafe.Sizeof(gpu.Failure{}))); err != nil {
			return err
		}
		if e.copier, err = e.newCopier(e.knobs.copy, e.stream); err != nil {
			return &dist.UnavailableError{Err: fmt.Errorf("%s=%s: %w", copyKnob, e.knobs.copy, err)}
		}
		e.mailbox, err = e.newMailbox()
		return err
	})
	if err != nil {
		return err
	}
	if e.multicastMissing, err = e.checkMulticast(); err != nil {
		return err
	}
	for _, need := range []struct {
		to       **allocation
		bytes    int
		allocate func(what string, bytes int) (*allocation, error)
	}{{&e.flags, maxBlocks * gpu.FlagBytes, e.allocate}, {&e.lamportSlots, 2 * lamportSlot(e.size), e.allocate},
		{&e.scratch, 2 * stageBytes, e.allocate},
		{&e.stage[0], stageBytes, e.allocateMulticast}, {&e.stage[1], stageBytes, e.allocateMulticast},
		{&e.blockSum, 2 * stageBytes, e.allocate}} {
		if *need.to, err = need.allocate("init", need.bytes); err != nil {
			return err
		}
	}
	if err := e.Checker.Check(shm.NewLabel("init")); err != nil {
		return err
	}
	e.Checker.ResetCallCount()
	return nil
}

// countSharers returns how many ranks use this rank's GPU. It also sets exclusiveGPUs, and sets model if
// all ranks have the same kind of GPU, shared by equally many ranks: only then would all ranks choose the
// same entry of a tuning table. It returns an error if processes share the GPU without MPS.
func (e *engine) countSharers() (n int, err error) {
	own := e.device.Device()
	all, err := e.Checker.AllGather("init",
		[]byte(strings.Join([]string{own.BusID, own.Name, strconv.Itoa(os.Getpid())}, "\x00")))
	if err != nil {
		return 0, err
	}
	// ranks counts them by GPU; processes share this rank's GPU.
	ranks, names, processes := map[string]int{}, map[string]bool{}, map[string]bool{}
	for _, text := range all {
		fields := strings.Split(string(text), "\x00")
		busID, name, pid := fields[0], fields[1], fields[2]
		ranks[busID]++
		names[name] = true
		if busID == own.BusID {
			processes[pid] = true
		}
	}
	if len(processes) > 1 && os.Getenv(TurnsVariable) == "" {
		if shared, err := own.Get(cuda.SharedByMPS); err == nil && shared == 0 {
			return 0, fmt.Errorf("%d processes share GPU %d (%s) without MPS: their kernels would take turns (%s=1 allows that)",
				len(processes), e.device.ordinal, own.Name, TurnsVariable)
		}
	}
	n, e.exclusiveGPUs = ranks[own.BusID], len(ranks) == e.size
	equal := !slices.ContainsFunc(slices.Collect(maps.Values(ranks)), func(other int) bool { return other != n })
	if len(names) == 1 && equal {
		e.model = own.Name
	}
	return n, nil
}

// ancestor is a group that another group was split from, directly or in several steps.
type ancestor struct {
	engine *engine
	ranks  []int // rank in this ancestor by rank in the other group; nil: the same
}

// Split partitions the group by color. Each part allocates its own flags and buffers, and keeps the GPUs.
func (e *engine) Split(color, key int) (dist.Engine, error) {
	if len(e.lineage) == maxLineage {
		return nil, fmt.Errorf("splitting: groups can be nested at most %d deep", maxLineage)
	}
	a, ranks, err := e.Checker.Split(color, key)
	if a == nil {
		return nil, err
	}
	part := newEngine(devicegroup.Group{Checker: a, GPU: e.GPU, Timeout: e.Timeout}, e.knobs)
	part.device, part.residentRanks, part.severalGPUs = e.device, e.residentRanks, e.severalGPUs
	for _, from := range e.lineage {
		theirs := ranks
		if from.ranks != nil {
			theirs = lists.At(from.ranks, ranks)
		}
		part.lineage = append(part.lineage, ancestor{from.engine, theirs})
	}
	if part.ranksOnGPU, err = part.countSharers(); err == nil {
		err = part.allocateBuffers()
	}
	return part.finishJoin(err)
}

// newEngine returns the engine of ranks that have met. It has no GPU yet.
func newEngine(g devicegroup.Group, k knobs) *engine {
	e := &engine{Group: g, rank: g.Rank(), size: g.Size(), knobs: k, vectorCopies: map[*call]bool{}}
	e.lineage = []ancestor{{engine: e}}
	return e
}

// finishJoin returns the engine or, if err is not nil, tells the other ranks the reason and closes it.
func (e *engine) finishJoin(err error) (dist.Engine, error) {
	if err != nil {
		e.Checker.Refuse(fmt.Sprintf("rank %d: %v", e.rank, err))
		e.Close()
		return nil, err
	}
	return e, nil
}

// maxBlocksAtOnce returns how many blocks this rank's collective may have, so that the blocks of all ranks
// on the GPU are resident at once. A multiprocessor runs resident blocks at a time. With several GPUs, one
// block is left free for the copy of a message: this rank may have to receive a message before another
// rank, on another GPU, enters the collective. On a single GPU there is room anyway, because the blocks
// of that rank are not running yet.
func (e *engine) maxBlocksAtOnce(resident int) int {
	n := resident * e.device.multiprocessors / e.residentRanks
	if e.severalGPUs && n > 1 {
		n--
	}
	return n
}

// Device returns the GPU's context in this process and how many ranks share the GPU, for packages that
// launch their own kernels.
func (e *engine) Device() (c *cuda.Context, sharing int) { return e.device.Context, e.ranksOnGPU }

// Addresses returns, by rank, the address that corresponds to b in the memory of every rank.
func (e *engine) Addresses(b dist.Buffer) ([]cuda.Pointer, error) {
	s, ours := e.findSpan(b)
	if !ours {
		return nil, fmt.Errorf("%v: not memory that Alloc of this group returned", b)
	}
	return lists.Map(lists.Range[int](e.size), s.pointer), nil
}

// KernelTimeout returns how long a kernel may wait for another rank, and the address of the gpu.Failure
// in which it reports a timeout.
func (e *engine) KernelTimeout() (failure cuda.Pointer, limit time.Duration) {
	return e.failure.Device, e.Timeout
}

// failFreed fails the group because the memory of a prepared call was freed.
func (e *engine) failFreed(p dist.Plan) error {
	e.Refuse(fmt.Errorf("%v: the memory was freed", p))
	return e.Checker.Failure()
}

// Alloc returns zeroed device memory that all ranks can access.
func (e *engine) Alloc(d dist.DType, count int) (dist.Buffer, error) {
	a, err := e.allocateMulticast(fmt.Sprintf("alloc of %d %v", count, d), count*d.Size())
	if err != nil {
		return dist.Buffer{}, err
	}
	return dist.NewBuffer(d, count, nil, a), nil
}

// Free marks memory as unused. The next Alloc after all ranks have freed it releases it; until then
// another rank may access it.
func (e *engine) Free(b dist.Buffer) error {
	a, ours := b.Memory().(*allocation)
	if !ours || a.e != e || a.freed {
		return fmt.Errorf("freeing %v: not memory that Alloc of this group returned", b)
	}
	a.freed = true
	return nil
}

// Close leaves the group and frees its resources.
func (e *engine) Close() error {
	defer e.Checker.Close()
	e.Checker.Leave()
	if e.device == nil || e.mailbox == nil {
		return nil
	}
	return e.Release(func() error {
		var faults []error
		for _, a := range e.allocations {
			a.freed = true // groups split from this one must not use it any more
			faults = append(faults, a.closeImports())
		}
		// Memory that other processes have mapped must not be freed before they unmap it.
		e.AwaitOthers()
		for _, a := range e.allocations {
			faults = append(faults, a.release())
		}
		for c := range e.vectorCopies {
			faults = append(faults, c.freeVectors())
		}
		return errors.Join(append(faults, e.stream.Destroy(), e.failure.Free(), e.mailbox.close())...)
	})
}
