// Package sweep reads sweep files: YAML in which users declare a benchmark of an existing
// program. The result is the same declaration that package bench builds, with the program's
// arguments and a parser that extracts the metrics from the program's output.
//
// It neither plans nor runs anything. Package run calls Substitute for the arguments of a point,
// Command.Parse for the output, and Launches to repeat a point until its noise is low.
// docs/sweep-format.md is the reference of the format.
package sweep

import (
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
type reader struct {
	*yamlfile.Reader
	part    *decl.Part
	names   map[string]named // axes and environment variables
	used    map[string]bool  // the axes that the command or its setup uses
	metrics []metric         // nil before the key metrics is read
	checks  []check
}

// named is an axis or environment variable.
type named struct {
	what   string
	values int
	at     yamlfile.Node
}

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
	if root == nil {
		return nil, file.Err()
	}
	file.Separator = ": "
	part := &decl.Part{Command: &decl.Command{Inputs: map[string]string{}}}
	r := &reader{Reader: file, part: part, names: map[string]named{}, used: map[string]bool{}}
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
	part, c, dir := r.part, r.part.Command, ""
	b := &bench.Bench{Parts: []*decl.Part{part}}
	f, clean := r.Struct(root, "the sweep",
		field("name", &b.Name, r.name),
		field("description", &b.Doc, r.text),
		field("dir", &dir, r.text),
		field("timeout", &part.Timeout, r.duration),
		field("trials", &part.Trials, r.count),
		optional("ranks", r.ranks),
		optional("axes", r.axes),
		optional("env", r.envs),
		optional("zip", r.zips),
		field("command", &c.Argv, r.argv),
		field("setup", &c.Setup, r.argv),
		field("cleanup", &c.Cleanup, r.argv),
		field("prepare", &c.Prepare, r.argv),
		field("warmup", &c.Warmup, r.count),
		field("files", &c.Files, r.files),
		optional("metrics", r.readMetrics),
		optional("check", r.readChecks),
		optional("until", r.until))
	for _, key := range []string{"name", "command", "metrics"} {
		if f[key] == nil && clean {
			r.Fault(root, "the key %q is missing", key)
		}
	}
	for _, key := range []string{"command", "setup", "cleanup", "prepare", "warmup", "metrics", "check"} {
		if n := f[key]; n != nil {
			c.Inputs[key] = hashText(yamlfile.Content(n))
		}
	}
	for _, a := range part.Axes {
		if f["command"] != nil && a.Name != bench.RanksAxis && !r.used[a.Name] {
			r.Fault(r.names[a.Name].at, "axis %q is not used: put {%s} into the command", a.Name, a.Name)
		}
	}
	b.Doc = strings.TrimSpace(b.Doc)
	b.Help, _, _ = strings.Cut(b.Doc, "\n")
	part.Help = b.Help
	if c.Dir = dir; !filepath.IsAbs(dir) {
		c.Dir = filepath.Join(filepath.Dir(r.Name()), dir)
	}
	c.OwnRanks = f["ranks"] == nil
	p := newOutputParser(r.metrics, slices.Collect(maps.Keys(r.names)), r.checks)
	if c.Parse = p.parse; p.table != nil && p.table.kind == "nccl_tests" {
		c.Columns = ncclKeys
	}
	part.Metrics = lists.Map(r.metrics, func(m metric) journal.MetricInfo { return m.info })
	return b
}

// optional is a key that need not be there. read may be nil, see [yamlfile.Field].
func optional(key string, read func(n yamlfile.Node, what string)) yamlfile.Field {
	return yamlfile.Field{Key: key, Optional: true, Read: read}
}

// field is an optional key whose value goes to a variable.
func field[T any](key string, to *T, read func(n yamlfile.Node, what string) T) yamlfile.Field {
	return optional(key, func(n yamlfile.Node, what string) { *to = read(n, what) })
}

// word is a field that holds one of some words. what names the mapping.
func (r *reader) word(what, key string, to *string, words ...string) yamlfile.Field {
	return optional(key, func(n yamlfile.Node, _ string) { *to, _ = r.Word(n, what, key, words...) })
}

// files reads the patterns of files that the program uses besides its arguments.
func (r *reader) files(n yamlfile.Node, what string) (files []string) {
	items, ok := r.Texts(n, what)
	for _, item := range items {
		if _, err := filepath.Match(item.Text, ""); ok && (err != nil || item.Text == "") {
			r.Fault(item.At, "files: %q is not a pattern such as lib/*.sh", item.Text)
		}
		files = append(files, item.Text)
	}
	return files
}

// The functions text, texts, name, duration and count return any value after a fault.

func (r *reader) text(n yamlfile.Node, what string) string {
	s, _ := r.Text(n, what)
	return s.Text
}

func (r *reader) texts(n yamlfile.Node, what string) []string {
	items, _ := r.Texts(n, what)
	return lists.Map(items, func(s yamlfile.Scalar) string { return s.Text })
}

func (r *reader) name(n yamlfile.Node, what string) string {
	s, ok := r.Text(n, what)
	if ok && !point.ValidName(s.Text) {
		r.Fault(n, "%s %q: %s", what, s.Text, wantName)
	}
	return s.Text
}

func (r *reader) duration(n yamlfile.Node, what string) time.Duration {
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

// argv reads the arguments of a program, and checks their placeholders against the axes. It marks
// the axes that the command or its setup uses; use in cleanup alone does not count.
func (r *reader) argv(n yamlfile.Node, what string) []string {
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
			axis, err := p.check(r.part)
			switch {
			case what == "prepare" && axis != "":
				r.FaultIn(item.At, p.offset, "prepare: it runs once for all points, so {%s} has no value: use setup", p.text)
			case err != nil:
				r.FaultIn(item.At, p.offset, "%s: %v", what, err)
			}
			r.used[axis] = r.used[axis] || what == "command" || what == "setup"
		}
	}
	return argv
}

func quoteAll(words []string) string {
	return strings.Join(lists.Map(words, strconv.Quote), ", ")
}

// declare records the name of an axis or variable, or a fault if it is taken.
func (r *reader) declare(name string, n named) {
	if old, taken := r.names[name]; taken {
		r.Fault(n.at, "%s %q clashes with the %s of that name", n.what, name, old.what)
		return
	}
	r.names[name] = n
}

// ranks reads the rank counts, which become the axis num_ranks.
func (r *reader) ranks(n yamlfile.Node, what string) {
	kind, values := r.values(n, what, point.Int)
	for _, v := range values {
		if v.Int() < 1 || v.Int() > 1<<20 {
			r.Fault(n, "ranks: a launch has between 1 and %d ranks, not %v", 1<<20, v)
		}
	}
	r.declare(bench.RanksAxis, named{"axis", len(values), n})
	r.part.Axes = append(r.part.Axes, decl.Axis{Name: bench.RanksAxis, Kind: kind, Values: values})
}
