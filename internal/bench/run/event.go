package run

import (
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Event tells the observer what happens. One field is set.
type Event struct {
	Started  *Started
	Task     *plan.Task // an attempt of this task starts
	Recorded *journal.Row
	Note     string
}

// Started is the start of a run.
type Started struct {
	Run      string
	Dir      string
	Rows     int // planned rows
	Done     int // planned rows that --resume found in the journal
	Launches int
	Defaults []string           // axes with one value, their default
	Follows  *journal.HeldError // the process that does the work, if it is another one
}
