package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Difference is a property in which the two sides of a comparison differ, besides what is compared. Name is
// the name that --ignore accepts.
type Difference struct {
	Name   string `json:"name"`
	Old    string `json:"old"`
	New    string `json:"new"`
	Points int    `json:"points"` // number of points whose sides differ in it
	Of     int    `json:"of"`     // number of points that both sides have
	// Decisive means that a ratio of the sides would be meaningless: points that differ in this property
	// are not comparable, unless it is ignored.
	Decisive bool `json:"decisive,omitempty"`
	Ignored  bool `json:"ignored,omitempty"` // by --ignore
}

// Names of the properties that a ratio depends on.
const (
	cpuProperty    = "cpu"
	gpuProperty    = "gpu"
	unitProperty   = "unit"
	betterProperty = "better"
)

// property is a fact about a row that should be equal on both sides. Its text is "" if the
// fact is unknown or does not matter for the row.
type property struct {
	name     string
	decisive bool
	ofHost   bool // compared only for measured rows
	of       func(h *journal.Header, r *journal.Row) string
}

// properties lists the facts that are compared, in the order in which they are shown. The unit and the
// direction of the metric, the recorded environment and the input files are compared separately.
var properties = []property{
	{cpuProperty, true, true, func(h *journal.Header, _ *journal.Row) string { return h.Host.CPU.Model }},
	{gpuProperty, true, true, gpuOf},
	{"host", false, true, func(h *journal.Header, r *journal.Row) string { return r.Host }},
	{"machine", false, true, func(h *journal.Header, _ *journal.Row) string { return machineSize(h.Host) }},
	{"os", false, true, func(h *journal.Header, _ *journal.Row) string { return h.Host.OS }},
	{"kernel", false, true, func(h *journal.Header, _ *journal.Row) string { return h.Host.Kernel }},
	{"driver", false, true, func(h *journal.Header, _ *journal.Row) string { return h.Host.GPUDriver }},
	{"library", false, true, func(_ *journal.Header, r *journal.Row) string { return r.Details["library"] }},
	{"launcher", false, true, func(h *journal.Header, _ *journal.Row) string { return h.Launcher }},
	{"bind", false, true, func(h *journal.Header, _ *journal.Row) string { return h.Bind }},
	{"kind", false, false, func(_ *journal.Header, r *journal.Row) string { return string(r.Kind) }},
	{"clock", false, false, func(_ *journal.Header, r *journal.Row) string { return r.Clock }},
	{"cadence", false, false, func(_ *journal.Header, r *journal.Row) string { return r.Cadence }},
	{"cache", false, false, func(_ *journal.Header, r *journal.Row) string { return r.Cache }},
	{"sampling", false, true, func(_ *journal.Header, r *journal.Row) string { return samplingRule(r.Sampling) }},
	{"kernbench", false, false, func(h *journal.Header, _ *journal.Row) string { return buildText(h.Host.Build) }},
	{"bench", false, false, func(h *journal.Header, _ *journal.Row) string { return h.Bench }},
	{"version", false, false, func(h *journal.Header, _ *journal.Row) string {
		if h.Bench == "" {
			return ""
		}
		return cmp.Or(h.Version, "none")
	}},
	{"seed", false, false, func(h *journal.Header, _ *journal.Row) string {
		if h.Run == "" || h.Launcher == "imported" {
			return ""
		}
		return strconv.FormatUint(h.Seed, 10)
	}},
	{"topology", false, false, func(_ *journal.Header, r *journal.Row) string {
		return strings.Join(lists.NonEmpty(r.Details[journal.FabricDetail], r.Details[journal.TopologyDetail],
			shortHash(r.Details[journal.HashDetail])), " ")
	}},
}

// gpuOf returns the GPU that a row was measured on. If the row does not name one, it returns the GPUs of
// the host, unless the backend keeps the data in the host's memory. A program that starts its own ranks
// may use any GPU of the host.
func gpuOf(h *journal.Header, r *journal.Row) string {
	for _, detail := range []string{journal.DeviceDetail, "device"} {
		if d := r.Details[detail]; d != "" {
			return d
		}
	}
	if r.NumRanks != nil && dist.Describe(r.Backend).HostMemory {
		return ""
	}
	return h.Host.GPUs
}

// machineSize describes the cores and the memory of a host. Memory is rounded, because firmware
// and kernel reserve different amounts on machines of the same kind.
func machineSize(h hostinfo.Host) string {
	if h.CPU.Threads == 0 {
		return ""
	}
	text := fmt.Sprintf("%s, %s usable", unit.Plural(h.CPU.Threads, "thread"), unit.FormatSig(h.CPU.Usable, 3))
	if h.Memory > 0 {
		step := math.Round(2 * math.Log2(float64(h.Memory)))
		text += ", about " + unit.FormatBytesApprox(math.Exp2(step/2)) + "B"
	}
	return text
}

