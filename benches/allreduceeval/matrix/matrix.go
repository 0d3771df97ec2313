// Package matrix declares the cells of the bench allreduce-eval: the algorithms
// registered with package schedule, the sizes, the contracts and the failures. It
// also reads and writes the outcomes that a row records. It runs nothing.
package matrix

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// The parts of the bench.
const (
	Correctness = "correctness"
	Contracts   = "contracts"
	Errors      = "errors"
	Performance = "performance"
)

// Auto leaves the choice of algorithm to the backend.
const Auto = "auto"

// Algorithms returns the rows of the correctness matrix: every registered algorithm.
func Algorithms() []string { return names(func(schedule.Info) bool { return true }) }

// Executable returns the algorithms that need no special hardware.
func Executable() []string {
	return names(func(a schedule.Info) bool { return a.Hardware == "" })
}

// Timed returns the algorithms of the performance part: auto, and every executable
// algorithm whose registration gives no reason to leave it out.
func Timed() []string {
	return append([]string{Auto}, names(func(a schedule.Info) bool { return a.Hardware == "" && a.Untimed == "" })...)
}

// KnownAlgorithms returns every name that the axis algorithm accepts.
func KnownAlgorithms() []string { return append(Algorithms(), Auto) }

// Offered returns the algorithms of the matrix that a backend offers by name, or whose codec it accepts.
func Offered(backend string) []string {
	can := dist.Describe(backend).Capabilities
	return lists.Filter(Algorithms(), func(name string) bool {
		codec := Codec(name)
		return slices.Contains(can.Algorithms[dist.AllReduce], name) || codec != nil && can.Takes(*codec)
	})
}

func names(keep func(schedule.Info) bool) []string {
	all := lists.Filter(schedule.Evaluated(schedule.AllReduce), keep)
	return lists.Map(all, func(a schedule.Info) string { return a.Name })
}

// Find returns the properties of an algorithm. They are all zero if it is not
// registered, as for auto and a backend's private algorithms.
func Find(algorithm string) schedule.Info {
	info, _ := schedule.Lookup(schedule.AllReduce, algorithm)
	return info
}

// Codec returns the codec of an algorithm that moves encoded elements, or nil.
func Codec(algorithm string) *quant.Codec {
	if c, ok := quant.Named(Find(algorithm).Codec); ok {
		return &c
	}
	return nil
}

// Help describes an algorithm in one line.
func Help(algorithm string) string {
	if algorithm == Auto {
		return "the backend's own choice"
	}
	return Find(algorithm).Help
}

// Size is a vector length and one cell of the correctness matrix: Bytes worth of
// elements, and Extra elements more (or fewer, if negative).
type Size struct {
	Bytes    int
	Extra    int  // elements
	Streamed bool // take the code path that is otherwise kept for calls far larger than the caches
}

// Count returns the number of elements, each width bytes wide.
func (s Size) Count(width int) int { return s.Bytes/width + s.Extra }

// String returns "0", "1 element", "8Ki", "8Ki+1", "1Mi-1" or "1Mi-1 streamed".
func (s Size) String() string {
	switch {
	case s.Streamed:
		return Size{Bytes: s.Bytes, Extra: s.Extra}.String() + " streamed"
	case s == Size{}:
		return "0"
	case s.Bytes == 0:
		return fmt.Sprintf("%d element", s.Extra)
	case s.Extra == 0:
		return unit.FormatBytes(int64(s.Bytes))
	}
	return fmt.Sprintf("%s%+d", unit.FormatBytes(int64(s.Bytes)), s.Extra)
}

// The sets of sizes, which are the values of the axis sizes.
const (
	Smoke = "smoke" // the fewest that touch whole and incomplete blocks
	Quick = "quick"
	Wide  = "wide" // the range of the full set, 8 KiB to 64 MiB, in few steps
	Full  = "full"
)

// Sizes returns the sizes of a set.
func Sizes(set string) ([]Size, error) {
	const k, m = 1 << 10, 1 << 20
	list := []Size{{}, {Extra: 1}}
	switch set {
	case Smoke:
		return append(list, Size{Bytes: 8 * k, Extra: 1}), nil
	case Quick:
		return append(list, Size{Bytes: 8 * k}, Size{Bytes: 8 * k, Extra: 1}, Size{Bytes: m, Extra: -1},
			Size{Bytes: m, Extra: -1, Streamed: true}), nil
	case Wide:
		for _, bytes := range []int{8 * k, 64 * k, 512 * k, 4 * m, 64 * m} {
			list = append(list, Size{Bytes: bytes}, Size{Bytes: bytes, Extra: 7})
		}
		return list, nil
	case Full:
		return append(list, PowersOfTwo(8*k, 64*m)...), nil
	}
	return nil, suggest.Unknown("set of sizes", set, []string{Smoke, Quick, Wide, Full})
}

