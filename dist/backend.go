package dist

import (
	"context"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/host/clock"
)

// Backend creates groups that move their data in one particular way, for example through shared memory, MPI or NCCL. A
// Backend with resources of the whole process, such as an initialized MPI library, also implements io.Closer; see
// [End].
type Backend interface {
	// Join returns once all ranks of the group have joined.
	Join(ctx context.Context, c Config) (Engine, error)
}

// Engine is a backend's part of one group, on one rank. Its methods are called one at a time, with one exception: the
// functions that Prepare returns for sends and receives run concurrently with everything else.
//
// An engine may also have these methods:
//
//	Clock() Clock // the clock of a simulation; without it, the clock is the monotonic clock of the host
//	Facts() Facts // what the group runs on
//	PrepareHalves(p Plan) (begin, finish func() error, arrived func() bool, err error)
//
// PrepareHalves is Prepare for [Op.Begin]. begin does the part that waits for no other rank, finish does the rest, and
// arrived reports whether finish would return without waiting. None of them allocates, and no thread runs in between.
// begin is nil if the call cannot be divided; arrived is nil if the engine cannot tell. If one rank begins a call, all
// ranks do, and they finish it before they make another collective.
type Engine interface {
	// Rank returns the number of this rank in the group, from 0. Size returns the number of ranks.
	Rank() int
	Size() int
	// Capabilities returns the capabilities of this group, a subset of those in the [Description].
	Capabilities() Capabilities
	// Alloc returns zeroed memory. It is a collective call.
	Alloc(d DType, count int) (Buffer, error)
	// Free releases a buffer that Alloc returned. For any other buffer it returns an error.
	Free(b Buffer) error
	// Prepare does all work for the call that is not needed for every run. run makes the call and allocates nothing.
	// release frees what Prepare has allocated, when the call will not run again; nil: there is nothing to release.
	// Close of the engine releases it too.
	Prepare(p Plan) (run, release func() error, err error)
	// Refuse fails the group, because this rank cannot make the call that the others may be waiting for. first is false
	// if the group has failed already.
	Refuse(reason error) (first bool)
	// Split is a collective call. With a negative color this rank joins no group and gets nil.
	Split(color, key int) (Engine, error)
	// Close leaves the group. Ranks that still wait for this one get an error.
	Close() error
}

// Clock is the clock of a group: integer picoseconds from an arbitrary start.
type Clock = clock.Clock

// overlapper is an Engine that can make a call in two halves, without a thread that runs in between.
type overlapper interface {
	PrepareHalves(p Plan) (begin, finish func() error, arrived func() bool, err error)
}

// Facts describe what a group runs on, for the record of a result and for tuning tables.
type Facts struct {
	Library string // the library that moves the data, with its version; "": none
	Device  string // the kind of device that every rank has, such as the name of a GPU; "": none, or different ones
	// RanksPerDevice is the number of ranks that share a device, or 0 if ranks have no device. If it is above 1, times
	// depend on the memory of the device and not on a link between devices.
	RanksPerDevice int
}

// UnavailableError reports that this machine lacks what a backend needs. Join returns it if there are too few GPUs or a
// library is missing. Prepare returns it if the machine cannot run an algorithm; if "auto" chose that algorithm, the
// backend's first algorithm is used instead.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return e.Err.Error() }
func (e *UnavailableError) Unwrap() error { return e.Err }

// Capabilities list what a backend, or one of its groups, can do. Package dist refuses all other calls, so engines need
// not check for them.
type Capabilities struct {
	Ops        []Collective
	DTypes     []DType
	Reductions []Reduction
	// Algorithms are the names that a call may choose from, without "auto". The first one is the default. An operation
	// that is missing here offers no choice.
	Algorithms map[Collective][]string
	Codecs     []Codec // the codecs that an all-reduce may have; see [AnyCodec]
	Features   []Feature
	// Missing says, for each algorithm that is in the Description but not in this group, why.
	Missing map[string]string
}

// Feature names an optional ability of a backend, or a property of its results.
type Feature string

// The features.
const (
	SymmetricMemory Feature = "symmetric-memory" // Alloc returns memory that all ranks reach without a copy
	OnDevice        Feature = "on-device"        // Alloc returns memory that the host cannot reach: see [Buffer.Mirror]
	FusedEpilogue   Feature = "epilogue"         // calls may have an [Epilogue]
	FusedNorm       Feature = "norm"             // the backend applies [RMSNorm]; otherwise dist does, in host memory
	WideEpilogue    Feature = "wide-epilogue"    // epilogues apply to 16-bit sums before these are rounded
	AnyCodec        Feature = "any-codec"        // an all-reduce may have any [Codec], even one that the program defines
	UnevenBlocks    Feature = "counts"           // calls may have [Call.Counts]
	Pipelining      Feature = "chunk"            // [Call.Chunk] has an effect
	ThreadBlocks    Feature = "blocks"           // the number of blocks of threads can be chosen: see [Plan.Blocks]
	ScheduleSteps   Feature = "steps"            // algorithms "steps:NAME" execute the proved steps of a schedule
	Overlap         Feature = "overlap"          // set by dist if the engine has a method PrepareHalves
	// ScheduleOrder: elements are combined in the order of the schedule with the algorithm's name, so that results can
	// be predicted bit for bit.
	ScheduleOrder Feature = "schedule-order"
	// RanksMayDiffer: ranks add in different orders, so that inexact sums may differ between them in the last bit.
	RanksMayDiffer Feature = "ranks-may-differ"
)

// Has reports whether f is one of the features.
func (c Capabilities) Has(f Feature) bool { return slices.Contains(c.Features, f) }

// Can reports whether op is one of the operations.
func (c Capabilities) Can(op Collective) bool { return slices.Contains(c.Ops, op) }

// Takes reports whether an all-reduce may have this codec.
func (c Capabilities) Takes(codec Codec) bool {
	return c.Has(AnyCodec) || slices.Contains(c.Codecs, codec)
}

// fitting returns the capabilities without the algorithms that do not work with size ranks.
func (c Capabilities) fitting(size int) Capabilities {
	c.Algorithms = maps.Clone(c.Algorithms)
	for op, names := range c.Algorithms {
		c.Algorithms[op] = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return checkSize(op, name, size) != nil
		})
	}
	return c
}

// checkSize returns an error if an algorithm does not work with size ranks. It accepts every algorithm that is not a
// schedule, because only the backend knows whether such an algorithm works.
func checkSize(op Collective, algorithm string, size int) error {
	if !slices.Contains(schedule.Names(string(op)), algorithm) {
		return nil
	}
	return schedule.Fits(string(op), algorithm, size)
}

// Description contains the properties that a backend declares when it is registered. Planning, launching and analysis
// use them ([Describe]) and never compare the names of backends, so a new backend needs only its package and an import
// that registers it. Name is required.
type Description struct {
	Name string
	Help string // one line
	// Capabilities lists what a group can do if the machine lacks nothing; [Group.Capabilities] may have fewer. A
	// Backend whose algorithms are registered by other packages has a method Capabilities() Capabilities instead, which
	// [Describe] calls.
	Capabilities
	InProcess bool // all ranks of a group are goroutines of one process; false: each rank is a process
	Simulated bool // the clock shows simulated time, which does not depend on anything else that runs on this host
	// Virtual: only rank 0 exists, and its calls stand for the calls of all ranks. The steps of all ranks are proved
	// and timed, but no data moves, so results cannot be checked.
	Virtual bool
	// Hints help to plan, launch, tune and analyse runs. A backend outside of this module may leave them out.
	hints.Hints
}
