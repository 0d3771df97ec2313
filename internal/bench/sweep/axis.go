package sweep

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// axes reads the mapping of axis names to values.
func (r *reader) axes(n yamlfile.Node, what string) {
	entries, _ := r.Mapping(n, what)
	for _, e := range entries {
		switch {
		case e.Key == bench.RanksAxis:
			r.Fault(e.At, "axis %q: the number of ranks is the key \"ranks\" of the sweep", e.Key)
			continue
		case e.Key == bench.BackendName || !point.ValidName(e.Key):
			r.Fault(e.At, "axis name %q: %s, and not %q", e.Key, wantName, bench.BackendName)
			continue
		}
		axis := decl.Axis{Name: e.Key}
		axis.Kind, axis.Values = r.axisValues(e.Value, "axis "+e.Key)
		r.declare(e.Key, named{"axis", len(axis.Values), e.At})
		r.part.Axes = append(r.part.Axes, axis)
	}
}

var kinds = []string{"int", "bytes", "float", "string", "bool", "dtype", "tuple"}

// axisValues reads an axis in either form: plain values, or type and values.
func (r *reader) axisValues(n yamlfile.Node, what string) (kind point.Kind, values []point.Value) {
	if !r.IsMapping(n) {
		return r.values(n, what, 0)
	}
	r.Struct(n, what, yamlfile.Field{Key: "type", Read: func(n yamlfile.Node, path string) {
		s, ok := r.Text(n, path)
		if kind, _ = point.ParseKind(s.Text); ok && kind == 0 {
			r.Fault(n, "%s: %v", what, suggest.Unknown("type", s.Text, kinds))
		}
	}}, yamlfile.Field{Key: "values", Read: func(n yamlfile.Node, _ string) {
		if kind != 0 {
			kind, values = r.values(n, what, kind)
		}
	}})
	return kind, values
}

// values reads a list of values or a SPEC of the given kind. Kind 0 means to infer the kind from
// the values.
func (r *reader) values(n yamlfile.Node, what string, kind point.Kind) (point.Kind, []point.Value) {
	var values []point.Value
	if r.IsList(n) {
		items, ok := r.Texts(n, what)
		if !ok {
			return kind, nil
		}
		if kind == 0 {
			kind = r.infer(items, what)
		}
		for _, item := range items {
			v, err := point.Parse(kind, item.Text)
			if err != nil {
				r.Fault(item.At, "%s: %v", what, err)
				return kind, values
			}
			if slices.Contains(values, v) {
				r.Fault(item.At, "%s: duplicate value %v", what, v)
			}
			values = append(values, v)
		}
		return kind, values
	}
	s, ok := r.Text(n, what)
	if !ok {
		return kind, nil
	}
	kind, values, err := parseSpec(kind, s.Text)
	if err != nil {
		offset := 0
		if spec, is := errors.AsType[*point.SpecError](err); is {
			offset = spec.Column - 1
		}
		r.FaultIn(s.At, offset, "%s: %v", what, err)
		return kind, nil
	}
	for i, v := range values {
		if slices.Contains(values[:i], v) {
			r.Fault(n, "%s: duplicate value %v", what, v)
			break
		}
	}
	return kind, values
}

// looksLikeRange distinguishes a mistyped range from a text that contains colons.
var looksLikeRange = regexp.MustCompile(`^\s*([0-9]|pow2:)[^,]*:`)

// parseSpec parses a SPEC. For kind 0 it chooses the first of int, float, bool and string that
// fits all values.
func parseSpec(kind point.Kind, spec string) (point.Kind, []point.Value, error) {
	if kind != 0 {
		values, err := point.ParseSpec(kind, spec)
		return kind, values, err
	}
	values, intErr := point.ParseSpec(point.Int, spec)
	if intErr == nil {
		return point.Int, values, nil
	}
	if values, err := point.ParseSpec(point.Float, spec); err == nil {
		return point.Float, values, nil
	}
	for item := range strings.SplitSeq(spec, ",") {
		if looksLikeRange.MatchString(item) {
			return point.Int, nil, intErr
		}
	}
	values, err := point.ParseSpec(point.String, spec)
	if err == nil && !slices.ContainsFunc(values, func(v point.Value) bool { return !isTruth(v.String()) }) {
		values, err = point.ParseSpec(point.Bool, spec)
		return point.Bool, values, err
	}
	return point.String, values, err
}

