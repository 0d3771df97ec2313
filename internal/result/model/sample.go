package model

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/bandwidth"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// Series identifies the samples that lie on one curve: everything about a row except its size.
type Series struct {
	Algorithm string
	DType     string
	Backend   string
	Ranks     int
	InPlace   bool
	Buffers   string // "symmetric", "private", or "" if the row does not say
	Variant   string // all other coordinates and swept variables, such as "epilogue=true"
	Sharing   int    // ranks on one GPU, so that its memory was measured and no link; 0 if no GPU is shared
}

// String returns a description such as "ring, bf16, 4 ranks, in place, cuda".
func (s Series) String() string {
	parts := []string{s.Algorithm, s.DType, unit.Plural(s.Ranks, "rank"), placeText(s.InPlace), s.Buffers, s.Variant,
		s.Backend}
	if s.Sharing > 0 {
		parts = append(parts, fmt.Sprintf("%d on one GPU", s.Sharing))
	}
	return strings.Join(lists.NonEmpty(parts...), ", ")
}

// Digest returns the SHA-256 of what results computed from the samples depend on: it changes if any number changes.
// It covers values, so that renaming a field changes nothing.
func Digest(samples []Sample) string {
	h := sha256.New()
	for _, s := range samples {
		names := []string{s.Algorithm, s.DType, s.Backend, s.Buffers, s.Variant, s.Kind, s.Host, s.Device, s.Executed,
			s.UtilisationOf}
		if s.Disturbance != nil {
			names = append(names, s.Disturbance.Sentence())
		}
		fmt.Fprintf(h, "%q %v\n", names, []any{s.Ranks, s.InPlace, s.Sharing, s.Bytes, s.TimeUS, s.LowUS, s.HighUS, s.Samples,
			s.Launches, s.Limits, s.Traffic, s.Utilisation})
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// Setting returns the series without its algorithm. Algorithms compete within a setting.
func (s Series) Setting() Series {
	s.Algorithm = ""
	return s
}

// Compare orders series as tables list them: by backend, ranks, type, then the rest.
func (s Series) Compare(t Series) int {
	return cmp.Or(cmp.Compare(s.Backend, t.Backend), cmp.Compare(s.Ranks, t.Ranks), cmp.Compare(s.DType, t.DType),
		cmp.Compare(s.Buffers, t.Buffers), cmp.Compare(s.Variant, t.Variant), cmp.Compare(s.Sharing, t.Sharing),
		cmp.Compare(placeText(s.InPlace), placeText(t.InPlace)), cmp.Compare(s.Algorithm, t.Algorithm))
}

// placeText returns "" for out of place, which sorts first.
func placeText(inPlace bool) string {
	if inPlace {
		return "in place"
	}
	return ""
}

// Sample is the time of one all-reduce, with its trials merged.
type Sample struct {
	Series
	Bytes int64

	TimeUS float64
	// LowUS and HighUS are the 95 % interval of a time from one launch, or the range of several
	// launches. Both are 0 if it is not known.
	LowUS    float64
	HighUS   float64
	Samples  int
	Launches int // launches whose times count: the undisturbed ones, or all if all were disturbed

	// Limits holds the least time in microseconds that each named ceiling allows.
	Limits map[string]float64
	// Traffic is the number of bytes that the busiest rank exchanges with its peers, or 0 if it is not
	// known for the algorithm.
	Traffic int64
	// Utilisation is a share of a ceiling in per cent, as the row states it, and UtilisationOf names
	// the ceiling. A stated utilisation without a name causes a warning.
	Utilisation   float64
	UtilisationOf string

	Kind        string             // measured, simulated or modelled
	Disturbance *journal.Condition // what disturbed the measurement most; nil if nothing did
	Host        string             // where it was measured
	Device      string             // the kind of GPU that every rank had; "" if there was none or it is not known
	Executed    string             // the algorithm that ran, if the row says so; for auto, the one it took
	Rows        dataset.Set        // the trials from which the sample was made
}

// ThroughMemory reports whether the data goes through memory that the ranks share. Then caches decide
// the rate, and not the traffic over a link.
func (s Sample) ThroughMemory() bool { return s.Sharing > 0 || dist.Describe(s.Backend).HostMemory }

// AlgBW returns the size over the time, in GB/s (see docs/bandwidth.md).
func (s Sample) AlgBW() float64 { return float64(s.Bytes) / s.TimeUS / 1e3 }

// BusBW returns AlgBW times 2(n-1)/n, as nccl-tests defines it for an all-reduce.
func (s Sample) BusBW() float64 { return s.AlgBW() * busFactor(s.Ranks) }

func busFactor(ranks int) float64 {
	f, _ := bandwidth.Factor(allReduce, ranks)
	return f
}

// noise returns half the width of the interval relative to the time, or 0 if it is not known.
func (s Sample) noise() float64 {
	if s.LowUS <= 0 || s.HighUS < s.LowUS || s.TimeUS <= 0 {
		return 0
	}
	return (s.HighUS - s.LowUS) / 2 / s.TimeUS
}

// computed reports whether the time is exact because it was simulated or modelled.
func (s Sample) computed() bool {
	return s.Kind == string(journal.Simulated) || s.Kind == string(journal.Modelled)
}

// interval returns the interval of the time, which is a point if it was computed. known is false for
// a measured time without an interval.
func (s Sample) interval() (r judge.Range, known bool) {
	switch {
	case s.LowUS > 0 && s.HighUS >= s.LowUS:
		return judge.Range{Low: s.LowUS, High: s.HighUS}, true
	case s.computed():
		return judge.Range{Low: s.TimeUS, High: s.TimeUS}, true
	}
	return judge.Range{}, false
}

// Settled reports whether the time is reliable: it was computed, or it was measured without
// disturbance and its interval is narrow (see journal.Narrow).
func (s Sample) Settled() bool {
	r, known := s.interval()
	return known && s.Disturbance == nil && journal.Narrow(r.Low, r.High, s.TimeUS)
}

// Doubtful reports whether the time is known to be unreliable: it was disturbed, or its interval is
// wide. A time without an interval is not known to be.
func (s Sample) Doubtful() bool {
	_, known := s.interval()
	return s.Disturbance != nil || known && !s.Settled()
}

// Repeated reports whether the time comes from enough launches to be compared with others. Launches
// differ by more than the samples of one. Computed times are exact and need none.
func (s Sample) Repeated() bool { return s.computed() || s.Launches >= judge.MinLaunches }

// Comparable reports whether the time has settled over enough launches.
func (s Sample) Comparable() bool { return s.Settled() && s.Repeated() }

// Slower reports whether this time is significantly longer than another: by more than minLead, and
// with intervals that do not overlap. It is false unless both have an interval and enough launches.
// The ranges of four launches each are disjoint by chance in 2 of 70 cases.
func (s Sample) Slower(than Sample) bool {
	r, known := s.interval()
	other, otherKnown := than.interval()
	return known && otherKnown && s.Repeated() && than.Repeated() && other.Below(r) &&
		s.TimeUS > than.TimeUS*(1+minLead)
}

// RatioTo returns the interval of this time divided by another. Both must have intervals.
func (s Sample) RatioTo(than Sample) (low, high float64) {
	r, _ := s.interval()
	other, _ := than.interval()
	return r.Low / other.High, r.High / other.Low
}

// TimeOf returns the sample of one point, of any operation, from the rows of its trials.
func TimeOf(trials dataset.Set) Sample {
	s := sampleOf(*trials.Merge())
	s.Rows = trials
	for _, r := range trials.Counting() {
		s.Launches += dataset.Launches(r)
	}
	return s
}

// Axes with a field of their own in Series or Sample, metrics, and axis values.
const (
	opAxis        = "op"
	sizeAxis      = "size"
	algorithmAxis = "algorithm"
	dtypeAxis     = "dtype"
	inPlaceAxis   = "inplace"
	buffersAxis   = "buffers"
	reductionAxis = "reduction"

	timeMetric    = "time_us"
	trafficMetric = "traffic_bytes"

	allReduce = "allreduce"
	// Auto stands for the algorithm that the tuning table chooses.
	Auto = "auto"
)

// SamplesOf returns one sample for each point of the timed all-reduces among the rows, in order of
// series and size. It skips rows of other operations and rows without a size or a valid time.
func SamplesOf(rows dataset.Set) []Sample {
	timed := lists.Filter(rows, func(r *journal.Row) bool {
		return r.Status == journal.OK && r.Metrics[timeMetric] > 0 && isAllReduce(r)
	})
	var out []Sample
	for _, host := range lists.GroupBy(timed, func(r *journal.Row) string { return r.Host }) { // a table is for one host
		out = append(out, lists.Map(host.Items.Points(), TimeOf)...)
	}
	slices.SortStableFunc(out, func(a, b Sample) int {
		return cmp.Or(a.Series.Compare(b.Series), cmp.Compare(a.Bytes, b.Bytes))
	})
	return out
}

// isAllReduce reports whether the row is an all-reduce. A row without an operation counts as one if it
// has a size.
func isAllReduce(r *journal.Row) bool {
	if v, has := r.Point.Get(sizeAxis); !has || v.Int() <= 0 {
		return false
	}
	op, has := r.Point.Get(opAxis)
	return !has || op.String() == allReduce
}

func envText(r *journal.Row) string {
	return strings.Join(lists.Map(r.Env, func(e point.EnvVar) string { return e.Name + "=" + e.Text() }), " ")
}

func sampleOf(r journal.Row) Sample {
	s := Sample{TimeUS: r.Metrics[timeMetric], Samples: r.Samples, Kind: string(r.Kind), Limits: maps.Clone(r.Limits),
		Host: r.Host, Device: cmp.Or(r.Details[journal.DeviceDetail], r.Details["device"]),
		Executed: r.Details[algorithmAxis]}
	if r.Disturbed() {
		why := r.Conditions.Strongest()
		s.Disturbance = &why
	}
	s.Backend, s.Buffers, s.Sharing = r.Backend, r.Details[buffersAxis], r.Sharing()
	if r.NumRanks != nil {
		s.Ranks = *r.NumRanks
	}
	var variant []string
	for _, c := range r.Point {
		switch c.Name {
		case opAxis:
		case sizeAxis:
			s.Bytes = c.Value.Int()
		case algorithmAxis:
			s.Algorithm = c.Value.String()
		case dtypeAxis:
			s.DType = c.Value.String()
		case inPlaceAxis:
			s.InPlace = c.Value.String() == "true"
		case buffersAxis:
			s.Buffers = c.Value.String()
		default:
			// A default value does not distinguish a curve from one without the coordinate.
			if v := c.Value.String(); v != "false" && v != "none" && (c.Name != reductionAxis || v != "sum") {
				variant = append(variant, c.Name+"="+v)
			}
		}
	}
	if env := envText(&r); env != "" {
		variant = append(variant, env)
	}
	s.Variant = strings.Join(variant, " ")
	if st := r.Stats.Get(timeMetric); st.CILow != nil && st.CIHigh != nil {
		s.LowUS, s.HighUS = *st.CILow, *st.CIHigh
	} else if st.Min > 0 && st.Max > st.Min && s.Samples <= 1 {
		s.LowUS, s.HighUS = st.Min, st.Max // merged trials have a range only
	}
	if t := r.Metrics[trafficMetric]; t > 0 {
		s.Traffic = int64(t)
	} else {
		s.Traffic, _ = Traffic(s.Algorithm, s.Ranks, s.Bytes)
	}
	s.Utilisation, s.UtilisationOf = statedUtilisation(r)
	return s
}

// statedUtilisation returns the utilisation that the row states, in per cent, and its denominator: the
// detail "utilisation_of", or else the names of the row's limits.
func statedUtilisation(r journal.Row) (percent float64, of string) {
	for _, name := range []string{"utilisation", "utilization", "pct_of_limit"} {
		if v, has := r.Metrics[name]; has {
			of = r.Details["utilisation_of"]
			if of == "" && len(r.Limits) > 0 {
				of = strings.Join(slices.Sorted(maps.Keys(r.Limits)), ", ")
			}
			return v, of
		}
	}
	return 0, ""
}

// group is a set of samples with the same key, which is their series or a part of it.
type group = lists.Group[Series, []Sample]

// groupBy groups the samples and sorts the groups by key.
func groupBy(samples []Sample, key func(Sample) Series) []group {
	groups := lists.GroupBy(samples, key)
	slices.SortFunc(groups, func(a, b group) int { return a.Key.Compare(b.Key) })
	return groups
}

// bySeries groups the samples by series, in order of series and size.
func bySeries(samples []Sample) []group {
	groups := groupBy(samples, func(s Sample) Series { return s.Series })
	for _, g := range groups {
		slices.SortStableFunc(g.Items, func(a, b Sample) int { return cmp.Compare(a.Bytes, b.Bytes) })
	}
	return groups
}
