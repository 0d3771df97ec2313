package dist

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/host/clock"
)

// Backend makes groups whose data moves in one certain way.
type Backend interface {
	// Join meets the other ranks and returns once all have come.
	Join(ctx context.Context, c Config) (Engine, error)
}

// Engine is a backend's end of one group. Its methods are called one at a time,
// except that what Prepare returns for sends and receives runs beside the rest.
type Engine interface {
	// Rank is this rank's number in the group, from 0, and Size how many there are.
	Rank() int
	Size() int
	// Capabilities is what this group can do: at most what the Description says.
	Capabilities() Capabilities
	// Alloc is a collective call.
	Alloc(d DType, count int) (Buffer, error)
	// Free gives back what Alloc gave. Other buffers are an error.
	Free(b Buffer) error
	// Prepare does beforehand whatever the call needs at every run. The function
	// it returns allocates nothing.
	Prepare(p Plan) (run func() error, err error)
	// Refuse fails the group: this rank cannot make the call that the others
	// may be waiting for.
	Refuse(reason error)
	// Split is a collective call; a negative color joins no group and gives nil.
	Split(color, key int) (Engine, error)
	// Clock is the time to measure the group's work with.
	Clock() Clock
	// Close leaves the group: ranks that still wait for this one get an error.
	Close() error
}

// Clock is the clock of a group: integer picoseconds from an arbitrary start. A backend whose time is real returns
// [Monotonic], one whose time is simulated returns [Simulated].
type Clock = clock.Clock

// Monotonic returns the monotonic clock of this host. It knows the cost of reading it, which benches subtract.
func Monotonic() Clock { return clock.Monotonic() }

// Simulated returns a deterministic clock that reads simulated time with now, in picoseconds.
func Simulated(now func() int64) Clock { return clock.Simulated(now) }

// UnusableError is that of Prepare where this machine has no way to run an algorithm of the backend. One that "auto"
// took is replaced by the first that the backend lists.
type UnusableError struct{ Err error }

func (e *UnusableError) Error() string { return e.Err.Error() }
func (e *UnusableError) Unwrap() error { return e.Err }

// Capabilities says what a backend can do. What is not listed is an error.
type Capabilities struct {
	Ops        []Collective
	DTypes     []DType
	Reductions []Reduction
	Algorithms map[Collective][]string // without "auto"; none for an operation that offers no choice
	Lacking    map[string]string       // why algorithms that the Description has are not in this group
	Symmetric  bool                    // Alloc gives memory that all ranks reach
	Epilogue   bool                    // calls may have an Epilogue
	Norm       bool                    // the backend does its norm; otherwise this package does, in memory of the host
	Codec      bool                    // an all-reduce may have a Codec, whatever it is
	Codecs     []Codec                 // otherwise: those that it may have
	Combiner   bool                    // calls may have a Combiner
	Counts     bool                    // blocks may have counts of their own
	Chunk      bool                    // the size of the pieces of a call can be chosen: see [Chunk]
	Blocks     bool                    // how many blocks of threads a rank has can be chosen: see [Blocks]
	Shrink     bool                    // what is left of a failed group can go on: see [Group.Shrink]
	Overlap    bool                    // an all-reduce of few elements goes on by itself once begun: see [Op.Begin]
	Steps      bool                    // the proved steps of schedules can be executed one by one: see [StepsPrefix]
	// RanksRound tells that ranks add up in orders of their own, so that sums which
	// are not exact may differ between them in the last bit.
	RanksRound bool
	// ScheduleOrder tells that elements are combined in the order of the schedule of
	// the algorithm's name, so that results can be predicted bit for bit.
	ScheduleOrder bool
	Library       string // with its version, where a library does the work
	// Sharing is how many ranks share a device of their kind, a GPU; 0 where ranks have
	// none. With more than one, times are those of the device's memory, not of a link.
	Sharing int
	// Device is the kind of device that every rank has, such as the name of a GPU; "" where
	// they have none, or different ones.
	Device string
	// WideEpilogue tells that an epilogue is done to 16-bit sums before they are rounded,
	// as kernels that fuse it do; otherwise they are rounded first.
	WideEpilogue bool
}

// Sabotaged is an Engine whose calls can be made wrong where its own code does the work,
// so that it can be seen whether checks notice.
type Sabotaged interface {
	// Plant makes the all-reduces that are prepared from now on wrong in one of the ways
	// of [Faults], or right again: "". An all-reduce that cannot be is refused with
	// [ErrNoSuchFault] as it is prepared.
	Plant(fault string) error
}