// PowersOfTwo returns the powers of two from one number of bytes to another, each
// alone and with 1, 7 and 24 more elements. The extra elements leave blocks, vector
// registers and codec groups incomplete.
func PowersOfTwo(from, to int) (list []Size) {
	for bytes := from; bytes <= to; bytes *= 2 {
		for _, extra := range []int{0, 1, 7, 24} {
			list = append(list, Size{Bytes: bytes, Extra: extra})
		}
	}
	return list
}

// FloatTypes are the cells of a contract's row.
var FloatTypes = []dist.DType{dist.BF16, dist.F16, dist.F32, dist.F64}

// The contracts on bits that package dist documents. They are tested on inputs for
// which every order of additions rounds differently.
const (
	AcrossRanks  = "ranks"  // every rank gets the same bits
	AcrossRuns   = "runs"   // every run gives the same bits
	AcrossSizes  = "sizes"  // an element does not depend on how many follow it
	AcrossStages = "stages" // switching between one and two stages does not change an element
)

// Contract is a promise about bits.
type Contract struct{ Name, Title, Help string }

// Promises lists the contracts in the order of the report.
var Promises = []Contract{
	{AcrossRanks, "equal on all ranks", "every rank gets the same bits"},
	{AcrossRuns, "equal in every run", "every run gives the same bits"},
	{AcrossSizes, "equal at every size", "an element does not depend on the size"},
	{AcrossStages, "equal across the one-/two-stage switch", "one and two stages give the same bits"},
}

// ContractNames returns the names of the contracts.
func ContractNames() []string { return lists.Map(Promises, func(c Contract) string { return c.Name }) }

// Promise returns the contract of that name.
func Promise(name string) Contract {
	c, _ := lists.First(Promises, func(c Contract) bool { return c.Name == name })
	return c
}

// CheckPromised returns nil if an algorithm promises a contract, and otherwise an error with the reason.
// The answer follows from the order of additions that the algorithm declares.
func CheckPromised(contract, algorithm string) error {
	rankOrder := Find(algorithm).Order == schedule.RankOrder
	switch {
	case Promise(contract).Name == "":
		return suggest.Unknown("contract", contract, ContractNames())
	case contract == AcrossSizes && !rankOrder:
		return fmt.Errorf("not promised: the block boundaries of %s, and so its order of additions, depend on the size",
			algorithm)
	case contract == AcrossStages && !rankOrder:
		return fmt.Errorf("not promised: %s does not add in rank order", algorithm)
	case contract == AcrossStages && Partner(algorithm) == "":
		return fmt.Errorf("not promised: no other algorithm has the same order of additions as %s", algorithm)
	}
	return nil
}

// Partner returns another algorithm that adds in rank order, preferably one with the
// same intermediate roundings, or "" if there is none.
func Partner(algorithm string) string {
	others := names(func(a schedule.Info) bool { return a.Order == schedule.RankOrder && a.Name != algorithm })
	alike := func(name string) bool { return Find(name).Wide == Find(algorithm).Wide }
	if i := slices.IndexFunc(others, alike); i >= 0 {
		return others[i]
	}
	return append(others, "")[0]
}

// Failure is a mistake or failure of one rank that all ranks must notice.
type Failure struct {
	Name      string
	Help      string
	Mentions  []string // texts in the error of every rank; T and U stand for the element types
	NamesPeer bool     // the error must be a dist.PeerError that names the culprit
}

// The names of the failures.
const (
	DuplicateRank = "duplicate-rank"
	OtherCount    = "other-count"
	OtherDType    = "other-dtype"
	SmallBuffer   = "small-buffer"
	Leaves        = "leaves"
	Stalls        = "stalls"
	Dies          = "dies"
)

// Failures lists the failures in the order of the report.
var Failures = []Failure{
	{Name: DuplicateRank, Help: "two processes claim the same rank"},
	{Name: OtherCount, Help: "one rank has one element more", Mentions: []string{"1000 T", "1001 T"}},
	{Name: OtherDType, Help: "one rank has another element type", Mentions: []string{"1000 T", "1000 U"}},
	{Name: SmallBuffer, Help: "one rank's output is too small", Mentions: []string{"out has 900 elements"}},
	{Name: Leaves, Help: "one rank leaves the group instead of calling", NamesPeer: true},
	{Name: Stalls, Help: "one rank stops half-way and stays alive", NamesPeer: true},
	{Name: Dies, Help: "one rank's process is killed half-way", NamesPeer: true},
}

// NoFault is the value of the option mutate that plants no fault.
const NoFault = "none"

// Outcome is the result of one cell.
type Outcome struct {
	Cell   string // size, element type or failure
	Status string // ok, failed, skipped or not-executed
}

// FormatOutcomes encodes outcomes for the detail "cells" of a row.
func FormatOutcomes(list []Outcome) string {
	parts := lists.Map(list, func(o Outcome) string { return o.Cell + "=" + o.Status })
	return strings.Join(parts, ", ")
}

// ParseOutcomes decodes the text that FormatOutcomes wrote.
func ParseOutcomes(text string) (list []Outcome) {
	for _, part := range strings.Split(text, ", ") {
		if name, status, ok := strings.Cut(part, "="); ok {
			list = append(list, Outcome{name, status})
		}
	}
	return list
}
