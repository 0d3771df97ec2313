package matrix

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// The parts of the bench.
const (
	Correctness = "correctness"
	Contracts   = "contracts"
	Errors      = "errors"
	Performance = "performance"
)

// FloatTypes are the cells of a row of contracts.
var FloatTypes = []dist.DType{dist.BF16, dist.F16, dist.F32, dist.F64}

// The contracts on bits that package dist documents, each on inputs for which
// every order of additions rounds in its own way.
const (
	AcrossRanks  = "ranks"  // every rank gets the same bits
	AcrossRuns   = "runs"   // so does every run
	AcrossSizes  = "sizes"  // an element does not depend on how many follow it
	AcrossStages = "stages" // nor on the switch between one and two stages
)

// ContractTitle heads a column of the report, ContractHelp says what is promised.
var (
	ContractTitle = map[string]string{
		AcrossRanks:  "equal on all ranks",
		AcrossRuns:   "equal in every run",
		AcrossSizes:  "equal at every size",
		AcrossStages: "equal across the one-/two-stage switch",
	}
	ContractHelp = map[string]string{
		AcrossRanks:  "every rank gets the same bits",
		AcrossRuns:   "every run gives the same bits",
		AcrossSizes:  "an element does not depend on the size",
		AcrossStages: "one and two stages give the same bits",
	}
)

// ContractNames lists them.
var ContractNames = []string{AcrossRanks, AcrossRuns, AcrossSizes, AcrossStages}

// Promised is an error that says why a contract is not promised of an algorithm:
// that follows from the order of additions that it declares.
func Promised(contract, algorithm string) error {
	rankOrder := Find(algorithm).Order == schedule.RankOrder
	switch {
	case !slices.Contains(ContractNames, contract):
		return suggest.Unknown("contract", contract, ContractNames)
	case contract == AcrossSizes && !rankOrder:
		return fmt.Errorf("not promised: where the blocks of %s begin, and so its order of additions, depends on the size",
			algorithm)
	case contract == AcrossStages && !rankOrder:
		return fmt.Errorf("not promised: %s has an order of additions of its own", algorithm)
	case contract == AcrossStages && Partner(algorithm) == "":
		return fmt.Errorf("not promised: no other algorithm has the order of additions of %s", algorithm)
	}
	return nil
}

// Partner is another algorithm that adds up in rank order, if possible with the
// same roundings on the way.
func Partner(algorithm string) string {
	others := names(func(a schedule.Info) bool { return a.Order == schedule.RankOrder && a.Name != algorithm })
	alike := func(name string) bool { return Find(name).Wide == Find(algorithm).Wide }
	if i := slices.IndexFunc(others, alike); i >= 0 {
		return others[i]
	}
	return append(others, "")[0]
}

// Failure is a mistake or a failure of one rank that the others must notice.
type Failure struct {
	Name string
	Help string
}

// The failures.
const (
	DuplicateRank = "duplicate-rank"
	OtherCount    = "other-count"
	OtherDType    = "other-dtype"
	SmallBuffer   = "small-buffer"
	Leaves        = "leaves"
	Stalls        = "stalls"
	Dies          = "dies"
)

// Failures lists them.
var Failures = []Failure{
	{DuplicateRank, "two processes claim the same rank"},
	{OtherCount, "one rank has one element more"},
	{OtherDType, "one rank has another element type"},
	{SmallBuffer, "one rank's output is too small"},
	{Leaves, "one rank leaves the group instead"},
	{Stalls, "one rank stops half-way and stays alive"},
	{Dies, "one rank's process is killed half-way"},
}

// NoFault is the value of the option mutate that plants none.
const NoFault = "none"

// Outcome is what became of a cell.
type Outcome struct {
	Cell   string // size, element type or failure
	Status string // ok, failed, skipped or not-executed
}

// FormatOutcomes is how a row records them.
func FormatOutcomes(list []Outcome) string {
	parts := lists.Map(list, func(o Outcome) string { return o.Cell + "=" + o.Status })
	return strings.Join(parts, ", ")
}

// ParseOutcomes reads what a row has recorded.
func ParseOutcomes(text string) (list []Outcome) {
	for _, part := range strings.Split(text, ", ") {
		if name, status, ok := strings.Cut(part, "="); ok {
			list = append(list, Outcome{name, status})
		}
	}
	return list
}