// The faults that an engine may have planted.
const (
	DroppedBarrier = "dropped-barrier" // nobody waits for the others, of whom one is late
	SkippedTail    = "skipped-tail"    // the last elements, which fill no pack, are left out
	WrongSlot      = "wrong-slot"      // what rank 1 gives is taken for that of rank 0
)

// Faults lists them.
func Faults() []string { return []string{DroppedBarrier, SkippedTail, WrongSlot} }

// ErrNoSuchFault is the error where nothing can be wrong in this way.
var ErrNoSuchFault = errors.New("the fault cannot be planted")

// Observer is an Engine whose device has instruments.
type Observer interface {
	// Observe says what they show now: clocks, power, temperature. It changes nothing.
	Observe() (string, error)
}

// Overlapper is an Engine that can do a call in two halves, between which it goes on without
// a thread of its own.
type Overlapper interface {
	// PrepareHalves is Prepare for [Op.Begin]. A call that cannot be cut so has no halves.
	// Where all ranks begin a call they all finish it before they make another collective.
	PrepareHalves(p Plan) (Halves, error)
}

// Halves are the two parts of a call. None of them allocates.
type Halves struct {
	Begin  func() error // does what waits for no other rank; nil: the call cannot be cut
	Finish func() error // does the rest
	// Arrived reports whether Finish would wait for no other rank; nil where that cannot be told.
	Arrived func() bool
}

// Shrinker is an Engine whose ranks can go on without those that are gone.
type Shrinker interface {
	// Shrink is called by every rank that is left, after Refuse and when nothing else
	// runs. It gives the engine of a new group of those who called it and, by rank in that
	// group, the ranks that they have in this one: the same on all. It waits for nobody
	// longer than a few times Config.Timeout.
	Shrink() (Engine, []int, error)
}

// Takes tells whether an all-reduce may have this codec.
func (c Capabilities) Takes(codec Codec) bool { return c.Codec || slices.Contains(c.Codecs, codec) }

// Timing is a way to time a prepared call that leaves the host's part out, as a device
// can: many calls in one launch of a kernel, or a recorded graph of them.
type Timing struct {
	Name string // of the metric, such as kernel_us
	Help string // what is timed
	// Sample makes calls, which all ranks do together, and gives the microseconds of one.
	// A rank that has none of the work gives 0.
	Sample func() (us float64, err error)
	// Check, if set, is for samples that leave nothing in the call's own buffers: all
	// ranks together make the call itself, and it tells whether the samples' results differ.
	Check func() error
	// LimitUS is the least time of a call that is timed in this way, as rank 0 knows it,
	// and Limit says what limits it; 0 where nothing is known.
	LimitUS float64
	Limit   string
	// Close gives back what was made for it.
	Close func() error
}

// Timer is an Engine that has such ways. Timings is a collective call; it gives none for
// a call that cannot be timed so.
type Timer interface {
	Timings(p Plan) ([]Timing, error)
}

// Has tells whether the operation is one of those that can be done.
func (c Capabilities) Has(op Collective) bool { return slices.Contains(c.Ops, op) }

// Limiter is a backend that knows, from what it is made of, how long a call takes
// at least.
type Limiter interface {
	Limits(p Plan, size int) ([]Limit, error)
}

// MachineReader is a backend whose machine is described by a file: [Config.Machine].
type MachineReader interface {
	// CheckMachine says what is wrong with a file and an arrangement for groups of so many ranks.
	CheckMachine(path, arrangement string, ranks int) error
	// DescribeMachine is what a file describes, arranged as said; of "", the built-in one.
	DescribeMachine(path, arrangement string) (Machine, error)
	// NearbyMachine is the file of the current folder that is meant where none is named, ""
	// if there is none.
	NearbyMachine() string
}

// Machine is what the file of a [MachineReader] describes.
type Machine struct {
	Text    string            // in a few words
	Ranks   int               // of every group on it; 0: as many as it likes
	Details map[string]string // what rows say of it, such as how messages move
	BuiltIn []byte            // the text of the built-in one, if it has one
}

// Limit is a least time of a call, by what it is spent on.
type Limit struct {
	Name string
	US   float64
}

// fitting leaves out the algorithms that a group of a size cannot do.
func (c Capabilities) fitting(size int) Capabilities {
	list := maps.Clone(c.Algorithms)
	for op, names := range list {
		list[op] = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return unfit(op, name, size) != nil })
	}
	c.Algorithms = list
	return c
}

// unfit is why an algorithm is not for a number of ranks. What is no schedule is
// the backend's to refuse.
func unfit(op Collective, algorithm string, size int) error {
	if !slices.Contains(Algorithms(op), algorithm) {
		return nil
	}
	return schedule.Fits(string(op), algorithm, size)
}
