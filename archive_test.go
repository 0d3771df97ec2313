package kernbench_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// archive is the folder of stored runs on a GPU. The tables of its page between the marks below are made from the
// journals beside it, so that page and journals cannot disagree; -update renews them.
const archive = "docs/results/h200"

const (
	tableBegins = "<!-- made from the journals by go test -run Archive -update: %s -->\n"
	tableEnds   = "<!-- end -->\n"
)

func TestArchive(t *testing.T) {
	runs := map[string][]*journal.Row{}
	for _, file := range must.Get(filepath.Glob(archive + "/*/journal.jsonl"))(t) {
		name := filepath.Base(filepath.Dir(file))
		for _, r := range must.Get(journal.Read(file))(t).Runs {
			rows := dataset.Of(r).Rows
			for i := range rows {
				runs[name] = append(runs[name], rows[i])
			}
		}
	}
	page := filepath.Join(archive, "README.md")
	text := string(must.Get(os.ReadFile(page))(t))
	for name, table := range map[string]string{"contents": contents(runs),
		"fastest":     fastest(slices.Concat(runs["eval-small"], runs["eval-large"], runs["eval-8x512"])),
		"fastest f16": fastest(runs["eval-f16"]), "fastest f32": fastest(runs["eval-f32"])} {
		begin := fmt.Sprintf(tableBegins, name)
		before, rest, found := strings.Cut(text, begin)
		_, after, ended := strings.Cut(rest, tableEnds)
		if !found || !ended {
			t.Fatalf("%s has no table %q", page, name)
		}
		text = before + begin + "\n" + table + "\n" + tableEnds + after
	}
	golden.CheckFile(t, page, text)
}

// contents counts the rows of every folder by their status, and the disturbed ones.
func contents(runs map[string][]*journal.Row) string {
	var b strings.Builder
	b.WriteString("| folder | bench | rows | ok | not executed | skipped | failed | disturbed | by |\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(runs)) {
		rows := runs[name]
		count, reasons := map[journal.Status]int{}, map[string]int{}
		bad, disturbed := 0, 0
		for _, r := range rows {
			count[r.Status]++
			if r.Status.Bad() {
				bad++
			}
			if r.Disturbed() && r.Status == journal.OK {
				disturbed++
				reasons[r.Conditions.Strongest().Label()]++
			}
		}
		var by []string
		for _, kind := range slices.Sorted(maps.Keys(reasons)) {
			by = append(by, fmt.Sprintf("%s %d", kind, reasons[kind]))
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d | %d | %d | %s |\n", name, rows[0].Bench, len(rows),
			count[journal.OK], count[journal.NotExecuted], count[journal.Skipped], bad, disturbed, strings.Join(by, ", "))
	}
	return b.String()
}

// fastest tabulates the fastest exact all-reduce of each size.
func fastest(rows []*journal.Row) string {
	type place struct{ ranks, size int }
	best := map[place]*journal.Row{}
	var ranks, sizes []int
	for _, r := range rows {
		if r.Status != journal.OK || r.NumRanks == nil || strings.HasPrefix(dataset.Text(r, "algorithm"), "quickreduce") {
			continue
		}
		at := place{*r.NumRanks, int(dataset.Number(r, "size"))}
		ranks, sizes = append(ranks, at.ranks), append(sizes, at.size)
		if old := best[at]; old == nil || r.Metrics["time_us"] < old.Metrics["time_us"] {
			best[at] = r
		}
	}
	slices.SortFunc(sizes, cmp.Compare)
	slices.SortFunc(ranks, cmp.Compare)
	sizes, ranks = slices.Compact(sizes), slices.Compact(ranks)
	var b strings.Builder
	b.WriteString("| ranks |")
	for _, size := range sizes {
		fmt.Fprintf(&b, " %s |", unit.FormatBytes(int64(size)))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(sizes)) + "\n")
	for _, n := range ranks {
		fmt.Fprintf(&b, "| %d |", n)
		for _, size := range sizes {
			b.WriteString(" " + cell(best[place{n, size}]) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// cell formats a row: the time of a call, its share of the limit inside one launch, and a mark if it was disturbed.
func cell(r *journal.Row) string {
	if r == nil {
		return "-"
	}
	text := unit.FormatSig(r.Metrics["time_us"], 3)
	if share := r.Metrics["kernel_cold_pct_of_limit"]; share >= 50 {
		text += fmt.Sprintf(" (%.0f %%)", share)
	}
	if r.Disturbed() {
		text += " *disturbed*"
	}
	return text
}
