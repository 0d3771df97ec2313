package cuda

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
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

// lamportSlots has slots for three calls of every rank, for each width of elements:
// what stands for "nothing has come" differs between them.
func lamportSlots(ranks int) int { return 3 * 3 * ranks * lamportBytes }

// engine is one rank's end of a group.
type engine struct {
	rank, size int
	timeout    time.Duration
	agreement  *shm.Agreement
	device     *device
	sharing    int // ranks on this rank's GPU
	knobs      knobs
	stream     *cuda.Stream
	failure    *cuda.Shared

	allocations map[int]*allocation
	allocated   int         // so far
	flags       *allocation // on which blocks meet
	slots       *allocation // of Lamport
	scratch     *allocation // of two-stage
	stage       [2]*allocation
	partial     *allocation    // of a block that is summed before it goes to its place
	vectors     []cuda.Pointer // biases and residuals of the program's own memory

	fault string    // that is planted
	epoch uint32    // of the flags
	calls [3]uint32 // of Lamport, by width
	last  [3]uint64 // elements of the last of these
}

var (
	_ dist.Engine    = (*engine)(nil)
	_ dist.Observer  = (*engine)(nil)
	_ dist.Sabotaged = (*engine)(nil)
	_ dist.Timer     = (*engine)(nil)
)

func (e *engine) Rank() int            { return e.rank }
func (e *engine) Size() int            { return e.size }
func (e *engine) Clock() dist.Clock    { return dist.Monotonic() }
func (e *engine) failed() *gpu.Failure { return (*gpu.Failure)(unsafe.Pointer(&e.failure.Bytes[0])) }
func (e *engine) Split(int, int) (dist.Engine, error) {
	return nil, errors.New("the cuda backend has no groups of some of its ranks")
}

// Observe reads the GPU's clocks, power and temperature.
func (e *engine) Observe() (string, error) {
	r, err := e.device.Device().Read()
	if err != nil {
		return "", err
	}
	return r.String(), nil
}

func (e *engine) Capabilities() dist.Capabilities {
	c := capabilities()
	c.Algorithms[dist.AllReduce] = slices.DeleteFunc(c.Algorithms[dist.AllReduce], func(name string) bool { return name == multimem })
	c.Lacking = map[string]string{multimem: e.device.noMulticast()}
	c.Library = fmt.Sprintf("%v, %s", e.device.Device().Driver(), e.device.Device().Name)
	c.Sharing = e.sharing
	return e.knobs.capabilities(c)
}

// open finds the GPU and makes what every call needs. All ranks do it together.
func (e *engine) open() error {
	n := cuda.Count(os.LookupEnv) // the driver must not be opened before MPS is there
	if n > 0 && e.size > n {
		pipes, err := thisProcess.share(e.rank == 0)
		if err != nil {
			return err
		}
		told, err := e.exchange("init", []byte(pipes))
		if err != nil {
			return err
		}
		if err := thisProcess.use(string(told[0])); err != nil {
			return err
		}
	}
	var err error
	if e.device, err = thisProcess.open(e.rank); err != nil {
		return err
	}
	e.allocations = map[int]*allocation{}
	if e.sharing, err = e.sharers(); err != nil {
		return err
	}
	if err := e.misfit(); err != nil {
		return err
	}
	err = e.device.Do(func() error {
		if e.stream, err = e.device.Stream(); err != nil {
			return err
		}
		e.failure, err = e.device.Share(int(unsafe.Sizeof(gpu.Failure{})))
		return err
	})
	if err != nil {
		return err
	}
	for _, need := range []struct {
		to    **allocation
		bytes int
	}{{&e.flags, maxBlocks * gpu.FlagBytes}, {&e.slots, lamportSlots(e.size)}, {&e.scratch, 2 * stageBytes}, {&e.stage[0], stageBytes}, {&e.stage[1], stageBytes}, {&e.partial, 2 * stageBytes}} {
		if *need.to, err = e.allocate("init", need.bytes); err != nil {
			return err
		}
	}
	if err := e.freeSlots(); err != nil {
		return err
	}
	return e.agree(shm.NewLabel("init"))
}

// sharers counts the ranks whose GPU is this rank's.
func (e *engine) sharers() (n int, err error) {
	all, err := e.exchange("init", []byte(e.device.Device().BusID))
	for _, id := range all {
		if string(id) == e.device.Device().BusID {
			n++
		}
	}
	return n, err
}

// freeSlots fills the slots with what says that nothing has come.
func (e *engine) freeSlots() error {
	third := lamportSlots(e.size) / 3
	free := make([]byte, third)
	for width, pattern := range [][]byte{{0, 0x80}, {0, 0, 0, 0x80}, {0, 0, 0, 0, 0, 0, 0, 0x80}} {
		for i := 0; i < third; i += len(pattern) {
			copy(free[i:], pattern)
		}
		if err := e.slots.Write(width*third, free); err != nil {
			return err
		}
	}
	return nil
}

// agree returns once all ranks are known to make this call.
func (e *engine) agree(l *shm.Label) error {
	if err := e.agreement.Agree(l); err != nil {
		return outward(err) // which allocates
	}
	return nil
}

// Refuse fails the group because this rank cannot make its call.
func (e *engine) Refuse(reason error) {
	e.agreement.Refuse(fmt.Sprintf("rank %d cannot make its call: %v", e.rank, reason))
}

// Alloc gives device memory that all ranks reach.
func (e *engine) Alloc(d dist.DType, count int) (dist.Buffer, error) {
	a, err := e.allocate(fmt.Sprintf("alloc of %d %v", count, d), count*d.Size())
	if err != nil {
		return dist.Buffer{}, err
	}
	return dist.NewDeviceBuffer(d, count, a), nil
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
	if e.device == nil || e.stream == nil {
		return nil
	}
	return e.device.Do(func() error {
		var faults []error
		for _, a := range e.allocations {
			faults = append(faults, a.unmap())
		}
		// Memory that others have mapped must stay until they are gone.
		for begin := time.Now(); time.Since(begin) < lastWait && !e.agreement.Alone(); {
			time.Sleep(time.Millisecond)
		}
		for _, a := range e.allocations {
			faults = append(faults, e.device.Free(a.at[e.rank]))
		}
		for _, v := range e.vectors {
			faults = append(faults, e.device.Free(v))
		}
		faults = append(faults, e.stream.Destroy(), e.failure.Free())
		if err := errors.Join(faults...); err != nil && !cuda.Sticky(err) && !e.agreement.Failed() {
			return err
		}
		return nil
	})
}

// outward gives failures the types of package dist.
func outward(err error) error {
	var f *shm.Failure
	switch {
	case !errors.As(err, &f):
		return err
	case f.Kind != shm.PeerGone:
		return &dist.MisuseError{Text: f.Text}
	}
	return &dist.PeerError{Rank: f.Rank, PID: f.PID, Dead: f.Dead, Text: f.Text}
}
