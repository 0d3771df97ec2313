// Package sweep reads sweep files: YAML in which users declare a benchmark of an existing
// program. The result is the same declaration that package bench builds, with the program's
// arguments and a parser that extracts the metrics from the program's output.
//
// It neither plans nor runs anything. Package run calls Substitute for the arguments of a point,
// Command.Parse for the output, and Launches to repeat a point until its noise is low.
// docs/sweep-format.md is the reference of the format.
package sweep

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Error holds all faults of a sweep file with their positions.
type Error = yamlfile.Error

// reader converts the syntax tree of a sweep file to a declaration and collects faults.
type reader struct{ *yamlfile.Reader }

// Load reads a sweep file. The program runs in the file's folder or in its `dir`, regardless of
// the current folder. Load hashes the programs and files that the sweep names, so that rows of an
// edited script are not mixed with older ones.
func Load(path string) (*bench.Bench, error) {
	data, err := infile.Read(path, infile.Config)
	if err != nil {
		return nil, fmt.Errorf("reading a sweep file: %w", err)
	}
	bench, err := Parse(path, data)
	if err != nil {
		return nil, err
	}
	if err := locate(bench); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return bench, nil
}

// locate finds the folder in which the program runs, and hashes the programs and files of the
// sweep.
func locate(b *bench.Bench) (err error) {
	command := b.Parts[0].Command
	if command.Dir, err = filepath.Abs(command.Dir); err != nil {
		return fmt.Errorf("dir: %w", err)
	}
	if info, err := os.Stat(command.Dir); err != nil {
		return fmt.Errorf("dir: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("dir: %s is not a folder", command.Dir)
	}
	return track(b, os.Environ())
}

// Parse reads the text of a sweep file without accessing the file system. The name appears in
// errors, and the program runs in its folder.
func Parse(name string, data []byte) (*bench.Bench, error) {
	file, root := yamlfile.Parse(name, data, "sweep", "name, command and metrics")
	r := &reader{file}
	if root == nil {
		return nil, r.Err()
	}
	bench := r.sweep(root)
	if err := r.Err(); err != nil {
		return nil, err
	}
	// The faults found so far have positions. Validate catches any rule that they miss.
	if err := bench.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return bench, nil
}

func hashText(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

const wantName = "want letters, digits, _ . -, starting with a letter"

// sweep reads the whole file. The result is valid only if no fault was recorded.
func (r *reader) sweep(root yamlfile.Node) *bench.Bench {
	part := &decl.Part{Command: &decl.Command{Inputs: map[string]string{}}}
	b := &bench.Bench{Parts: []*decl.Part{part}}
	f, clean := r.Fields(root, "the sweep", "name", "description", "command", "dir", "ranks", "axes", "env", "zip",
		"metrics", "check", "files", "prepare", "setup", "cleanup", "warmup", "until", "timeout", "trials")
	if f == nil {
		return b
	}
	for _, key := range []string{"name", "command", "metrics"} {
		if f[key] == nil && clean {
			r.Fault(root, "the key %q is missing", key)
		}
	}
	b.Name = r.name(f["name"], "name")
	if n := f["description"]; n != nil {
		if s, ok := r.Text(n, "description"); ok {
			b.Doc = strings.TrimSpace(s.Text)
			b.Help, _, _ = strings.Cut(b.Doc, "\n")
			part.Help = b.Help
		}
	}
	part.Timeout = r.duration(f["timeout"], "timeout")
	part.Trials = r.count(f["trials"], "trials")
	names := &namespace{reader: r, counts: map[string]int{}, whats: map[string]string{}}
	r.points(f, part, names)
	r.program(f, part, names)
	return b
}

// points reads the axes, variables and zips.
func (r *reader) points(f map[string]yamlfile.Node, part *decl.Part, names *namespace) {
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
}

// program reads the commands, and how to extract the metrics from their output.
func (r *reader) program(f map[string]yamlfile.Node, part *decl.Part, names *namespace) {
	c := part.Command
	c.Dir = filepath.Dir(r.Name())
	if n := f["dir"]; n != nil {
		if s, ok := r.Text(n, "dir"); ok && filepath.IsAbs(s.Text) {
			c.Dir = s.Text
		} else if ok {
			c.Dir = filepath.Join(c.Dir, s.Text)
		}
	}
	r.commands(f, part)
	r.files(f["files"], c)
	n := f["metrics"]
	if n == nil {
		return
	}
	metrics := r.metrics(n, names, c.OwnRanks)
	part.Metrics = lists.Map(metrics, func(m metric) journal.MetricInfo { return m.info })
	var checks []check
	if n := f["check"]; n != nil {
		checks = r.checks(n, metrics)
		c.Inputs["check"] = hashText(n.String())
	}
	c.Parse = newOutputParser(metrics, names.list(), checks).parse
	c.Inputs["metrics"] = hashText(n.String())
	if len(metrics) > 0 {
		c.UntilMetric = metrics[0].info.Name
	}
	if n := f["until"]; n != nil {
		var name string
		c.Until, name = r.until(n, metrics)
		c.UntilMetric = cmp.Or(name, c.UntilMetric)
	}
	if slices.ContainsFunc(metrics, func(m metric) bool { return m.column != nil && m.column.table == "nccl_tests" }) {
		c.Columns = ncclKeys
	}
}

// files reads the patterns of files that the program uses besides its arguments.
func (r *reader) files(n yamlfile.Node, c *decl.Command) {
	if n == nil {
		return
	}
	items, ok := r.Texts(n, "files")
	if !ok {
		return
	}
	for _, item := range items {
		if _, err := filepath.Match(item.Text, ""); err != nil || item.Text == "" {
			r.Fault(item.At, "files: %q is not a pattern such as lib/*.sh", item.Text)
		}
		c.Files = append(c.Files, item.Text)
	}
}

// The functions name, duration and count return the zero value for a missing node.

func (r *reader) name(n yamlfile.Node, what string) string {
	if n == nil {
		return ""
	}
	s, ok := r.Text(n, what)
	if ok && !point.ValidName(s.Text) {
		r.Fault(n, "%s %q: %s", what, s.Text, wantName)
	}
	return s.Text
}

func (r *reader) duration(n yamlfile.Node, what string) time.Duration {
	if n == nil {
		return 0
	}
	s, ok := r.Text(n, what)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(s.Text)
	switch {
	case err != nil && s.Number:
		r.Fault(n, "%s: %s has no unit: write %ss or %sm", what, s.Text, s.Text, s.Text)
	case err != nil:
		r.Fault(n, "%s: %q is not a time such as 60s, 1m30s or 500ms", what, s.Text)
	case d <= 0:
		r.Fault(n, "%s: want more than 0, have %s", what, s.Text)
	}
	return d
}

// count reads a whole number of at least 1.
func (r *reader) count(n yamlfile.Node, what string) int {
	if n == nil {
		return 0
	}
	s, ok := r.Text(n, what)
	if !ok {
		return 0
	}
	c, err := strconv.Atoi(s.Text)
	if err != nil || c < 1 {
		r.Fault(n, "%s: want a whole number of at least 1, have %q", what, s.Text)
	}
	return c
}

// commands reads the programs to execute, and checks that the command or its setup uses every axis.
func (r *reader) commands(f map[string]yamlfile.Node, part *decl.Part) {
	c := part.Command
	used := map[string]bool{}
	for _, key := range []struct {
		name string
		argv *[]string
	}{{"command", &c.Argv}, {"setup", &c.Setup}, {"cleanup", &c.Cleanup}, {"prepare", &c.Prepare}} {
		if n := f[key.name]; n != nil {
			*key.argv = r.argv(n, key.name, part.Axes, used)
			c.Inputs[key.name] = hashText(n.String())
		}
	}
	if n := f["warmup"]; n != nil {
		c.Warmup = r.count(n, "warmup")
		c.Inputs["warmup"] = hashText(n.String())
	}
	if f["command"] == nil || f["axes"] == nil {
		return
	}
	// The entries have been checked already; this is only about their positions.
	for _, e := range r.Peek(f["axes"]) {
		isAxis := slices.ContainsFunc(part.Axes, func(a decl.Axis) bool { return a.Name == e.Key })
		if isAxis && !used[e.Key] {
			r.Fault(e.At, "axis %q is not used: put {%s} into the command", e.Key, e.Key)
		}
	}
}

// argv reads the arguments of a program, and checks their placeholders against the axes. It marks
// the axes that the command or its setup uses; use in cleanup alone does not count.
func (r *reader) argv(n yamlfile.Node, what string, axes []decl.Axis, used map[string]bool) []string {
	if s, ok := r.String(n); ok {
		r.Fault(n, "%s: want a list of arguments such as [%s]: no shell splits a line",
			what, quoteAll(strings.Fields(s)))
		return nil
	}
	items, ok := r.Texts(n, what)
	if !ok {
		return nil
	}
	var argv []string
	for i, item := range items {
		argv = append(argv, item.Text)
		if strings.ContainsRune(item.Text, 0) {
			r.Fault(item.At, "%s: an argument cannot hold a NUL byte", what)
		}
		if i == 0 && item.Text == "" {
			r.Fault(item.At, "%s: the program's name is empty", what)
		}
		pieces, err := parseTemplate(item.Text)
		if err != nil {
			r.FaultIn(item.At, err.offset, "%s: %s", what, err.msg)
			continue
		}
		for _, p := range pieces {
			if p.literal {
				continue
			}
			axis, err := p.check(axes)
			switch {
			case what == "prepare" && axis != "":
				r.FaultIn(item.At, p.offset, "prepare: it runs once for all points, so {%s} has no value: use setup", p.text)
			case err != nil:
				r.FaultIn(item.At, p.offset, "%s: %v", what, err)
			}
			used[axis] = used[axis] || what == "command" || what == "setup"
		}
	}
	return argv
}

func quoteAll(words []string) string {
	return strings.Join(lists.Map(words, strconv.Quote), ", ")
}

// namespace detects clashes between the names of axes and variables.
type namespace struct {
	reader *reader
	counts map[string]int    // values per name
	whats  map[string]string // "axis" or "environment variable"
}

// declare records a name, or a fault if it is taken.
func (ns *namespace) declare(at yamlfile.Node, what, name string, values int) {
	if old, taken := ns.whats[name]; taken {
		ns.reader.Fault(at, "%s %q clashes with the %s of that name", what, name, old)
		return
	}
	ns.whats[name], ns.counts[name] = what, values
}

func (ns *namespace) list() []string {
	return slices.Collect(maps.Keys(ns.whats))
}

// ranks reads the rank counts, which become the axis num_ranks.
func (r *reader) ranks(n yamlfile.Node, names *namespace) decl.Axis {
	axis := decl.Axis{Name: bench.RanksAxis, Kind: point.Int}
	axis.Kind, axis.Values = r.values(n, "ranks", point.Int)
	for _, v := range axis.Values {
		if v.Int() < 1 || v.Int() > 1<<20 {
			r.Fault(n, "ranks: a launch has between 1 and %d ranks, not %v", 1<<20, v)
		}
	}
	names.declare(n, "axis", bench.RanksAxis, len(axis.Values))
	return axis
}
