package benches

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// explained reports whether a bench says what a metric means.
func explained(b *bench.Bench, name string) bool {
	declared, _ := b.Metrics()
	for _, p := range b.Parts {
		declared = append(declared, p.Reports...)
	}
	for _, m := range append(declared, journal.MetricInfo{Name: decl.LimitMetric, Meaning: "of all benches"}) {
		pattern := regexp.MustCompile(`[A-Z]+`).ReplaceAllString(m.Name, `.+`)
		if m.Meaning != "" && regexp.MustCompile("^"+pattern+"$").MatchString(name) {
			return true
		}
	}
	return false
}

// TestMetricsAreExplained checks that every metric has a meaning: the declared metrics, the metrics that bodies report,
// and the metrics of the stored runs.
func TestMetricsAreExplained(t *testing.T) {
	byName := map[string]*bench.Bench{}
	for _, b := range All() {
		byName[b.Name] = b
		declared, _ := b.Metrics()
		for _, m := range declared {
			if m.Meaning == "" || strings.HasSuffix(m.Meaning, ".") {
				t.Errorf("%s: metric %s: meaning %q, want one phrase without a full stop", b.Name, m.Name, m.Meaning)
			}
		}
	}
	stored := 0
	for _, pattern := range []string{"../docs/results/h200/*/journal.jsonl",
		"../cmd/kernbench/testdata/outputs/*/journal.jsonl"} {
		for _, file := range must.Get(filepath.Glob(pattern))(t) {
			for _, run := range must.Get(journal.Read(file))(t).Runs {
				b := byName[run.Header.Bench]
				if b == nil {
					continue // a program of a user
				}
				for _, r := range run.Rows {
					for name := range r.Metrics {
						if stored++; !explained(b, name) {
							t.Fatalf("%s: bench %s does not explain %s", file, b.Name, name)
						}
					}
				}
			}
		}
	}
	if stored < 1000 {
		t.Errorf("the stored runs have only %d numbers", stored)
	}
	if explained(byName["memory"], "planted_us") {
		t.Error("a metric that does not exist is explained")
	}
}

// TestReportedMetricsAreExplained finds the names in calls of State.Report.
func TestReportedMetricsAreExplained(t *testing.T) {
	found := 0
	for _, file := range must.Get(filepath.Glob("*/*.go"))(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text := string(must.Get(os.ReadFile(file))(t))
		for _, m := range regexp.MustCompile(`s\.Report\("([a-z0-9_]+)"`).FindAllStringSubmatch(text, -1) {
			found++
			known := false
			for _, b := range All() {
				known = known || explained(b, m[1])
			}
			if !known {
				t.Errorf("%s reports %s, which no bench explains", file, m[1])
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d calls were found", found)
	}
}
