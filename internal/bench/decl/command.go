package decl

import (
	"time"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Command is a program that runs once per rank and point instead of a body. Sweep files
// declare it.
type Command struct {
	Argv  []string // {axis} is replaced by the axis' value; no shell is involved
	Dir   string
	Parse ParseOutput
	// OwnRanks means that the program starts its own ranks. It is launched once per point, and the
	// row's num_ranks is null.
	OwnRanks bool
	// Inputs are SHA-256 sums of the declaration that a row depends on besides its point: the
	// commands, and how their output is read.
	Inputs map[string]string
	// Files are patterns of files that the program uses, relative to Dir.
	Files []string
	// Columns are the coordinates that tables in the output add to the point, as far as they are known.
	Columns []Axis
	// Prepare runs once before the first launch, Setup before each point and Cleanup after each
	// point, even a failed one. They are argument lists like Argv; empty means none.
	Prepare, Setup, Cleanup []string
	// Warmup is the number of launches per point whose results are discarded.
	Warmup int
	// Until decides how often a point is launched. Each launch is a sample of UntilMetric. The zero value
	// means one launch.
	Until       measure.Stop
	UntilMetric string
}

// Launches returns the largest number of launches of a point, warm-up included.
func (c *Command) Launches() int { return c.Warmup + max(c.Until.MaxSamples, 1) }

// RankOutput is the output of one rank of a command.
type RankOutput struct {
	Rank   int
	Stdout []byte
	Stderr []byte
	Wall   time.Duration
	CPU    time.Duration // processor time of the rank and its descendants; 0 if unknown
}

// ParsedRow is one row found in a command's output.
type ParsedRow struct {
	Extra   point.Point          // coordinates to add to the point: the key columns of a table
	Printed point.Point          // coordinates that the point has already, as the program printed them
	Samples map[string][]float64 // one or more values by metric
	// Wrong is the reason why the result is incorrect, from the program or from a check of its output.
	// Such a row has failed, even if it has samples.
	Wrong string
	// Doubt says that a time in the output is impossible, if one is.
	Doubt journal.Conditions
}

// ParseOutput converts the output of all ranks into rows. It returns an error if there are none.
type ParseOutput func(ranks []RankOutput) ([]ParsedRow, error)
