package journal

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Quality is whether anything disturbed a row while it was measured.
type Quality string

// The qualities of a measured row. Rows that are not measured, and those of journals
// from before the mark, have none.
const (
	QualitySettled   Quality = "settled"
	QualityDisturbed Quality = "disturbed"
)

// Sampling is how the samples of a row came about: the rule that was to end them, and
// what did.
type Sampling struct {
	Stopped    string   `json:"stopped"`         // precise, settled, max-samples, max-time, exact
	Noise      *float64 `json:"noise,omitempty"` // half the width of the median's 95 % interval over the median
	Target     float64  `json:"target"`          // of the noise; 0: it was not to end the sampling
	MinSamples int      `json:"min_samples"`
	MaxSamples int      `json:"max_samples"`
	MinTime    float64  `json:"min_time"` // in seconds
	MaxTime    float64  `json:"max_time"` // 0: there was no limit
	// Drift is by how much the median of the second half of the samples differs from
	// that of the first, where that is beyond doubt.
	Drift *float64 `json:"drift,omitempty"`
}

// Measurement is one of the several times that a row was measured: because something
// disturbed it, it was measured again.
type Measurement struct {
	Metrics   Numbers `json:"metrics"`
	Samples   int     `json:"samples"`
	Disturbed string  `json:"disturbed,omitempty"` // by what; absent: by nothing
	Kept      bool    `json:"kept,omitempty"`      // it is the one whose numbers the row has
}

// Disturbance is what went on while a row was measured, as shares of 1; what is not
// known is 0. It says nothing of the value: whoever chose the least disturbed of several
// measurements by their values would find what he hopes for.
type Disturbance struct {
	Steal   float64 // of the host's cores: taken away by the hypervisor
	Foreign float64 // of the host's cores: used by other programs
	Drift   float64 // of the median
	Noise   float64 // of the median
	Crowded bool    // another kernbench was measuring
}

// From these shares on, something disturbs. Ranks that wait for one another stand still
// together when one of them does, so little stolen time is much.
const (
	muchSteal   = 0.05
	muchForeign = 0.10
	muchDrift   = 0.05
	// SettledNoise is the widest half of an interval, relative, of a value that has
	// settled.
	SettledNoise = 0.10
)

// Disturbance is what the row tells of its circumstances.
func (r *Row) Disturbance() (d Disturbance) {
	if l := r.Load; l != nil {
		d.Steal, d.Foreign, d.Crowded = l.Steal, deref(l.Foreign), l.Crowd != ""
	}
	if s := r.Sampling; s != nil {
		d.Drift, d.Noise = math.Abs(deref(s.Drift)), deref(s.Noise)
	}
	return d
}

// excess are the shares over what disturbs: from 1 on, one does.
func (d Disturbance) excess() []float64 {
	list := []float64{d.Steal / muchSteal, d.Foreign / muchForeign, d.Drift / muchDrift, d.Noise / SettledNoise, 0}
	if d.Crowded {
		list[len(list)-1] = 1
	}
	return list
}

// Quality is the mark for a row that was measured like this.
func (d Disturbance) Quality() Quality {
	if slices.Max(d.excess()) >= 1 {
		return QualityDisturbed
	}
	return QualitySettled
}

// Compare orders disturbances, the least one first: what leaves a row settled comes
// before what does not, and otherwise all the shares count.
func (d Disturbance) Compare(e Disturbance) int {
	one, other := d.Quality(), e.Quality()
	switch {
	case one == other:
		return cmp.Compare(lists.Sum(d.excess()), lists.Sum(e.excess()))
	case one == QualitySettled:
		return -1
	}
	return 1
}

// disturbances are how warnings begin that say what disturbed a row. Noise disturbs only
// where it is much, which the mark tells.
var disturbances = []string{"steal: ", "load: ", "another kernbench ", "drift: "}

const noiseWarning = "noise: "

// Judge gives a measured row its mark, and the warnings that its circumstances call for.
// Those about its samples it has already.
func (r *Row) Judge() {
	if r.Status != OK || r.Kind != Measured {
		return
	}
	d := r.Disturbance()
	warn := func(when bool, format string, args ...any) {
		if when {
			r.Warnings = append(slices.Clip(r.Warnings), fmt.Sprintf(format, args...))
		}
	}
	if d.Crowded {
		warn(true, "%s", r.Load.Crowd)
	}
	warn(d.Steal >= muchSteal, "steal: the hypervisor took %.1f %% of this host's cores away", 100*d.Steal)
	warn(d.Foreign >= muchForeign, "load: other programs used %.1f %% of this host's cores", 100*d.Foreign)
	r.Quality = d.Quality()
}

// Disturbed returns what disturbed the row while it was measured, or "" if nothing is
// known to have. It is the one place that decides; every view asks here.
func (r *Row) Disturbed() string {
	if r.Quality == QualitySettled {
		return ""
	}
	found := func(prefixes ...string) string {
		for _, w := range r.Warnings {
			if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(w, p) }) {
				return w
			}
		}
		return ""
	}
	why := found(disturbances...)
	if r.Quality == QualityDisturbed {
		why = cmp.Or(why, found(noiseWarning), "disturbed")
	}
	return why
}

// Narrow reports whether an interval is that of a value which has settled.
func Narrow(low, high, value float64) bool { return high-low <= 2*SettledNoise*value }
