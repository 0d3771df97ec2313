package journal

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Quality states whether a row's measurement was disturbed.
type Quality string

// The qualities of a measured row. Simulated and modelled rows have no quality, and neither do rows of
// journals that were written before the field existed.
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
	Metrics   Numbers `json:"metrics"`
	Samples   int     `json:"samples"`
	Disturbed string  `json:"disturbed,omitempty"` // the disturbance; "" if there was none
	Kept      bool    `json:"kept,omitempty"`      // the row has the numbers of this measurement
}

// Disturbance holds the conditions under which a row was measured, as fractions of 1. Unknown ones are 0.
// It does not contain the measured value, so that choosing the least disturbed of several measurements
// cannot favor a desired result.
type Disturbance struct {
	Steal   float64 // of the host's cores, taken by the hypervisor
	Foreign float64 // of the host's cores, used by other programs
	Waiting float64 // of the time, in which ranks waited for a core; 0 if Foreign is known
	Drift   float64 // of the median
	Noise   float64 // of the median
	Crowded bool    // another kernbench was measuring
	GPU     bool    // another program used a GPU, or a GPU was too hot
	Doubted bool    // the program was stopped or starved, or claims an impossible time
}

// Thresholds from which a condition counts as a disturbance. The threshold for CPU steal is low because
// ranks wait for each other: if one of them loses its core, all of them stand still.
const (
	muchSteal   = 0.05
	muchForeign = 0.10
	muchWaiting = 0.50
	muchDrift   = 0.05
	// SettledNoise is the largest half-width of the median's interval, relative to the
	// median, at which a value counts as settled.
	SettledNoise = 0.10
)

// Disturbance returns the conditions stored in the row.
func (r *Row) Disturbance() (d Disturbance) {
	if l := r.Load; l != nil {
		d.Steal, d.Foreign, d.Crowded = l.Steal, deref(l.Foreign), l.Crowd != ""
		// If there are more ranks than cores, ranks wait for cores even on an idle machine.
		if l.Foreign == nil && !slices.ContainsFunc(r.Warnings, func(w string) bool {
			return strings.Contains(w, OversubscribedWarning)
		}) {
			d.Waiting = deref(l.Waiting)
		}
		d.GPU = l.GPU != "" || l.GPUSlowed != ""
	}
	if s := r.Sampling; s != nil {
		d.Drift, d.Noise = math.Abs(deref(s.Drift)), deref(s.Noise)
	}
	d.Doubted = r.warning(doubts) != ""
	return d
}

// doubts are the prefixes of warnings that make a row's numbers doubtful, whatever the load was.
var doubts = []string{ClaimWarning, StoppedWarning, StarvedWarning}

// Prefixes of warnings about a program.
const (
	ClaimWarning   = "claim: "   // it printed an impossible time
	StoppedWarning = "stopped: " // it or the host was stopped while it ran
	StarvedWarning = "starved: " // a rank got no processor for longer than the heartbeat limit
)

// ModesWarning is the prefix of a warning that the samples gather around two values.
const ModesWarning = "two modes: "

// OversubscribedWarning is part of the warning about more ranks than cores.
const OversubscribedWarning = " ranks share "

// ClaimsImpossible reports whether the program of a row printed an impossible time.
func ClaimsImpossible(r *Row) bool { return r.warning([]string{ClaimWarning}) != "" }

// warning returns the first warning with one of the prefixes, or "".
func (r *Row) warning(prefixes []string) string {
	w, _ := lists.First(r.Warnings, func(w string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(w, p) })
	})
	return w
}

// excess returns each condition divided by its threshold. 1 or more is a disturbance.
func (d Disturbance) excess() []float64 {
	list := []float64{d.Steal / muchSteal, d.Foreign / muchForeign, d.Waiting / muchWaiting, d.Drift / muchDrift,
		d.Noise / SettledNoise}
	for _, present := range []bool{d.Crowded, d.GPU, d.Doubted} {
		if present {
			list = append(list, 1)
		}
	}
	return list
}

// Quality returns the quality of a row measured under these conditions.
func (d Disturbance) Quality() Quality {
	if slices.Max(d.excess()) >= 1 {
		return QualityDisturbed
	}
	return QualitySettled
}

// Compare orders disturbances from the least to the greatest: first by quality, then by
// the sum of all conditions relative to their thresholds.
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

// disturbances are the prefixes of warnings that describe a disturbance. Noise warnings are not among
// them: noise may miss its target and still be below SettledNoise, so only the row's quality decides.
var disturbances = []string{"steal: ", "load: ", "another kernbench ", "gpu: ", "drift: "}

const noiseWarning = "noise: "

// Judge sets the quality of a measured row and adds warnings about steal, load, GPUs and other kernbench
// processes. The sampling has already added warnings about the samples.
func (r *Row) Judge() {
	if r.Status != OK || r.Kind != Measured || r.Details[UntimedDetail] != "" {
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
	warn(d.Waiting >= muchWaiting, "load: processes waited for a core in %.0f %% of the time", 100*d.Waiting)
	warn(d.Foreign >= muchForeign, "load: other programs used %.1f %% of this host's cores", 100*d.Foreign)
	if l := r.Load; l != nil {
		warn(l.GPU != "", "gpu: %s", l.GPU)
		warn(l.GPUSlowed != "", "gpu: the GPU lowered its clock because of %s", l.GPUSlowed)
		warn(l.GPUPowerCap, "power: the GPU reached its power limit, which lowers its clock")
	}
	r.Quality = d.Quality()
}

// Disturbed returns what disturbed the measurement of the row, or "" if nothing is known to have
// disturbed it. Every view uses this method, so that all views agree.
func (r *Row) Disturbed() string {
	if r.Quality == QualitySettled {
		return ""
	}
	why := r.warning(disturbances)
	if r.Quality == QualityDisturbed {
		why = cmp.Or(r.warning(doubts), why, r.warning([]string{noiseWarning}), "disturbed")
	}
	return why
}

// Narrow reports whether the interval of a value is narrow enough for a settled value.
func Narrow(low, high, value float64) bool { return high-low <= 2*SettledNoise*math.Abs(value) }
