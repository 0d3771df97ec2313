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
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
)

const (
	// stageBytes is the device memory through which calls on the program's own memory
	// go, for input and output each; longer ones go in pieces.
	stageBytes = 16 << 20
	// lamportBytes is the most that goes at once by the Lamport algorithm.
	lamportBytes = 1 << 20
	// maxBlocks is the most blocks of a rank.
	maxBlocks = 1024
)

// lamportSlot is what the ranks send to one in a call by the Lamport algorithm: each word with a flag.
// Two calls take turns.
func lamportSlot(ranks int) int { return 2 * ranks * lamportBytes }

// engine is one rank's end of a group.
type engine struct {
	rank, size int
	lineage    []ancestor // this group, that which it was split from, and so on
	timeout    time.Duration
	agreement  *shm.CallChecker
	device     *device
	sharing    int    // ranks of the group on this rank's GPU
	residents  int    // ranks whose kernels must run on it at once: of all groups that were split from one
	spread     bool   // these have several GPUs
	alone      bool   // every rank of the group has a GPU to itself
	model      string // name of the GPU that every rank has, shared by as many; "" where they differ
	knobs      knobs
	stream     *cuda.Stream
	failure    *cuda.Shared

	mu          sync.Mutex // of allocations, which messages look at
	allocations map[int]*allocation
	allocated   int // so far
	// lacksMulticast is why the group has no memory that one address reaches on all ranks; "": it has.
	lacksMulticast string
	flags          *allocation // on which blocks meet
	slots          *allocation // of Lamport
	scratch        *allocation // of two-stage
	stage          [2]*allocation
	partial        *allocation    // of a block that is summed before it goes to its place
	vectors        []cuda.Pointer // biases and residuals of the program's own memory

	copies   copier // of collectives
	messages *mailbox

	fault string // that is planted
	epoch uint32 // of the flags
	calls uint32 // of Lamport
}

var (
	_ dist.Engine              = (*engine)(nil)
	_ instrument.Observer      = (*engine)(nil)
	_ instrument.FaultInjector = (*engine)(nil)
	_ instrument.Timer         = (*engine)(nil)
)

func (e *engine) Rank() int            { return e.rank }
func (e *engine) Size() int            { return e.size }
func (e *engine) failed() *gpu.Failure { return (*gpu.Failure)(unsafe.Pointer(&e.failure.Bytes[0])) }

// Observe reads the GPU's clocks, power and temperature.
func (e *engine) Observe() (string, error) { return e.device.Device().Observe() }

func (e *engine) Capabilities() dist.Capabilities {
	c := capabilities()
	c.Missing = map[string]string{}
	if e.lacksMulticast != "" {
		c.Algorithms[dist.AllReduce] = slices.DeleteFunc(c.Algorithms[dist.AllReduce], func(name string) bool {
			return name == multimem
		})
		c.Missing[multimem] = e.lacksMulticast
	}
	return e.knobs.capabilities(c)
}

// Facts returns what the group runs on, for [dist.Group.Facts].
func (e *engine) Facts() dist.Facts {
	d := e.device.Device()
	return dist.Facts{Library: fmt.Sprintf("%v, %s", d.Driver(), d.Name), RanksPerDevice: e.sharing, Device: e.model}
}

// open finds the GPU and equips the group. All ranks do it together.
func (e *engine) open() error {
	n := cuda.Count(os.LookupEnv) // the driver must not be opened before MPS is there
	if n > 0 && e.size > n {
		pipes, err := thisProcess.share(e.rank == 0)
		if err != nil {
			return err
		}
		told, err := e.agreement.AllGather("init", []byte(pipes))
		if err != nil {
			return err
		}
		if err := thisProcess.use(string(told[0])); err != nil {
			return err
		}
	}
	var err error
	if e.device, err = thisProcess.open(e.rank); err != nil {
		return lacking(err)
	}
	if err := e.unable(); err != nil { // before ranks meet: each finds out by itself
		return &dist.UnavailableError{Err: err}
	}
	if e.sharing, err = e.sharers(); err != nil {
		return err
	}
	e.residents, e.spread = e.sharing, e.sharing < e.size
	if err := e.misfit(); err != nil {
		return err
	}
	return e.equip()
}

