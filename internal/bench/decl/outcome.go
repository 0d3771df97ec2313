package decl

import (
	"maps"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Setting describes one execution of a body: the point, the rank and the harness around it. Workers
// fill it in. A test of a body needs to set only the Point.
type Setting struct {
	Point     point.Point     // axes and options in one name space
	Group     syncgroup.Group // the ranks; nil means a single rank
	Ranks     int             // if larger than the group, this rank stands for this many ranks
	LocalRank int             // number of this rank among the ranks of its host
	Backend   string
	Session   string // random text that all ranks of a launch share
	Seed      uint64
	Measure   measure.Config // the zero value means measure.Default
	Clock     measure.Clock  // nil means the monotonic clock
	// Metrics are the declared metrics, for State.Record. If nil, any name is accepted.
	Metrics []journal.MetricInfo
	// Inputs are the SHA-256 sums of the files that options name.
	Inputs map[string]string
	// Phase is called with each new phase of the rank, for heartbeats and failed rows.
	Phase func(phase string)
}

// Outcome is the result of one point on one rank. The row has the numbers of rank 0; the other ranks
// contribute warnings and failures. The fields have the same names as in journal.Row.
type Outcome struct {
	Status     journal.Status          `json:"status"`
	Reason     string                  `json:"reason,omitempty"`
	Phase      string                  `json:"phase,omitempty"`
	Optional   bool                    `json:"optional,omitempty"` // for status "not executed"
	Kind       journal.Kind            `json:"kind"`
	Clock      string                  `json:"clock,omitempty"`
	Cadence    string                  `json:"cadence,omitempty"`
	Cache      string                  `json:"cache,omitempty"`
	Samples    int                     `json:"samples"`
	Batch      int                     `json:"batch,omitempty"`
	Metrics    map[string]float64      `json:"metrics,omitempty"`
	Infos      []journal.MetricInfo    `json:"infos,omitempty"`
	Stats      map[string]journal.Stat `json:"stats,omitempty"`
	Limits     map[string]float64      `json:"limits,omitempty"`
	Resolution map[string]float64      `json:"resolution,omitempty"`
	Skew       *float64                `json:"skew,omitempty"`
	Slowest    *int                    `json:"straggler,omitempty"`
	Details    map[string]string       `json:"details,omitempty"`
	Sampling   *journal.Sampling       `json:"sampling,omitempty"`
	Conditions journal.Conditions      `json:"conditions,omitempty"`
	Raw        []byte                  `json:"raw,omitempty"`    // encoded measure.Matrix of time_us
	Raws       map[string][]byte       `json:"raws,omitempty"`   // encoded matrices of other metrics
	Inside     []byte                  `json:"inside,omitempty"` // profile of the last call, from a simulator's clock
}

// Fill copies the outcome to a row whose Metrics and Units are not nil.
func (o *Outcome) Fill(row *journal.Row) {
	row.Status, row.Optional = o.Status, o.Optional
	if o.Status == journal.OK || o.Kind != journal.Measured { // else the body may have ended before it set its clock
		row.Kind = o.Kind
	}
	row.Reason = journal.Text(o.Reason)
	row.Clock, row.Cadence, row.Cache = o.Clock, o.Cadence, o.Cache
	row.Samples, row.Batch = o.Samples, o.Batch
	row.Stats, row.Limits, row.Skew, row.Slowest = journal.NewObject(o.Stats), o.Limits, o.Skew, o.Slowest
	row.Details, row.Sampling = o.Details, o.Sampling
	row.Resolution = o.Resolution
	row.Conditions.Add(o.Conditions...)
	maps.Copy(row.Metrics, o.Metrics)
	for _, m := range o.Infos {
		if m.Unit != "" {
			row.Units[m.Name] = m.Unit
		}
	}
}