func samplingRule(s *journal.Sampling) string {
	if s == nil || s.MaxSamples == 0 && s.MaxTime == 0 && s.Target == 0 {
		return ""
	}
	text := fmt.Sprintf("%d to %d samples", s.MinSamples, s.MaxSamples)
	if s.Target > 0 {
		text += fmt.Sprintf(", ±%s%%", unit.FormatSig(100*s.Target, 3))
	}
	if s.MaxTime > 0 {
		text += fmt.Sprintf(", at most %s s", unit.FormatSig(s.MaxTime, 3))
	}
	return text
}

func buildText(b hostinfo.Build) string {
	words := lists.NonEmpty(b.Version, shortHash(b.Revision))
	if b.Modified {
		words = append(words, "modified")
	}
	return strings.Join(words, " ")
}

func shortHash(hash string) string { return hash[:min(len(hash), 8)] }

// differ collects the differences of two sides, point by point.
type differ struct {
	runs   [2]Run
	opts   Options
	points int // points that both sides have
	found  map[string]*foundDifference
	order  []string // names in the order in which they were found
	// ofSingle caches the differences of points whose sides have one origin each.
	ofSingle map[[2]origin][]Difference
}

// foundDifference is a difference with the distinct values of each side.
type foundDifference struct {
	Difference
	values [2][]string
}

// differencesOf returns how two runs differ besides their results, at the points that both have. opts.Metric is
// the metric whose unit and direction are compared. Differences named by opts.Ignore are marked as ignored.
func differencesOf(old, new Run, opts Options) []Difference {
	points := dataset.Match(func(r *journal.Row) string { return dataset.Key(r) }, old.Rows, new.Rows)
	all, _ := differences(old, new, points, Options{Metric: opts.Metric, Ignore: opts.Ignore})
	return all
}

// differenceNames returns the names of all possible differences between runs.
func differenceNames(runs ...Run) []string {
	names := lists.Map(properties, func(p property) string { return p.name })
	names = append(names, unitProperty, betterProperty, inputsProperty)
	for _, run := range runs {
		if run.Header != nil {
			names = append(names, slices.Collect(maps.Keys(run.Header.Environ))...)
		}
	}
	return names
}

// checkIgnore returns an error for a name that is neither known nor a possible difference between the runs.
func checkIgnore(kind string, names, known []string, runs ...Run) error {
	known = append(known, differenceNames(runs...)...)
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("nothing to ignore: %w", suggest.Unknown(kind+" of these runs", name, known))
		}
	}
	return nil
}

// ofValues reports whether the difference is about the meaning of values (their unit or direction) rather
// than about where they were measured.
func (d Difference) ofValues() bool { return d.Name == unitProperty || d.Name == betterProperty }

// differences returns how the sides differ besides what is compared and, for each point, the names of its
// decisive differences that are not ignored.
func differences(old, new Run, points []dataset.Matched, opts Options) (all []Difference, decisive [][]string) {
	d := &differ{runs: [2]Run{old, new}, opts: opts, found: map[string]*foundDifference{},
		ofSingle: map[[2]origin][]Difference{}}
	decisive = make([][]string, len(points))
	for i, m := range points {
		a, b := withMetric(m[0], opts.Metric), withMetric(m[1], opts.Metric)
		if len(a) == 0 || len(b) == 0 {
			continue
		}
		d.points++
		for _, one := range d.ofPoint(a, b) {
			if d.add(one) {
				decisive[i] = append(decisive[i], one.Name)
			}
		}
	}
	names := lists.Map(properties, func(p property) string { return p.name })
	for _, name := range lists.Distinct(append(names, d.order...)) {
		if f := d.found[name]; f != nil {
			f.Old, f.New, f.Of = joinTexts(f.values[0]), joinTexts(f.values[1]), d.points
			all = append(all, f.Difference)
		}
	}
	// Decisive differences come first, because they explain the verdicts.
	isDecisive := func(one Difference) bool { return one.Decisive }
	rest := slices.DeleteFunc(slices.Clone(all), isDecisive)
	return append(lists.Filter(all, isDecisive), rest...), decisive
}

// ofPoint returns the differences between the rows of one point.
func (d *differ) ofPoint(a, b dataset.Set) (out []Difference) {
	measured := func(r *journal.Row) bool { return r.Kind == journal.Measured || r.Kind == "" }
	onHosts := slices.ContainsFunc(a, measured) && slices.ContainsFunc(b, measured)
	for _, p := range properties {
		if p.ofHost && !onHosts || slices.Contains(d.opts.compared, p.name) {
			continue
		}
		old, new := d.texts(0, a, p), d.texts(1, b, p)
		if len(old) > 0 && len(new) > 0 && !slices.Equal(old, new) {
			out = append(out, Difference{Name: p.name, Old: joinTexts(old), New: joinTexts(new), Decisive: p.decisive})
		}
	}
	out = append(out, d.ofMetric(a, b)...)
	return append(out, d.ofOrigins(d.runs[0].origins(a), d.runs[1].origins(b))...)
}