// equip makes what every call needs. All ranks do it together.
func (e *engine) equip() error {
	e.allocations = map[int]*allocation{}
	err := e.device.Do(func() (err error) {
		if e.stream, err = e.device.Stream(); err != nil {
			return err
		}
		if e.failure, err = e.device.Share(int(unsafe.Sizeof(gpu.Failure{}))); err != nil {
			return err
		}
		if e.copies, err = e.newCopier(e.knobs.copy, e.stream); err != nil {
			return &dist.UnavailableError{Err: fmt.Errorf("%s=%s: %w", copyKnob, e.knobs.copy, err)}
		}
		e.messages, err = e.newMailbox()
		return err
	})
	if err != nil {
		return err
	}
	if e.lacksMulticast, err = e.settleMulticast(); err != nil {
		return err
	}
	for _, need := range []struct {
		to       **allocation
		bytes    int
		allocate func(what string, bytes int) (*allocation, error)
	}{{&e.flags, maxBlocks * gpu.FlagBytes, e.allocate}, {&e.slots, 2 * lamportSlot(e.size), e.allocate},
		{&e.scratch, 2 * stageBytes, e.allocate},
		{&e.stage[0], stageBytes, e.allocateForAll}, {&e.stage[1], stageBytes, e.allocateForAll},
		{&e.partial, 2 * stageBytes, e.allocate}} {
		if *need.to, err = need.allocate("init", need.bytes); err != nil {
			return err
		}
	}
	if err := e.agreement.Check(shm.NewLabel("init")); err != nil {
		return err
	}
	e.agreement.ResetCallCount()
	return nil
}

// sharers counts the ranks whose GPU is this rank's, and names the GPU where all ranks have
// one of the kind and share it with as many: then they choose alike from a tuning table.
// Where processes share it, their kernels must not take turns.
func (e *engine) sharers() (n int, err error) {
	own := e.device.Device()
	all, err := e.agreement.AllGather("init",
		[]byte(strings.Join([]string{own.BusID, own.Name, strconv.Itoa(os.Getpid())}, "\x00")))
	if err != nil {
		return 0, err
	}
	ranks, names, processes := map[string]int{}, map[string]bool{}, map[string]bool{}
	for _, told := range all {
		from := strings.Split(string(told), "\x00")
		ranks[from[0]]++
		names[from[1]] = true
		if from[0] == own.BusID {
			processes[from[2]] = true
		}
	}
	if len(processes) > 1 && os.Getenv(TurnsVariable) == "" {
		if shared, err := own.Get(cuda.SharedByMPS); err == nil && shared == 0 {
			return 0, fmt.Errorf("%d processes share GPU %d (%s) without MPS: their kernels would take turns (%s=1 allows that)",
				len(processes), e.device.ordinal, own.Name, TurnsVariable)
		}
	}
	n, e.alone = ranks[own.BusID], len(ranks) == e.size
	if len(names) == 1 && !slices.ContainsFunc(slices.Collect(maps.Values(ranks)), func(other int) bool {
		return other != n
	}) {
		e.model = own.Name
	}
	return n, nil
}

// ancestor is a group, and the ranks that those of a group which was split from it have there.
type ancestor struct {
	engine *engine
	ranks  []int // nil: the same
}

// Split makes new groups, each with memory of its own for its calls. Ranks meet in each
// as those of a first group do; its GPUs are those of this one.
func (e *engine) Split(color, key int) (dist.Engine, error) {
	if len(e.lineage) == maxLineage {
		return nil, fmt.Errorf("splitting: %d groups were made of each other, which is as many as can be", maxLineage)
	}
	a, ranks, err := e.agreement.Split(color, key)
	if a == nil {
		return nil, err
	}
	part := newEngine(a, e.timeout, e.knobs)
	part.device, part.residents, part.spread = e.device, e.residents, e.spread
	for _, from := range e.lineage {
		there := ranks
		if from.ranks != nil {
			there = lists.At(from.ranks, ranks)
		}
		part.lineage = append(part.lineage, ancestor{from.engine, there})
	}
	if part.sharing, err = part.sharers(); err == nil {
		err = part.equip()
	}
	return part.joined(err)
}

