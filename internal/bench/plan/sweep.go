package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// sweep is what the request says of the bench's options: one value of each, and as axes
// those that it gives several.
type sweep struct {
	options point.Point
	axes    []decl.Axis
	files   []string          // names of the axes of files
	inputs  map[string]string // SHA-256 of the files that options name
	named   map[string]string // that of the files of axes, by axis and path
	notes   []string
}

// settle gives the options their values: as given, else by default on the backend.
func settle(b *bench.Bench, req Request) (*sweep, error) {
	s := &sweep{inputs: maps.Clone(req.Inputs), named: map[string]string{}}
	if s.inputs == nil {
		s.inputs = map[string]string{}
	}
	for _, o := range b.Options {
		if !has(o.Only, req.Backend) {
			continue
		}
		o, _ = b.OptionOn(req.Backend, o.Name)
		s.options = append(s.options, point.Coord{Name: o.Name, Value: o.Default})
		given := slices.ContainsFunc(req.Options, func(a Assign) bool { return a.Name == o.Name })
		if path := o.Default.String(); o.File && o.Sweepable && path != "" && !given {
			s.one(o, o.Default, req)
			s.notes = append(s.notes, fmt.Sprintf("--%s %s (sha256 %.12s), because this folder has it; --%s %s is for none",
				o.Name, path, req.Files[path], o.Name, point.NoFile))
		}
	}
	return s, errors.Join(lists.Map(req.Options, func(a Assign) error { return s.give(b, a, req) })...)
}

// give sets one option as the request says.
func (s *sweep) give(b *bench.Bench, a Assign, req Request) error {
	o, ok := b.Option(a.Name)
	if !ok {
		return suggest.Unknown("option", a.Name, lists.Map(b.Options, func(o decl.Option) string { return o.Name }))
	}
	if !has(o.Only, req.Backend) {
		return elsewhere("an option", o.Name, o.Only, req.Backend)
	}
	values, err := optionValues(o, a.Text)
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
		s.one(o, values[0], req)
		return nil
	}
	s.options = s.options.Without(o.Name)
	axis := decl.Axis{Name: o.Name, Kind: o.Kind, Values: values}
	if o.File {
		s.files = append(s.files, o.Name)
		for i, v := range values {
			if sha := req.Files[v.String()]; sha != "" {
				axis.Values[i] = point.FileValue(v.String(), sha)
				s.named[o.Name+" "+v.String()] = sha
			}
		}
	}
	s.axes = append(s.axes, axis)
	return nil
}

// one gives an option its only value.
func (s *sweep) one(o decl.Option, v point.Value, req Request) {
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

// distinct leaves out files that have the content of one before them.
func (s *sweep) distinct(o decl.Option, values []point.Value, req Request) (out []point.Value) {
	first := map[string]string{}
	for _, v := range values {
		sha := req.Files[v.String()]
		if before, seen := first[sha]; sha != "" && seen {
			s.notes = append(s.notes, fmt.Sprintf("--%s: %s has the same content as %s: they are one value", o.Name, v, before))
			continue
		}
		first[sha] = v.String()
		out = append(out, v)
	}
	return out
}

// optionValues reads the text of an option: a list where it may be swept.
func optionValues(o decl.Option, text string) ([]point.Value, error) {
	if o.Sweepable && text != "" {
		values, err := point.ParseSpec(o.Kind, text)
		return lists.Distinct(values), err
	}
	v, err := point.Parse(o.Kind, text)
	return []point.Value{v}, err
}

// FilesOf are the files that the request's text for an option names, or the option's
// default on the backend.
func FilesOf(b *bench.Bench, backend, name string, given []Assign) ([]string, error) {
	o, _ := b.OptionOn(backend, name)
	text := o.Default.String()
	for _, a := range given {
		if a.Name == name {
			text = a.Text
		}
	}
	values, err := optionValues(o, text)
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

func allowed(o decl.Option, v point.Value) error {
	switch {
	case len(o.Choices) > 0 && !slices.Contains(o.Choices, v.String()):
		return suggest.Unknown("choice", v.String(), o.Choices)
	case o.Positive && !(v.Float() > 0):
		return fmt.Errorf("%v: want a number above 0", v)
	case o.NonNegative && !(v.Float() >= 0):
		return fmt.Errorf("%v: want a number of 0 or more", v)
	}
	return nil
}

// keyed is a point as keys know it: files by their SHA-256, wherever they are.
func (s *sweep) keyed(p point.Point, files map[string]string) point.Point {
	for _, name := range s.files {
		if path, _ := p.At(name).File(); files[path] != "" {
			p = p.With(name, point.StringValue("sha256:"+files[path]))
		}
	}
	return p
}

// withContent is a point as keys know it with what its values name.
func (p *Plan) withContent(keyed, q point.Point) point.Point {
	if p.Bench.Content == nil {
		return keyed
	}
	for name, sha := range p.Bench.Content(q, p.withBackend()) {
		p.swept.named[name] = sha
		keyed = keyed.With("content of "+name, point.StringValue(sha))
	}
	return keyed
}

// Files are the SHA-256 of all files that the rows are made of: by option, or, of a swept
// one, by option and path; with what is known by its content.
func (p *Plan) Files() map[string]string {
	all := maps.Clone(p.Inputs)
	maps.Copy(all, p.swept.named)
	return all
}

// withBackend are the options as conditions of the bench see them.
func (p *Plan) withBackend() point.Point {
	return append(slices.Clip(p.Options), point.Coord{Name: bench.BackendName, Value: point.StringValue(p.Backend)})
}

// setMachineRanks gives the parts, where the request does not say how many ranks, those of the
// machines that the options describe.
func (p *Plan) setMachineRanks(parts []*decl.Part, req Request) {
	asked := slices.ContainsFunc(req.Axes, func(a Assign) bool { return a.Name == bench.RanksAxis })
	if p.Bench.RanksOf == nil || asked || req.World != nil && !dist.Describe(req.Backend).InProcess {
		return
	}
	points := []point.Point{nil}
	for _, a := range p.swept.axes {
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

// otherMachine reports whether the task has the number of ranks of another point's machine.
func (p *Plan) otherMachine(t Task) bool {
	if !p.machineRanks {
		return false
	}
	n := p.Bench.RanksOf(t.Point, p.withBackend())
	return n > 0 && n != t.Ranks
}