// unplain matches numbers whose text would change when parsed: 007, 0o17, 0x1F, 1_000.
var unplain = regexp.MustCompile(`^[+-]?0[0-9a-zA-Z]|_`)

// infer returns the kind of a list: the first of int, float, bool and string that fits all values.
// A quoted value is always text.
func (r *reader) infer(items []yamlfile.Scalar, what string) point.Kind {
	all := map[point.Kind]bool{point.Int: true, point.Float: true, point.Bool: true}
	for _, item := range items {
		if item.Quoted {
			return point.String
		}
		isNumber := item.Number
		for _, kind := range []point.Kind{point.Int, point.Float} {
			_, err := point.Parse(kind, item.Text)
			all[kind] = all[kind] && err == nil
			isNumber = isNumber || err == nil
		}
		all[point.Bool] = all[point.Bool] && isTruth(item.Text)
		// Report such numbers: parsing would silently change them, and text would sort and
		// compare like a string.
		_, err := point.Parse(point.Float, strings.TrimRight(item.Text, "KMGTi"))
		if isNumber && (err != nil || unplain.MatchString(item.Text)) {
			r.Fault(item.At, "%s: %s is not a plain decimal number: write it as one, or quote it to keep it as text", what,
				item.Text)
		}
	}
	for _, kind := range []point.Kind{point.Int, point.Float, point.Bool} {
		if all[kind] {
			return kind
		}
	}
	return point.String
}

// isTruth accepts only true and false. A Bool axis also accepts yes, on and 1, but without an
// explicit type those are usually meant as text.
func isTruth(text string) bool {
	low := strings.ToLower(text)
	return low == "true" || low == "false"
}

// envs reads the swept environment variables. Values keep their text; null
// removes the variable.
func (r *reader) envs(n yamlfile.Node, _ string) {
	entries, _ := r.Mapping(n, "env")
	for _, e := range entries {
		what := "env " + e.Key
		if !point.ValidEnvName(e.Key) {
			r.Fault(e.At, "environment variable %q: want letters, digits and _, not starting with a digit", e.Key)
		}
		nodes := []yamlfile.Node{e.Value}
		if r.IsList(e.Value) {
			nodes, _ = r.List(e.Value, what)
		}
		env := decl.EnvAxis{Name: e.Key}
		for _, item := range nodes {
			s, ok := r.Scalar(item, what)
			if !ok {
				continue
			}
			v := point.EnvVar{Name: e.Key, Value: s.Text, Set: !s.Null}
			if strings.ContainsRune(s.Text, 0) {
				r.Fault(s.At, "%s: an environment value cannot hold a NUL byte", what)
			}
			if slices.Contains(env.Values, v) {
				r.Fault(s.At, "%s: duplicate value %s", what, v.Text())
			}
			env.Values = append(env.Values, v)
		}
		r.declare(e.Key, named{"environment variable", len(env.Values), e.At})
		r.part.Envs = append(r.part.Envs, env)
	}
}

// zips reads the lists of names that vary together.
func (r *reader) zips(n yamlfile.Node, what string) {
	groups, _ := r.List(n, what)
	zipped := map[string]bool{}
	for _, group := range groups {
		items, ok := r.Texts(group, what)
		if !ok {
			continue
		}
		if len(items) < 2 {
			r.Fault(group, "zip: want at least two names")
		}
		zip := lists.Map(items, func(s yamlfile.Scalar) string { return s.Text })
		first := r.names[zip[0]].values
		for i, name := range zip {
			have, known := r.names[name]
			at, count := items[i].At, have.values
			switch {
			case !known:
				r.Fault(at, "zip: %v", suggest.Unknown("axis or environment variable", name, slices.Collect(maps.Keys(r.names))))
				continue
			case zipped[name]:
				r.Fault(at, "zip: duplicate name %q", name)
			case first > 0 && count > 0 && count != first:
				r.Fault(at, "zip: %q has %s, but %q has %s: want equally many",
					name, unit.Plural(count, "value"), zip[0], unit.Plural(first, "value"))
			}
			zipped[name] = true
		}
		r.part.Zips = append(r.part.Zips, zip)
	}
}
