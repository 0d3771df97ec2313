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

	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// Series is everything about a row but its size: what shares one curve.
type Series struct {
	Algorithm string
	DType     string
	Backend   string
	Ranks     int
	InPlace   bool
	Buffers   string // "symmetric", "private" or "" where the row does not say
	Variant   string // every other coordinate and swept variable, such as "epilogue=true"
	Sharing   int    // ranks on one GPU, whose memory is then what was measured; 0: no GPU is shared
}

// String names the series for people.
func (s Series) String() string {
	parts := []string{s.Algorithm, s.DType, unit.Plural(s.Ranks, "rank")}
	if s.InPlace {
		parts = append(parts, "in place")
	}
	parts = append(parts, s.Buffers, s.Variant, s.Backend)
	if s.Sharing > 0 {
		parts = append(parts, fmt.Sprintf("%d on one GPU", s.Sharing))
	}
	return strings.Join(lists.NonEmpty(parts...), ", ")
}

// Digest is the SHA-256 of samples: equal ones give equal results.
func Digest(samples []Sample) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%#v", samples)))
}

// Compare orders series for tables: backend, ranks, type, then the rest.
func (s Series) Compare(t Series) int {
	return cmp.Or(cmp.Compare(s.Backend, t.Backend), cmp.Compare(s.Ranks, t.Ranks), cmp.Compare(s.DType, t.DType),
		cmp.Compare(s.Buffers, t.Buffers), cmp.Compare(s.Variant, t.Variant), cmp.Compare(s.Sharing, t.Sharing),
		compareBool(s.InPlace, t.InPlace), cmp.Compare(s.Algorithm, t.Algorithm))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Sample is the time of one all-reduce, trials merged.
type Sample struct {
	Series
	Bytes int64

	TimeUS  float64
	LowUS   float64 // 95 % interval of TimeUS; both 0 when it is not known
	HighUS  float64
	Samples int

	// Limits are the least times that named ceilings allow, in microseconds.
	Limits map[string]float64
	// Traffic is how many bytes the busiest rank moves to or from its peers; 0
	// when the algorithm does not tell.
	Traffic int64
	// Utilisation is a share of some ceiling in per cent that the row states,
	// and UtilisationOf that ceiling; "" is a number without a denominator.
	Utilisation   float64
	UtilisationOf string

	Kind        string // measured, simulated or modelled
	Disturbance string // what disturbed it while it was measured; "" is nothing
	Host        string // where it was measured
	Device      string // the kind of GPU that every rank had; "" is none, or nobody knows
	Executed    string // the algorithm that ran, where the row tells: what auto took
	Rows        []int  // where the sample comes from: indices into the rows
}

// ThroughMemory tells whether the data goes through memory that the ranks share, so that
// its caches and not the traffic of a link decide.
func (s Sample) ThroughMemory() bool { return s.Sharing > 0 || dist.Describe(s.Backend).HostMemory }

// AlgBW and BusBW are the two bandwidths of docs/bandwidth.md, in GB/s.
func (s Sample) AlgBW() float64 { return float64(s.Bytes) / s.TimeUS / 1e3 }

// BusBW is AlgBW times 2(n-1)/n.
func (s Sample) BusBW() float64 { return s.AlgBW() * busFactor(s.Ranks) }

func busFactor(ranks int) float64 {
	f, _ := bandwidth.Factor(allReduce, ranks)
	return f
}

// noise is half the width of the interval, relative; 0 when it is not known.
func (s Sample) noise() float64 {
	if s.LowUS <= 0 || s.HighUS < s.LowUS || s.TimeUS <= 0 {
		return 0
	}
	return (s.HighUS - s.LowUS) / 2 / s.TimeUS
}

// interval is where the time lies. What is computed has no noise; of a time
// without an interval nobody knows.
func (s Sample) interval() (r judge.Range, known bool) {
	switch {
	case s.LowUS > 0 && s.HighUS >= s.LowUS:
		return judge.Range{Low: s.LowUS, High: s.HighUS}, true
	case s.Kind == string(journal.Simulated) || s.Kind == string(journal.Modelled):
		return judge.Range{Low: s.TimeUS, High: s.TimeUS}, true
	}
	return judge.Range{}, false
}

// Settled tells whether the time can stand for its point: it is computed, or measured
// undisturbed and known well enough.
func (s Sample) Settled() bool {
	r, known := s.interval()
	return known && s.Disturbance == "" && journal.Narrow(r.Low, r.High, s.TimeUS)
}

// Slower tells whether this time is longer than another beyond doubt and by enough
// to matter: by more than evenLead, with intervals that do not meet.
func (s Sample) Slower(than Sample) bool {
	r, known := s.interval()
	other, otherKnown := than.interval()
	return known && otherKnown && other.Below(r) && s.TimeUS > than.TimeUS*(1+minLead)
}

// RatioTo is how many times as long as another this time is, as an interval. Both have
// one.
func (s Sample) RatioTo(than Sample) (low, high float64) {
	r, _ := s.interval()
	other, _ := than.interval()
	return r.Low / other.High, r.High / other.Low
}

// TimeOf is the time of the trials of one point, of any operation.
func TimeOf(trials []*journal.Row) Sample {
	return sampleOf(journal.MergeTrials(lists.Map(trials, func(r *journal.Row) journal.Row {
		trial := *r
		trial.Key = "" // one point, whatever key each row was given
		return trial
	}))[0])
}

// The coordinates that have a field of their own.
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
	// Auto is the algorithm that a table chooses.
	Auto = "auto"
)