// newEngine is that of a group of ranks that have met.
func newEngine(a *shm.CallChecker, timeout time.Duration, k knobs) *engine {
	e := &engine{agreement: a, rank: a.Rank(), size: a.Size(), timeout: timeout, knobs: k}
	e.lineage = []ancestor{{engine: e}}
	return e
}

// joined is the engine, unless it could not be made ready: then the others learn why.
func (e *engine) joined(err error) (dist.Engine, error) {
	if err != nil {
		e.agreement.Refuse(fmt.Sprintf("rank %d: %v", e.rank, err))
		e.Close()
		return nil, err
	}
	return e, nil
}

// room is how many blocks of this rank's collective run at once beside those of all others
// on the GPU, where a multiprocessor runs so many. Between GPUs one is left for messages:
// a rank may have to take one in before another comes to the collective. On a single GPU
// that one's blocks are not there yet.
func (e *engine) room(resident int) int {
	n := resident * e.device.multiprocessors / e.residents
	if e.spread && n > 1 {
		n--
	}
	return n
}

// Device is the GPU as this process uses it, and how many ranks share it: for kernels that
// another package starts among the ranks of the group.
func (e *engine) Device() (c *cuda.Context, sharing int) { return e.device.Context, e.sharing }

// Addresses is where the memory of all ranks is that Alloc gave together with this buffer's.
func (e *engine) Addresses(b dist.Buffer) ([]cuda.Pointer, error) {
	s, ours := e.spanOf(b)
	if !ours {
		return nil, fmt.Errorf("%v: not memory that Alloc of this group gave", b)
	}
	var all []cuda.Pointer
	for rank := range e.size {
		all = append(all, s.pointer(rank))
	}
	return all, nil
}

// Patience is where a kernel says that it has waited for another rank too long, and how long
// that is.
func (e *engine) Patience() (failure cuda.Pointer, limit time.Duration) {
	return e.failure.Device, e.timeout
}

// forsaken fails the group because memory of a call is no longer there.
func (e *engine) forsaken(p dist.Plan) error {
	err := fmt.Errorf("%v: the memory was freed", p)
	e.Refuse(err)
	return e.agreement.Failure()
}

// Refuse fails the group because this rank cannot make its call.
func (e *engine) Refuse(reason error) { _ = e.agreement.Fail(shm.RefusalBy(e.rank, reason)) }

// Alloc gives device memory that all ranks reach.
func (e *engine) Alloc(d dist.DType, count int) (dist.Buffer, error) {
	a, err := e.allocateForAll(fmt.Sprintf("alloc of %d %v", count, d), count*d.Size())
	if err != nil {
		return dist.Buffer{}, err
	}
	return dist.NewBuffer(d, count, nil, a), nil
}

// Free marks the memory as unused. It is given back by the next Alloc after all
// ranks have freed it: until then they may reach it.
func (e *engine) Free(b dist.Buffer) error {
	a, ours := b.Memory().(*allocation)
	if !ours || a.e != e || a.freed {
		return fmt.Errorf("freeing %v: not memory that Alloc of this group gave", b)
	}
	a.freed = true
	return nil
}

// lastWait is how long a rank that closes waits for the others to let go of its
// memory.
const lastWait = time.Second

// Close leaves the group.
func (e *engine) Close() error {
	defer e.agreement.Close()
	e.agreement.Leave()
	if e.device == nil || e.messages == nil {
		return nil
	}
	return e.device.Do(func() error {
		var faults []error
		for _, a := range e.allocations {
			a.freed = true // for groups that were split from this one
			faults = append(faults, a.unmap())
		}
		// Memory that others have mapped must stay until they are gone.
		for begin := time.Now(); time.Since(begin) < lastWait && !e.agreement.Alone(); {
			time.Sleep(time.Millisecond)
		}
		for _, a := range e.allocations {
			faults = append(faults, a.release())
		}
		for _, v := range e.vectors {
			faults = append(faults, e.device.Free(v))
		}
		faults = append(faults, e.stream.Destroy(), e.failure.Free(), e.messages.close())
		if err := errors.Join(faults...); err != nil && !cuda.Sticky(err) && !e.agreement.Failed() {
			return err
		}
		return nil
	})
}
