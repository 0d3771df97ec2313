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

// Names of properties.
const (
	cpuProperty    = "cpu"
	gpuProperty    = "gpu"
	unitProperty   = "unit"
	betterProperty = "better"
	inputsProperty = "inputs"
)

// property is a fact about a row that should be equal on both sides. Its text is "" if the
// fact is unknown or does not matter for the row.
type property struct {
	name     string
	decisive bool
	ofHost   bool // compared only for measured rows
	of       func(h *journal.Header, r *journal.Row) string
}

// properties lists the facts that are always compared, in the order in which they are shown. See propertiesOf.
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

// propertiesOf returns all properties of two sides: those above, the unit and the direction of the metric, the recorded
// variables that neither side sweeps, and the inputs. Variables and inputs that are the same everywhere are left out,
// because large runs have many points.
func propertiesOf(sides [2]dataset.Named, metric string) []property {
	origins := [2][]origin{originsOf(sides[0]), originsOf(sides[1])}
	all := slices.Concat(origins[0], origins[1])
	environ, inputs, swept := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, o := range all {
		for name := range o.header.Environ {
			environ[name] = true
		}
		for name := range o.contents() {
			inputs[name] = true
		}
		for _, name := range o.header.Envs {
			swept[name] = true
		}
	}
	list := append(slices.Clip(properties),
		property{unitProperty, false, false, func(h *journal.Header, r *journal.Row) string { return unitOf(h, r, metric) }},
		property{betterProperty, true, false, func(h *journal.Header, _ *journal.Row) string {
			return declaredMetric(h, metric).Better
		}})
	add := func(p property) {
		texts := lists.Map(all, func(o origin) string { return p.of(o.header, &journal.Row{Inputs: o.inputs}) })
		if len(lists.Distinct(texts)) > 1 {
			list = append(list, p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		if !swept[name] {
			add(property{name: name, of: func(h *journal.Header, _ *journal.Row) string {
				value, set := h.Environ[name]
				if h.Environ != nil && !set {
					return "unset"
				}
				return value
			}})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		if strings.HasPrefix(name, "unit ") || strings.HasPrefix(name, "variable ") {
			continue // their values are compared above
		}
		add(property{name: inputsProperty, of: func(h *journal.Header, r *journal.Row) string {
			contents := origin{h, r.Inputs}.contents()
			sum, has := contents[name]
			if contents != nil && !has {
				return name + " absent"
			}
			return strings.TrimSpace(name + " " + shortHash(sum))
		}})
	}
	return list
}

// origin identifies the run and the inputs of a row.
type origin struct {
	header *journal.Header
	inputs string // fingerprint
}

// originsOf returns the distinct origins of the rows of a side.
func originsOf(side dataset.Named) []origin {
	var out lists.Set[origin]
	for _, r := range side.Rows {
		out.Add(origin{side.HeaderOf(r), r.Inputs})
	}
	return out.List
}

// contents returns the programs, files and declarations that produced the rows. For older journals, only
// the files of the run are known.
func (o origin) contents() journal.Inputs {
	if in := o.header.Fingerprints[o.inputs]; in != nil {
		return in
	}
	return o.header.Inputs
}

// differencesOf returns how two runs differ besides their results, at the points that both have. opts.Metric is
// the metric whose unit and direction are compared. Differences named by opts.Ignore are marked as ignored.
func differencesOf(old, new dataset.Named, opts Options) []Difference {
	points := dataset.Match(func(r *journal.Row) string { return dataset.Key(r) }, old.Rows, new.Rows)
	all, _ := differences(old, new, points, Options{Metric: opts.Metric, Ignore: opts.Ignore})
	return all
}

// checkIgnore returns an error for a name that is neither known nor a possible difference between the runs.
func checkIgnore(kind string, names, known []string, runs ...dataset.Named) error {
	known = append(known, unitProperty, betterProperty, inputsProperty)
	known = append(known, lists.Map(properties, func(p property) string { return p.name })...)
	for _, run := range runs {
		known = slices.AppendSeq(known, maps.Keys(run.Header.Environ))
	}
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

// foundDifference is a difference with the distinct values of each side.
type foundDifference struct {
	Difference
	values [2]lists.Set[string]
	last   int // index of the last point that differs
}

// differences returns how the sides differ besides what is compared and, for each point, the names of its
// decisive differences that are not ignored. Decisive differences come first, because they explain the verdicts.
func differences(old, new dataset.Named, points []dataset.Matched, opts Options) (all []Difference,
	decisive [][]string) {
	sides := [2]dataset.Named{old, new}
	compared := lists.Filter(propertiesOf(sides, opts.Metric), func(p property) bool {
		return !slices.Contains(opts.compared, p.name)
	})
	found, decisive, inBoth := map[string]*foundDifference{}, make([][]string, len(points)), 0
	for i, m := range points {
		rows := [2]dataset.Set{withMetric(m[0], opts.Metric), withMetric(m[1], opts.Metric)}
		if len(rows[0]) == 0 || len(rows[1]) == 0 {
			continue
		}
		inBoth++
		onHosts := slices.ContainsFunc(rows[0], measured) && slices.ContainsFunc(rows[1], measured)
		for _, p := range compared {
			if p.ofHost && !onHosts {
				continue
			}
			texts := [2][]string{p.texts(sides[0], rows[0]), p.texts(sides[1], rows[1])}
			if len(texts[0]) == 0 || len(texts[1]) == 0 || slices.Equal(texts[0], texts[1]) {
				continue
			}
			f := found[p.name]
			if f == nil {
				f = &foundDifference{Difference{Name: p.name, Ignored: slices.Contains(opts.Ignore, p.name)},
					[2]lists.Set[string]{}, -1}
				found[p.name] = f
			}
			if f.last != i {
				f.Points++
				f.last = i
			}
			for side := range texts {
				for _, text := range texts[side] {
					f.values[side].Add(text)
				}
			}
			if p.decisive || p.name == unitProperty && !convertible(texts) {
				f.Decisive = true
				if !f.Ignored {
					decisive[i] = append(decisive[i], p.name)
				}
			}
		}
	}
	for _, name := range lists.Distinct(lists.Map(compared, func(p property) string { return p.name })) {
		if f := found[name]; f != nil {
			f.Old, f.New, f.Of = joinTexts(f.values[0].List), joinTexts(f.values[1].List), inBoth
			all = append(all, f.Difference)
		}
	}
	isDecisive := func(d Difference) bool { return d.Decisive }
	return append(lists.Filter(all, isDecisive), slices.DeleteFunc(all, isDecisive)...), decisive
}

func measured(r *journal.Row) bool { return r.Kind == journal.Measured || r.Kind == "" }

// texts returns the distinct known values of a property over the rows of a point.
func (p property) texts(side dataset.Named, rows dataset.Set) (out []string) {
	for _, r := range rows {
		if text := p.of(side.HeaderOf(r), r); text != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

// convertible reports whether values in any of the units can be compared.
func convertible(units [2][]string) bool {
	return !slices.ContainsFunc(slices.Concat(units[0], units[1]), func(other string) bool {
		_, converts := unit.Conversion(other, units[1][0])
		return !converts
	})
}

// noUnit is shown if a metric is declared without a unit.
const noUnit = "none"

// unitOf returns the unit of a metric in a row of a run, or noUnit if neither the row nor the run has one.
func unitOf(h *journal.Header, row *journal.Row, metric string) string {
	declared := declaredMetric(h, metric).Unit
	if metric == dataset.TimeMetric { // its name contains the unit
		declared = cmp.Or(declared, "us")
	}
	return cmp.Or(row.Units[metric], declared, noUnit)
}

func declaredMetric(h *journal.Header, name string) journal.MetricInfo {
	info, _ := lists.First(h.Metrics, func(m journal.MetricInfo) bool { return m.Name == name })
	return info
}

// setUnit sets Unit if the rows of the side are in a unit that cannot be converted to target.
func (s *Side) setUnit(run dataset.Named, rows dataset.Set, metric, target string) {
	for _, r := range withMetric(rows, metric) {
		name := unitOf(run.HeaderOf(r), r, metric)
		if _, ok := unit.Conversion(name, target); !ok {
			s.Unit = name
		}
	}
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