// SamplesOf takes the timed all-reduces out of the rows, one sample for each
// point, in order of series and size. Rows of other operations, without a size
// or without a good time are left out.
func SamplesOf(rows []journal.Row) []Sample {
	timed := lists.Filter(lists.Range[int](len(rows)), func(i int) bool {
		return rows[i].Status == journal.OK && rows[i].Metrics[timeMetric] > 0 && isAllReduce(&rows[i])
	})
	points := lists.GroupBy(timed, func(i int) string { return identity(&rows[i]) })
	out := lists.Map(points, func(g lists.Group[string, int]) Sample {
		s := TimeOf(lists.Map(g.Items, func(i int) *journal.Row { return &rows[i] }))
		s.Rows = g.Items
		return s
	})
	slices.SortStableFunc(out, func(a, b Sample) int {
		return cmp.Or(a.Series.Compare(b.Series), cmp.Compare(a.Bytes, b.Bytes))
	})
	return out
}

// isAllReduce: a row without an operation is taken for one if it has a size.
func isAllReduce(r *journal.Row) bool {
	if v, has := r.Point.Get(sizeAxis); !has || v.Int() <= 0 {
		return false
	}
	op, has := r.Point.Get(opAxis)
	return !has || op.String() == allReduce
}

// identity is what the trials of one point share.
func identity(r *journal.Row) string {
	ranks := -1
	if r.NumRanks != nil {
		ranks = *r.NumRanks
	}
	return fmt.Sprint(r.Bench, "\x00", r.Part, "\x00", r.Point, "\x00", ranks, "\x00", r.Backend, "\x00", envText(r),
		"\x00", r.Options, "\x00", r.Host, "\x00", r.Sharing())
}

func envText(r *journal.Row) string {
	return strings.Join(lists.Map(r.Env, func(e point.EnvVar) string { return e.Name + "=" + e.Text() }), " ")
}

func sampleOf(r journal.Row) Sample {
	s := Sample{TimeUS: r.Metrics[timeMetric], Samples: r.Samples, Kind: string(r.Kind), Limits: maps.Clone(r.Limits),
		Host: r.Host, Device: r.Details[journal.DeviceDetail], Executed: r.Details[algorithmAxis], Disturbance: r.Disturbed()}
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
			// What is off or usual does not set a curve apart from one that lacks
			// the coordinate.
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
		s.LowUS, s.HighUS = st.Min, st.Max // the range of merged trials
	}
	if t := r.Metrics[trafficMetric]; t > 0 {
		s.Traffic = int64(t)
	} else {
		s.Traffic, _ = Traffic(s.Algorithm, s.Ranks, s.Bytes)
	}
	s.Utilisation, s.UtilisationOf = statedUtilisation(r)
	return s
}

// statedUtilisation is a share of a ceiling that the row states, and its denominator: the
// detail "utilisation_of", or the row's limits.
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

// group is samples that have all, or a part, of their series in common.
type group = lists.Group[Series, Sample]

// groupBy puts them together, in order of what they have in common.
func groupBy(samples []Sample, common func(Sample) Series) []group {
	groups := lists.GroupBy(samples, common)
	slices.SortFunc(groups, func(a, b group) int { return a.Key.Compare(b.Key) })
	return groups
}

// bySeries groups the samples, in order of series and size.
func bySeries(samples []Sample) []group {
	groups := groupBy(samples, func(s Sample) Series { return s.Series })
	for _, g := range groups {
		slices.SortStableFunc(g.Items, func(a, b Sample) int { return cmp.Compare(a.Bytes, b.Bytes) })
	}
	return groups
}
