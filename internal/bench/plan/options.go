package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// resolvedOptions holds the options of a run: one value each, or an axis for options with several
// values.
type resolvedOptions struct {
	options  point.Point
	axes     []decl.Axis
	files    []string          // names of the axes whose values are files
	inputs   map[string]string // SHA-256 of the files that options name
	fileSums map[string]string // SHA-256 of the files of axes, by axis and path
	notes    []string
}

// resolveOptions sets each option to its value in the request, or else to its default on the backend.
func resolveOptions(b *bench.Bench, req Request) (*resolvedOptions, error) {
	s := &resolvedOptions{inputs: maps.Clone(req.Inputs), fileSums: map[string]string{}}
	if s.inputs == nil {
		s.inputs = map[string]string{}
	}
	for _, o := range b.Options {
		if !appliesTo(o.Only, req.Backend) {
			continue
		}
		o, _ = optionOn(b, req.Backend, o.Name)
		s.options = append(s.options, point.Coord{Name: o.Name, Value: o.Default})
		given := slices.ContainsFunc(req.Options, func(a Assign) bool { return a.Name == o.Name })
		if path := o.Default.String(); o.File && o.Sweepable && path != "" && !given {
			s.setSingle(o, o.Default, req)
			s.notes = append(s.notes, fmt.Sprintf("--%s %s (sha256 %.12s) is used, because it is in this folder; "+
				"--%s %s ignores it", o.Name, path, req.Files[path], o.Name, point.NoFile))
		}
	}
	return s, errors.Join(lists.Map(req.Options, func(a Assign) error { return s.set(b, a, req) })...)
}

// set sets one option from the request.
func (s *resolvedOptions) set(b *bench.Bench, a Assign, req Request) error {
	o, ok := b.Option(a.Name)
	if !ok {
		return suggest.Unknown("option", a.Name, lists.Map(b.Options, func(o decl.Option) string { return o.Name }))
	}
	if !appliesTo(o.Only, req.Backend) {
		return otherBackendError("an option", o.Name, o.Only, req.Backend)
	}
	values, err := parseOption(o, a.Text)
	for i := 0; err == nil && i < len(values); i++ {
		err = allowed(o, values[i])
	}
	if err != nil {
		return fmt.Errorf("option %s: %w", a.Name, err)
	}
	if o.File && o.Sweepable {
		values = s.distinct(o, values, req)
	}
	if len(values) == 1 {
		s.setSingle(o, values[0], req)
		return nil
	}
	s.options = s.options.Without(o.Name)
	axis := decl.Axis{Name: o.Name, Kind: o.Kind, Values: values}
	if o.File {
		s.files = append(s.files, o.Name)
		for i, v := range values {
			if sha := req.Files[v.String()]; sha != "" {
				axis.Values[i] = point.FileValue(v.String(), sha)
				s.fileSums[o.Name+" "+v.String()] = sha
			}
		}
	}
	s.axes = append(s.axes, axis)
	return nil
}

// setSingle sets an option that has one value.
func (s *resolvedOptions) setSingle(o decl.Option, v point.Value, req Request) {
	if o.File && o.Sweepable {
		if v.String() == point.NoFile {
			v = point.StringValue("")
		}
		if sha := req.Files[v.String()]; sha != "" {
			s.inputs[o.Name] = sha
		}
	}
	s.options = s.options.With(o.Name, v)
}

// distinct returns the values without files that have the same content as an earlier one.
func (s *resolvedOptions) distinct(o decl.Option, values []point.Value, req Request) (out []point.Value) {
	first := map[string]string{}
	for _, v := range values {
		sha := req.Files[v.String()]
		if before, seen := first[sha]; sha != "" && seen {
			s.notes = append(s.notes, fmt.Sprintf("--%s: %s has the same content as %s: they count as one value",
				o.Name, v, before))
			continue
		}
		first[sha] = v.String()
		out = append(out, v)
	}
	return out
}

// parseOption parses the text of an option; it may be a list if the option is sweepable.
func parseOption(o decl.Option, text string) ([]point.Value, error) {
	if o.Sweepable && text != "" {
		values, err := point.ParseSpec(o.Kind, text)
		return lists.Distinct(values), err
	}
	v, err := point.Parse(o.Kind, text)
	return []point.Value{v}, err
}

