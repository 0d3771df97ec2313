package dist

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/comm/schedule"
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

// Clock is the time to measure the group's work with: integer picoseconds from
// an arbitrary start. A deterministic clock gives the same duration every time.
type Clock interface {
	Now() int64
	Deterministic() bool
	Name() string // such as "monotonic", for the record of a result
}

// Monotonic is this host's own clock, for backends whose time is real.
func Monotonic() Clock { return monotonic{} }

type monotonic struct{}

// epoch is where the clock starts, so that a reading fits into 64 bits.
var epoch = time.Now()

func (monotonic) Now() int64          { return int64(time.Since(epoch)) * 1000 }
func (monotonic) Deterministic() bool { return false }
func (monotonic) Name() string        { return "monotonic" }

// Capabilities says what a backend can do. What is not listed is an error.
type Capabilities struct {
	Ops        []Collective
	DTypes     []DType
	Reductions []Reduction
	Algorithms map[Collective][]string // without "auto"; none for an operation that offers no choice
	Symmetric  bool                    // Alloc gives memory that all ranks reach
	Epilogue   bool                    // calls may have an Epilogue
	Codec      bool                    // an all-reduce may have a Codec
	Combiner   bool                    // calls may have a Combiner
	Counts     bool                    // blocks may have counts of their own
	Chunk      bool                    // the size of the pieces of a call can be chosen: see [Chunk]
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
	// WideEpilogue tells that an epilogue is done to 16-bit sums before they are rounded,
	// as kernels that fuse it do; otherwise they are rounded first.
	WideEpilogue bool
}

// Observer is an Engine whose device has instruments.
type Observer interface {
	// Observe says what they show now: clocks, power, temperature. It changes nothing.
	Observe() (string, error)
}

// Has tells whether the operation is one of those that can be done.
func (c Capabilities) Has(op Collective) bool { return slices.Contains(c.Ops, op) }

// Limiter is a backend that knows, from what it is made of, how long a call takes
// at least.
type Limiter interface {
	Limits(p Plan, size int) ([]Limit, error)
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
