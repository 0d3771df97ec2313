package bench

import (
	"errors"

	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Setting is what a [State] is made from. Workers fill it in; a test of a body needs
// to set no more than the Point.
type Setting struct {
	Point     Point // axes and options, one name space
	Group     Group // nil: a single rank
	Ranks     int   // 0: those of the group; more: this rank stands for so many
	LocalRank int
	Backend   string
	Session   string // of the launch: random, the same on every rank
	Trial     int
	Seed      uint64
	Measure   Config // the zero Config: DefaultMeasure
	Clock     Clock  // nil: the monotonic clock
	// Metrics are the declared ones, for [State.Record]; nil: any name is one.
	Metrics []MetricInfo
	// Inputs are the SHA-256 of the files that options name.
	Inputs map[string]string
	// Phase is told what the rank is doing, for heartbeats and failed rows.
	Phase func(phase string)
}

// NewState returns a body's view of a point. Workers call it, and so may a test that
// runs a body in its own process.
func NewState(set Setting) *State {
	if set.Group == nil {
		set.Group = syncgroup.Solo()
	}
	if set.Measure.Cadence == "" {
		set.Measure = measure.Default()
	}
	if set.Clock == nil {
		set.Clock = measure.Monotonic()
	}
	if set.Phase == nil {
		set.Phase = func(string) {}
	}
	return &State{set: set, out: Outcome{
		Kind: journal.Measured, Metrics: map[string]float64{}, Stats: map[string]Stat{},
		Limits: map[string]float64{}, Details: map[string]string{}, Raws: map[string][]byte{},
	}}
}

// Outcome is what one rank reports of one point. Rank 0's numbers make the row; the
// other ranks contribute warnings and failures. Its fields are those of [Row].
type Outcome struct {
	Status   Status             `json:"status"`
	Reason   string             `json:"reason,omitempty"`
	Phase    string             `json:"phase,omitempty"`
	Optional bool               `json:"optional,omitempty"` // of a row that was not executed
	Kind     RowKind            `json:"kind"`
	Clock    string             `json:"clock,omitempty"`
	Cadence  string             `json:"cadence,omitempty"`
	Cache    string             `json:"cache,omitempty"`
	Samples  int                `json:"samples"`
	Batch    int                `json:"batch,omitempty"`
	Metrics  map[string]float64 `json:"metrics,omitempty"`
	Infos    []MetricInfo       `json:"infos,omitempty"`
	Stats    map[string]Stat    `json:"stats,omitempty"`
	Limits   map[string]float64 `json:"limits,omitempty"`
	Skew     *float64           `json:"skew,omitempty"`
	Slowest  *int               `json:"straggler,omitempty"`
	Details  map[string]string  `json:"details,omitempty"`
	Sampling *Sampled           `json:"sampling,omitempty"`
	Warnings []string           `json:"warnings,omitempty"`
	Raw      []byte             `json:"raw,omitempty"`    // measure.Matrix
	Raws     map[string][]byte  `json:"raws,omitempty"`   // the same of other metrics
	Inside   []byte             `json:"inside,omitempty"` // what the clock saw inside the last call
}

// Finish returns what this rank reports, given what its body returned. Workers call
// it, and tests that made the State by [NewState].
func (s *State) Finish(err error) Outcome {
	o := s.out
	_, verified := o.Metrics["wrong"]
	var skip *skipError
	var missing *missingError
	switch {
	case errors.As(err, &skip):
		o.Status, o.Reason = journal.Skipped, skip.reason
	case errors.As(err, &missing):
		o.Status, o.Reason, o.Optional = journal.NotExecuted, missing.reason, !missing.required
	case err != nil:
		o.Status, o.Reason = journal.Failed, err.Error()
		if call, is := errors.AsType[*measure.CallError](err); is && call.Stack != nil {
			o.Reason += "\n" + string(call.Stack)
		}
	case len(o.Metrics) == 0 || len(o.Metrics) == 1 && verified && o.Samples == 0:
		o.Status = journal.Failed
		o.Reason = "the body returned without recording anything: call State.Time or State.Report, or return Skip"
	default:
		o.Status = journal.OK
	}
	if o.Status != journal.OK {
		o.Raw, o.Raws, o.Inside = nil, nil, nil
	}
	return o
}
