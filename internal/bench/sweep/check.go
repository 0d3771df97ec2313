package sweep

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
)

// check is a condition that a program's output must meet for its rows to be good.
type check interface {
	// fault is what is wrong, "" when nothing is.
	fault(ranks []decl.RankOutput, samples map[string][]float64) string
}

// condition is an expression over the metrics of a row, which must hold for
// every sample: a median would hide the one iteration that went wrong.
type condition struct {
	text  string
	names []string
	holds func(values map[string]float64) bool
}

func (c condition) fault(_ []decl.RankOutput, samples map[string][]float64) string {
	count := 1
	for _, name := range c.names {
		if len(samples[name]) == 0 {
			return fmt.Sprintf("check %s: the row has no %s", c.text, name)
		}
		count = max(count, len(samples[name]))
	}
	for i := range count {
		values := map[string]float64{}
		for _, name := range c.names {
			values[name] = samples[name][min(i, len(samples[name])-1)]
		}
		if c.holds(values) {
			continue
		}
		shown := lists.Map(slices.Sorted(maps.Keys(values)), func(name string) string {
			return fmt.Sprintf("%s=%v", name, values[name])
		})
		return fmt.Sprintf("check %s does not hold: %s", c.text, strings.Join(shown, ", "))
	}
	return ""
}

// pattern is an expression that some rank's output must match, or none's.
type pattern struct {
	re     *regexp.Regexp
	text   string
	stream string
	never  bool
}

func (c pattern) fault(ranks []decl.RankOutput, _ map[string][]float64) string {
	for _, out := range ranks {
		found := c.re.Find(metric{stream: c.stream}.read(out))
		switch {
		case found == nil:
		case c.never:
			return fmt.Sprintf("check no_match %s: rank %d printed %q", c.text, out.Rank, clip(string(found)))
		default:
			return ""
		}
	}
	if c.never {
		return ""
	}
	return fmt.Sprintf("check match %s: no rank printed it", c.text)
}

// checks reads one check or a list of them.
func (r *reader) checks(n yamlfile.Node, metrics []metric) (checks []check) {
	nodes := []yamlfile.Node{n}
	if r.IsList(n) {
		nodes, _ = r.List(n, "check")
	}
	for _, n := range nodes {
		if c := r.check(n, metrics); c != nil {
			checks = append(checks, c)
		}
	}
	return checks
}

func (r *reader) check(n yamlfile.Node, metrics []metric) check {
	if !r.IsMapping(n) {
		s, ok := r.Text(n, "check")
		if !ok {
			return nil
		}
		holds, used, err := plan.Condition(s.Text, lists.Map(metrics, func(m metric) string { return m.info.Name }))
		if err != nil {
			r.Fault(n, "check: %v", err)
			return nil
		}
		return condition{s.Text, used, holds}
	}
	f, clean := r.Fields(n, "check", "match", "no_match", "stream")
	if f == nil {
		return nil
	}
	c := pattern{stream: "both", never: f["no_match"] != nil}
	text := f["match"]
	if c.never {
		text = f["no_match"]
	}
	if (f["match"] == nil) == (f["no_match"] == nil) {
		if clean {
			r.Fault(n, "check: want one of match and no_match")
		}
		return nil
	}
	s, ok := r.Text(text, "check")
	if !ok {
		return nil
	}
	var err error
	if _, err = regexp.Compile(s.Text); err != nil {
		r.Fault(text, "check: %v", err)
		return nil
	}
	c.re, c.text = regexp.MustCompile("(?m)"+s.Text), s.Text
	if n := f["stream"]; n != nil {
		c.stream, _ = r.Word(n, "check", "stream", "stdout", "stderr", "both")
	}
	return c
}