// FilesOf returns the files that the request names for an option, or the default on the backend.
func FilesOf(b *bench.Bench, backend, name string, given []Assign) ([]string, error) {
	o, _ := optionOn(b, backend, name)
	text := o.Default.String()
	for _, a := range given {
		if a.Name == name {
			text = a.Text
		}
	}
	values, err := parseOption(o, text)
	if err != nil {
		return nil, fmt.Errorf("option %s: %w", name, err)
	}
	var paths []string
	for _, v := range values {
		if path := v.String(); path != "" && (!o.Sweepable || path != point.NoFile) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// allowed returns an error if the option does not accept the value.
func allowed(o decl.Option, v point.Value) error {
	switch {
	case len(o.Choices) > 0 && !slices.Contains(o.Choices, v.String()):
		return suggest.Unknown("choice", v.String(), o.Choices)
	case o.Range != nil && !o.Range.Has(v.Float()):
		return fmt.Errorf("%v: want %v", v, o.Range)
	}
	return nil
}

// keyPoint returns the point from which its key is computed. Files are replaced by their SHA-256, so
// that a moved or renamed file is still the same point.
func (s *resolvedOptions) keyPoint(p point.Point, files map[string]string) point.Point {
	for _, name := range s.files {
		if path, _ := p.At(name).File(); files[path] != "" {
			p = p.With(name, point.StringValue("sha256:"+files[path]))
		}
	}
	return p
}

// addContent adds the sums of Bench.Content for a point to its key point.
func addContent(keyed point.Point, contents map[string]string) point.Point {
	for name, sha := range contents {
		keyed = keyed.With("content of "+name, point.StringValue(sha))
	}
	return keyed
}

// Files returns the SHA-256 sums of everything that the rows depend on: files by option, files of
// a swept option by option and path, and the sums of Bench.Content.
func (p *Plan) Files() map[string]string {
	all := maps.Clone(p.Inputs)
	maps.Copy(all, p.resolved.fileSums)
	for _, in := range p.Fingerprints {
		for name, sum := range in {
			if content, is := strings.CutPrefix(name, journal.ContentPrefix); is && !strings.HasPrefix(content, "--") {
				all[content] = sum
			}
		}
	}
	return all
}

// Identity returns the options as rows record them. Options that cannot change a result are recorded
// with their default, so that they do not make a different point.
func (p *Plan) Identity() point.Point {
	options := p.Options
	for _, o := range p.Bench.Options {
		if _, has := options.Get(o.Name); o.Output && has {
			options = options.With(o.Name, o.Default)
		}
	}
	return options
}

// withBackend returns the options including the backend, as the functions of a bench expect them.
func (p *Plan) withBackend() point.Point {
	return append(slices.Clip(p.Options), point.Coord{Name: bench.BackendName, Value: point.StringValue(p.Backend)})
}

// setMachineRanks sets num_ranks to the rank counts that Bench.RanksOf returns for the combinations of
// swept options. It does nothing if the request sets num_ranks.
func (p *Plan) setMachineRanks(parts []*decl.Part, req Request) {
	asked := slices.ContainsFunc(req.Axes, func(a Assign) bool { return a.Name == bench.RanksAxis })
	if p.Bench.RanksOf == nil || asked || req.World != nil && !dist.Describe(req.Backend).InProcess {
		return
	}
	points := []point.Point{nil}
	for _, a := range p.resolved.axes {
		var more []point.Point
		for _, q := range points {
			for _, v := range a.Values {
				more = append(more, q.With(a.Name, v))
			}
		}
		points = more
	}
	var counts []point.Value
	for _, q := range points {
		if n := p.Bench.RanksOf(q, p.withBackend()); n > 0 {
			counts = append(counts, point.IntValue(int64(n)))
		}
	}
	if len(counts) == 0 {
		return
	}
	p.machineRanks = true
	for _, part := range parts {
		for i, a := range part.Axes {
			if a.Name == bench.RanksAxis {
				part.Axes[i].Values = lists.Distinct(counts)
			}
		}
	}
}

// otherMachineRanks reports whether the task combines one machine with the rank count of another. The
// product of the axes contains such combinations, but they must not run.
func (p *Plan) otherMachineRanks(t Task) bool {
	if !p.machineRanks {
		return false
	}
	n := p.Bench.RanksOf(t.Point, p.withBackend())
	return n > 0 && n != t.Ranks
}

// optionOn returns the named option with its default on a backend.
func optionOn(b *decl.Bench, backend, name string) (decl.Option, bool) {
	o, ok := b.Option(name)
	for _, other := range b.OptionsOn[backend] {
		if other.Name == name {
			o.Default = other.Default
		}
	}
	return o, ok
}