// noHeader stands for the header of a run without one.
var noHeader = &journal.Header{}

// texts returns the distinct known values of a property over the rows of a point.
func (d *differ) texts(side int, rows dataset.Set, p property) (out []string) {
	for _, r := range rows {
		h := cmp.Or(d.runs[side].headerOf(r), noHeader)
		if text := p.of(h, r); text != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

// ofMetric compares the unit and the direction of the metric. A difference between units is decisive if
// they cannot be converted.
func (d *differ) ofMetric(a, b dataset.Set) (out []Difference) {
	metric := d.opts.Metric
	from, to := d.runs[0].unitsOf(a, metric), d.runs[1].unitsOf(b, metric)
	if !slices.Equal(from, to) {
		differs := Difference{Name: unitProperty, Old: joinTexts(from), New: joinTexts(to)}
		for _, other := range slices.Concat(from, to) {
			_, converts := unit.Conversion(other, to[0])
			differs.Decisive = differs.Decisive || !converts
		}
		out = append(out, differs)
	}
	old, new := d.runs[0].betterOf(metric), d.runs[1].betterOf(metric)
	if old != "" && new != "" && old != new {
		out = append(out, Difference{Name: betterProperty, Old: old, New: new, Decisive: true})
	}
	return out
}

// unitsOf returns the distinct units of a metric over rows.
func (r Run) unitsOf(rows dataset.Set, metric string) []string {
	units := lists.Distinct(lists.Map(rows, func(row *journal.Row) string { return r.unitOf(row, metric) }))
	slices.Sort(units)
	return units
}

// noUnit is shown if a metric is declared without a unit.
const noUnit = "none"

// unitOf returns the unit of a metric in a row, or noUnit if neither the row nor its run has one.
func (r Run) unitOf(row *journal.Row, metric string) string {
	declared := ""
	if h := r.headerOf(row); h != nil {
		info, _ := lists.First(h.Metrics, func(m journal.MetricInfo) bool { return m.Name == metric })
		declared = info.Unit
	}
	if metric == dataset.TimeMetric { // its name contains the unit
		declared = cmp.Or(declared, "us")
	}
	return cmp.Or(row.Units[metric], declared, noUnit)
}

// betterOf returns the direction that the run declares as better for a metric, or "" if it declares none.
func (r Run) betterOf(metric string) string {
	if r.Header == nil {
		return ""
	}
	info, _ := lists.First(r.Header.Metrics, func(m journal.MetricInfo) bool { return m.Name == metric })
	return info.Better
}

// headerOf returns the header of the run that a row belongs to, or nil if there is none. A side may have
// rows of several runs.
func (r Run) headerOf(row *journal.Row) *journal.Header {
	for i := range r.Earlier {
		if r.Earlier[i].Run == row.Run && row.Run != "" {
			return &r.Earlier[i]
		}
	}
	return r.Header
}

// setUnit sets Unit if the rows of the side are in a unit that cannot be converted to target.
func (s *Side) setUnit(run Run, rows dataset.Set, metric, target string) {
	if s == nil {
		return
	}
	for _, name := range run.unitsOf(withMetric(rows, metric), metric) {
		if _, ok := unit.Conversion(name, target); !ok {
			s.Unit = name
		}
	}
}

// add records a difference of a point and reports whether it makes the point not comparable.
func (d *differ) add(one Difference) bool {
	f := d.found[one.Name]
	if f == nil {
		f = &foundDifference{Difference: Difference{Name: one.Name, Ignored: slices.Contains(d.opts.Ignore, one.Name)}}
		d.found[one.Name] = f
		d.order = append(d.order, one.Name)
	}
	f.Points++
	f.Decisive = f.Decisive || one.Decisive
	for side, text := range []string{one.Old, one.New} {
		if !slices.Contains(f.values[side], text) {
			f.values[side] = append(f.values[side], text)
		}
	}
	return one.Decisive && !f.Ignored
}

// maxTexts limits the values of a side that a difference shows.
const maxTexts = 3

func joinTexts(list []string) string {
	if more := len(list) - maxTexts; more > 0 {
		return strings.Join(list[:maxTexts], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(list, ", ")
}

// String returns the difference in one line: "cpu: Xeon 6338 -> EPYC 9654 (not comparable)".
func (d Difference) String() string {
	text := fmt.Sprintf("%s: %s -> %s", d.Name, texttab.Shorten(d.Old, maxReason), texttab.Shorten(d.New, maxReason))
	if d.Points < d.Of {
		text += fmt.Sprintf(" in %d of %s", d.Points, unit.Plural(d.Of, "point"))
	}
	switch {
	case d.Ignored:
		text += " (ignored)"
	case d.Name == unitProperty && !d.Decisive:
		text += " (converted)"
	case d.Decisive:
		text += fmt.Sprintf(" (not comparable; --ignore %s compares anyway)", d.Name)
	}
	return texttab.Plain(text)
}
