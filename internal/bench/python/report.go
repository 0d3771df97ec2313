package python

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// counter is a number that the body reports. Combine is how the numbers of the ranks are combined into
// the number of the row: "max" (the default), "sum" or "rank0".
type counter struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Better  string  `json:"better"`
	Combine string  `json:"combine,omitempty"`
}

// combinations are the ways to combine a counter's numbers, in rank order, into one.
var combinations = map[string]func([]float64) float64{
	"":      slices.Max[[]float64],
	"max":   slices.Max[[]float64],
	"sum":   lists.Sum[float64],
	"rank0": func(v []float64) float64 { return v[0] },
}

// report holds the properties of a point that one rank reports before the timing.
type report struct {
	Skip *string `json:"skip,omitempty"`
	prepared
}

// disagreement is an error that this rank has found by comparing the reports of all ranks.
type disagreement struct{ text string }

func (d *disagreement) Error() string { return d.text }

// share compares the reports of the ranks, and puts their counters and texts into the row.
func share(ctx context.Context, s *bench.State, mine report) error {
	all, err := exchange(ctx, s, mine)
	if err != nil {
		return err
	}
	if err := compare(all, s.Rank()); err != nil {
		s.Barrier(ctx) // a rank that fails earlier would end the exchange of the others; its own error does not matter
		return err
	}
	if err := mine.checkAmounts(); err != nil || mine.Skip != nil {
		return err
	}
	for name, text := range mine.Details {
		s.Detail(name, text)
	}
	return record(s, all)
}

// exchange returns the reports of all ranks, in rank order.
func exchange(ctx context.Context, s *bench.State, mine report) ([]report, error) {
	if s.Size() == 1 {
		return []report{mine}, nil
	}
	text, err := json.Marshal(mine)
	if err != nil {
		return nil, fmt.Errorf("comparing the reports of the ranks: %w", err)
	}
	texts, err := s.Exchange(ctx, text)
	if err != nil {
		return nil, err
	}
	all := make([]report, len(texts))
	for rank, text := range texts {
		if err := json.Unmarshal(text, &all[rank]); err != nil {
			return nil, fmt.Errorf("comparing the reports of the ranks: rank %d: %w", rank, err)
		}
	}
	return all, nil
}

// compare returns an error if the ranks disagree on what they must agree on. The rank that differs
// from rank 0 gets the full error, and the others one that refers to it, so that the row names the
// right rank.
func compare(all []report, self int) error {
	for rank, r := range all {
		what, own, theirs := r.difference(all[0])
		if what == "" {
			continue
		}
		if rank != self {
			return fmt.Errorf("rank %d: %w", rank, decl.ErrElsewhere)
		}
		return &disagreement{fmt.Sprintf("ranks disagree on %s: rank 0 %s, rank %d %s", what, theirs, rank, own)}
	}
	return nil
}

// difference returns the first thing on which two ranks differ, and what each did.
func (r report) difference(first report) (what, own, theirs string) {
	did := func(is bool, yes, no string) string {
		if is {
			return yes
		}
		return no
	}
	switch {
	case (r.Skip == nil) != (first.Skip == nil):
		skip := func(r report) string {
			if r.Skip == nil {
				return "did not skip it"
			}
			return fmt.Sprintf("skipped it (%s)", *r.Skip)
		}
		return "this point", skip(r), skip(first)
	case r.Exec != first.Exec:
		return "state.exec", did(r.Exec, "called it", "did not"), did(first.Exec, "called it", "did not")
	case r.Preamble != first.Preamble:
		return "the preamble", did(r.Preamble, "has one", "has none"), did(first.Preamble, "has one", "has none")
	case r.Verify != first.Verify:
		return "state.verify", did(r.Verify, "called it", "did not"), did(first.Verify, "called it", "did not")
	case r.Bytes != first.Bytes:
		return "state.set_bytes", fmt.Sprintf("has %v", r.Bytes), fmt.Sprintf("has %v", first.Bytes)
	case r.Flops != first.Flops:
		return "state.set_flops", fmt.Sprintf("has %v", r.Flops), fmt.Sprintf("has %v", first.Flops)
	case r.calls() != first.calls():
		return "the number of calls", "makes " + r.calls(), "makes " + first.calls()
	}
	return r.counterDifference(first)
}

func (r report) calls() string {
	if r.Repeat == 0 {
		return "as many as needed"
	}
	return fmt.Sprintf("%d + %d", r.Warmup, r.Repeat)
}

// counterDifference compares the declarations of the counters that both ranks report.
func (r report) counterDifference(first report) (what, own, theirs string) {
	form := func(c counter) string {
		return fmt.Sprintf("has unit %q, better %q, combine %q", c.Unit, c.Better, c.Combine)
	}
	for _, c := range r.Counters {
		other, both := lists.First(first.Counters, func(x counter) bool { return x.Name == c.Name })
		if both && form(c) != form(other) {
			return fmt.Sprintf("counter %q", c.Name), form(c), form(other)
		}
	}
	return "", "", ""
}

// record puts the counters of all ranks into the row: each combined over the ranks that report it.
func record(s *bench.State, all []report) error {
	values := map[string][]float64{}
	var found []counter
	for rank, r := range all {
		for _, c := range r.Counters {
			if err := c.check(); err != nil {
				return err
			}
			if c.Combine == "rank0" && rank > 0 {
				continue
			}
			if values[c.Name] == nil {
				found = append(found, c)
			}
			values[c.Name] = append(values[c.Name], c.Value)
		}
	}
	for _, c := range found {
		s.Report(c.Name, combinations[c.Combine](values[c.Name]), c.Unit, c.Better)
	}
	return nil
}

// reservedMetrics are the metrics that kernbench computes itself.
var reservedMetrics = append(lists.Map(decl.SpeedMetrics, func(m journal.MetricInfo) string { return m.Name }),
	decl.LimitMetric, "wrong")

// check rejects counters that would hide a metric of kernbench, or that cannot be combined.
func (c counter) check() error {
	if slices.Contains(reservedMetrics, c.Name) {
		return fmt.Errorf("counter %q: kernbench computes the metric of that name: choose another name", c.Name)
	}
	if named := unit.Contradiction(c.Name, c.Unit); named != "" {
		return fmt.Errorf("counter %q: the name says %s and the unit %s: name it after its unit", c.Name, named, c.Unit)
	}
	if combinations[c.Combine] == nil {
		return fmt.Errorf("counter %q: combine %q: want max, sum or rank0", c.Name, c.Combine)
	}
	return nil
}

// checkAmounts rejects amounts that no call can have.
func (r prepared) checkAmounts() error {
	for name, v := range map[string]float64{"bytes": r.Bytes, "flops": r.Flops} {
		if v < 0 || v > math.MaxInt64 {
			return fmt.Errorf("the point has %v %s: want a number from 0 to 2^63", v, name)
		}
	}
	if r.Warmup < 0 || r.Repeat < 0 {
		return errors.New("the point has a negative number of calls")
	}
	return nil
}
