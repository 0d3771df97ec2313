package journal

import (
	"cmp"
	"math"
)

// Quality states whether a row's measurement was disturbed.
type Quality string

// The qualities of a measured row. Simulated, modelled and imported rows have none.
const (
	QualitySettled   Quality = "settled"
	QualityDisturbed Quality = "disturbed"
)

// Sampling records the stopping rule of a row's samples and which condition ended them.
type Sampling struct {
	Stopped    string   `json:"stopped"`         // precise, settled, max-samples, max-time, exact
	Noise      *float64 `json:"noise,omitempty"` // half the width of the median's 95 % interval over the median
	Target     float64  `json:"target"`          // noise at which sampling stops; 0: noise does not stop it
	MinSamples int      `json:"min_samples"`
	MaxSamples int      `json:"max_samples"`
	MinTime    float64  `json:"min_time"` // in seconds
	MaxTime    float64  `json:"max_time"` // in seconds; 0: no limit
	// Drift is the relative difference between the medians of the second and the first half
	// of the samples. It is nil unless the difference is significant.
	Drift *float64 `json:"drift,omitempty"`
}

// Measurement is one of several measurements of a row that was disturbed and measured again.
type Measurement struct {
	Metrics    Numbers    `json:"metrics"`
	Samples    int        `json:"samples"`
	Conditions Conditions `json:"conditions,omitempty"`
	Kept       bool       `json:"kept,omitempty"` // the row has the numbers of this measurement
}

// circumstances returns the conditions of the row, and further conditions from its load and its samples, even weak
// ones.
func circumstances(r *Row) Conditions {
	list := r.Conditions
	add := func(code Code, name string, v *float64) {
		if v != nil && !r.Conditions.Has(code) {
			list.Add(NewCondition(code, Named{name: *v}))
		}
	}
	if l := r.Load; l != nil {
		add(CodeSteal, "share", &l.Steal)
		add(CodeForeign, "share", l.Foreign)
		// If there are more ranks than cores, ranks wait for each other's cores even on an idle machine.
		if l.Foreign == nil && !r.Conditions.Has(CodeCrowded) {
			add(CodeWaiting, "share", l.Waiting)
		}
	}
	if s := r.Sampling; s != nil {
		add(CodeDrift, "change", s.Drift)
		add(CodeNoise, "noise", s.Noise)
	}
	return list
}

// Judge adds conditions that were observed during a measurement. It sets the quality of the row, and adds what
// disturbed it according to its load and its samples.
func Judge(r *Row, seen ...Condition) {
	if r.Status != OK || r.Kind != Measured || r.Details[UntimedDetail] != "" {
		return
	}
	r.Conditions.Add(seen...)
	r.Quality = QualitySettled
	for _, c := range circumstances(r) {
		if c.Strength() >= 1 {
			r.Conditions.Add(c)
			r.Quality = QualityDisturbed
		}
	}
}

// Disturbance is how strongly a row was disturbed, relative to the thresholds. It does not contain the measured
// value, so that choosing the least disturbed of several measurements cannot favor a desired result.
type Disturbance struct {
	disturbed bool
	sum       float64 // of the strengths of all conditions
}

// DisturbanceOf returns how strongly a row was disturbed.
func DisturbanceOf(r *Row) (d Disturbance) {
	for _, c := range circumstances(r) {
		d.sum += c.Strength()
		d.disturbed = d.disturbed || c.Strength() >= 1
	}
	return d
}

// Compare orders disturbances from the least to the greatest.
func (d Disturbance) Compare(e Disturbance) int {
	switch {
	case d.disturbed == e.disturbed:
		return cmp.Compare(d.sum, e.sum)
	case e.disturbed:
		return -1
	}
	return 1
}

// Disturbed reports whether something is known to have disturbed the measurement of the row.
func (r *Row) Disturbed() bool { return r.Quality == QualityDisturbed }

// Compare orders conditions by their strength. Equally strong ones are ordered by their code and text, so that the
// order in which they were found does not matter.
func (c Condition) Compare(d Condition) int {
	return cmp.Or(cmp.Compare(c.Strength(), d.Strength()), cmp.Compare(d.Code, c.Code),
		cmp.Compare(d.Text, c.Text))
}

// Narrow reports whether the interval of a value is narrow enough for a settled value.
func Narrow(low, high, value float64) bool { return high-low <= 2*SettledNoise*math.Abs(value) }
