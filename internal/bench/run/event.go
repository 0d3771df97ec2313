package run

import (
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Event is what a run reports to its observer. Exactly one field is set.
type Event struct {
	Started  *Started
	Task     *plan.Task // an attempt of this task starts
	Recorded *journal.Row
	Note     string
}

// Started describes a run that starts.
type Started struct {
	Run      string
	Dir      string
	Rows     int // planned rows
	Done     int // planned rows that --resume found in the journal
	Launches int
	Defaults []string             // axes that have only their default value
	Metrics  []journal.MetricInfo // that the bench declares
	Follows  *journal.HeldError   // the process that executes the run; nil if it is this one
}
