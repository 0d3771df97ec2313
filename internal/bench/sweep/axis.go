package sweep

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// axes reads the mapping of axis names to values.
func (r *reader) axes(n yamlfile.Node, names *namespace) []decl.Axis {
	entries, _ := r.Mapping(n, "axes")
	var axes []decl.Axis
	for _, e := range entries {
		what := "axis " + e.Key
		switch {
		case e.Key == bench.RanksAxis:
			r.Fault(e.At, "axis %q: the number of ranks is the key \"ranks\" of the sweep", e.Key)
			continue
		case e.Key == bench.BackendName || !point.ValidName(e.Key):
			r.Fault(e.At, "axis name %q: %s, and not %q", e.Key, wantName, bench.BackendName)
			continue
		}
		axis := decl.Axis{Name: e.Key}
		axis.Kind, axis.Values = r.axisValues(e.Value, what)
		names.declare(e.At, "axis", e.Key, len(axis.Values))
		axes = append(axes, axis)
	}
	return axes
}

// axisValues reads an axis in either form: plain values, or type and values.
func (r *reader) axisValues(n yamlfile.Node, what string) (point.Kind, []point.Value) {
	if !r.IsMapping(n) {
		return r.values(n, what, 0)
	}
	f, clean := r.Fields(n, what, "type", "values")
	for _, key := range []string{"type", "values"} {
		if f[key] == nil && clean {
			r.Fault(n, "%s: the key %q is missing", what, key)
		}
	}
	if f["type"] == nil || f["values"] == nil {
		return 0, nil
	}
	s, ok := r.Text(f["type"], what+": type")
	if !ok {
		return 0, nil
	}
	kind, err := point.ParseKind(s.Text)
	if err != nil {
		kinds := []string{"int", "bytes", "float", "string", "bool", "dtype", "tuple"}
		r.Fault(f["type"], "%s: %v", what, suggest.Unknown("type", s.Text, kinds))
		return 0, nil
	}
	return r.values(f["values"], what, kind)
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
func (r *reader) envs(n yamlfile.Node, names *namespace) []decl.EnvAxis {
	entries, _ := r.Mapping(n, "env")
	var envs []decl.EnvAxis
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
		names.declare(e.At, "environment variable", e.Key, len(env.Values))
		envs = append(envs, env)
	}
	return envs
}

// zips reads the lists of names that vary together.
func (r *reader) zips(n yamlfile.Node, names *namespace) [][]string {
	groups, _ := r.List(n, "zip")
	var zips [][]string
	zipped := map[string]bool{}
	for _, group := range groups {
		items, ok := r.Texts(group, "zip")
		if !ok {
			continue
		}
		if len(items) < 2 {
			r.Fault(group, "zip: want at least two names")
		}
		var zip []string
		for _, item := range items {
			name := item.Text
			zip = append(zip, name)
			count, known := names.counts[name]
			switch {
			case !known:
				r.Fault(item.At, "zip: %v", suggest.Unknown("axis or environment variable", name, names.list()))
				continue
			case zipped[name]:
				r.Fault(item.At, "zip: duplicate name %q", name)
			case zip[0] != name && names.counts[zip[0]] > 0 && count > 0 && count != names.counts[zip[0]]:
				r.Fault(item.At, "zip: %q has %s, but %q has %s: want equally many",
					name, unit.Plural(count, "value"), zip[0], unit.Plural(names.counts[zip[0]], "value"))
			}
			zipped[name] = true
		}
		zips = append(zips, zip)
	}
	return zips
}
