package sweep

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/kernbench/kernbench/internal/decl"
	"github.com/kernbench/kernbench/internal/point"
)

// The names a declaration accepts. Package decl has the last word; these are
// here so that a bad name is shown where it stands.
var ()

const wantName = "want letters, digits, _ . -, starting with a letter"

// sweep reads the whole file. What it returns is good only if no fault was
// recorded.
func (r *reader) sweep(root ast.Node) *decl.Bench {
	part := &decl.Part{Command: &decl.Command{Inputs: map[string]string{}}}
	bench := &decl.Bench{Parts: []*decl.Part{part}}
	f, clean := r.fields(root, "the sweep", "name", "description", "command", "dir", "ranks", "axes", "env", "zip",
		"metrics", "timeout", "trials")
	if f == nil {
		return bench
	}
	for _, key := range []string{"name", "command", "metrics"} {
		if f[key] == nil && clean {
			r.fault(root, "the key %q is missing", key)
		}
	}
	if n := f["name"]; n != nil {
		bench.Name = r.name(n, "name")
	}
	if n := f["description"]; n != nil {
		if s, ok := r.text(n, "description"); ok {
			bench.Doc = strings.TrimSpace(s.text)
			bench.Help, _, _ = strings.Cut(bench.Doc, "\n")
			part.Help = bench.Help
		}
	}
	part.Command.Dir = filepath.Dir(r.source.name)
	if n := f["dir"]; n != nil {
		if s, ok := r.text(n, "dir"); ok && filepath.IsAbs(s.text) {
			part.Command.Dir = s.text
		} else if ok {
			part.Command.Dir = filepath.Join(part.Command.Dir, s.text)
		}
	}
	if n := f["timeout"]; n != nil {
		part.Timeout = r.duration(n, "timeout")
	}
	if n := f["trials"]; n != nil {
		part.Trials = r.count(n, "trials")
	}

	// Where each name of the point was declared, for clashes and zip.
	names := &namespace{reader: r, counts: map[string]int{}, whats: map[string]string{}}
	part.Command.OwnRanks = f["ranks"] == nil
	if n := f["ranks"]; n != nil {
		part.Axes = append(part.Axes, r.ranks(n, names))
	}
	if n := f["axes"]; n != nil {
		part.Axes = append(part.Axes, r.axes(n, names)...)
	}
	if n := f["env"]; n != nil {
		part.Envs = r.envs(n, names)
	}
	if n := f["zip"]; n != nil {
		part.Zips = r.zips(n, names)
	}
	if n := f["command"]; n != nil {
		part.Command.Argv = r.argv(n, part.Axes, f["axes"])
		part.Command.Inputs["command"] = hashText(n.String())
	}
	if n := f["metrics"]; n != nil {
		metrics := r.metrics(n, names, part.Command.OwnRanks)
		for _, m := range metrics {
			part.Metrics = append(part.Metrics, m.info)
		}
		part.Command.Parse = newOutputParser(metrics, names.list()).parse
		part.Command.Inputs["metrics"] = hashText(n.String())
		if slices.ContainsFunc(metrics, func(m metric) bool { return m.column != nil && m.column.table == "nccl_tests" }) {
			part.Command.Columns = ncclKeys
		}
	}
	return bench
}

func (r *reader) name(n ast.Node, what string) string {
	s, ok := r.text(n, what)
	if ok && !decl.ValidName(s.text) {
		r.fault(n, "%s %q: %s", what, s.text, wantName)
	}
	return s.text
}

func (r *reader) duration(n ast.Node, what string) time.Duration {
	s, ok := r.text(n, what)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(s.text)
	switch {
	case err != nil && s.number:
		r.fault(n, "%s: %s has no unit: write %ss or %sm", what, s.text, s.text, s.text)
	case err != nil:
		r.fault(n, "%s: %q is not a time such as 60s, 1m30s or 500ms", what, s.text)
	case d <= 0:
		r.fault(n, "%s: want more than nothing, have %s", what, s.text)
	}
	return d
}

// count reads a whole number of at least 1.
func (r *reader) count(n ast.Node, what string) int {
	s, ok := r.text(n, what)
	if !ok {
		return 0
	}
	c, err := strconv.Atoi(s.text)
	if err != nil || c < 1 {
		r.fault(n, "%s: want a whole number of at least 1, have %q", what, s.text)
	}
	return c
}

// argv reads the command and checks its placeholders against the axes, and
// that no axis is swept in vain.
func (r *reader) argv(n ast.Node, axes []decl.Axis, axesNode ast.Node) []string {
	if s, ok := r.resolve(n).(*ast.StringNode); ok {
		r.fault(n, "command: want a list of arguments such as [%s]: there is no shell to split a line",
			quoteAll(strings.Fields(s.Value)))
		return nil
	}
	items, ok := r.texts(n, "command")
	if !ok {
		return nil
	}
	var argv []string
	used := map[string]bool{}
	for i, item := range items {
		argv = append(argv, item.text)
		if strings.ContainsRune(item.text, 0) {
			r.fault(item.at, "command: an argument cannot hold a NUL byte")
		}
		if i == 0 && item.text == "" {
			r.fault(item.at, "command: the program's name is empty")
		}
		pieces, err := parseTemplate(item.text)
		if err != nil {
			r.faultIn(item.at, err.offset, "command: %s", err.msg)
			continue
		}
		for _, p := range pieces {
			if p.literal {
				continue
			}
			axis, err := p.check(axes)
			if err != nil {
				r.faultIn(item.at, p.offset, "command: %v", err)
			}
			used[axis] = true
		}
	}
	if axesNode == nil {
		return argv
	}
	// Entries were checked already; only their places are of interest here.
	for _, e := range r.peek(axesNode) {
		isAxis := slices.ContainsFunc(axes, func(a decl.Axis) bool { return a.Name == e.key })
		if isAxis && !used[e.key] {
			r.fault(e.at, "axis %q is used nowhere: put {%s} into the command", e.key, e.key)
		}
	}
	return argv
}

// peek is mapping without reporting its faults a second time.
func (r *reader) peek(n ast.Node) []entry {
	kept := len(r.faults)
	entries, _ := r.mapping(n, "")
	r.faults = r.faults[:kept]
	return entries
}

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	return strings.Join(quoted, ", ")
}

// namespace keeps the names of axes and variables apart from each other.
type namespace struct {
	reader *reader
	counts map[string]int    // values per name
	whats  map[string]string // "axis" or "environment variable"
}

// declare records a name, or the fault that it is taken.
func (ns *namespace) declare(at ast.Node, what, name string, values int) {
	if old, taken := ns.whats[name]; taken {
		ns.reader.fault(at, "%s %q clashes with the %s of that name", what, name, old)
		return
	}
	ns.whats[name], ns.counts[name] = what, values
}

func (ns *namespace) list() []string {
	var names []string
	for name := range ns.whats {
		names = append(names, name)
	}
	return names
}

// ranks reads the rank counts: an axis of its own name.
func (r *reader) ranks(n ast.Node, names *namespace) decl.Axis {
	axis := decl.Axis{Name: decl.RanksAxis, Kind: point.Int}
	axis.Kind, axis.Values = r.values(n, "ranks", point.Int)
	for _, v := range axis.Values {
		if v.Int() < 1 || v.Int() > 1<<20 {
			r.fault(n, "ranks: a launch has between 1 and %d ranks, not %v", 1<<20, v)
		}
	}
	names.declare(n, "axis", decl.RanksAxis, len(axis.Values))
	return axis
}
