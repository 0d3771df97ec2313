package allreduceeval

import (
	"fmt"
	"hash/fnv"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/imports"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
	"github.com/kernbench/kernbench/internal/view/document"
	"github.com/kernbench/kernbench/internal/view/report"
)

// published returns the rows of a published report that drew wrong conclusions, imported
// as the command import does it, with the verdicts on the claims of its prose.
func published(t *testing.T) []journal.Row {
	t.Helper()
	rows := publishedTable(t, "nvlink-h100")
	data := must.Get(os.ReadFile(filepath.Join("..", "..", "examples", "published-report", "claims.yaml")))(t)
	claims := must.Get(imports.Claims("claims.yaml", data))(t)
	src := imports.Source{Run: "r", Bench: Name, Part: matrix.Performance, Name: "claims.yaml"}
	return append(rows, imports.VerdictRows(model.Judge(dataset.All(rows), claims, model.NamedCurve), src, len(rows))...)
}

// publishedTable returns the rows of the report's table alone.
func publishedTable(t *testing.T, link string) []journal.Row {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join("..", "..", "examples", "published-report", "times.csv")))(t)
	file := must.Get(imports.Read("csv", "times.csv", string(data), imports.Given{}))(t)
	src := imports.Source{Run: "r", Bench: Name, Part: matrix.Performance, Name: "times.csv"}
	rows := imports.Rows(file.Records, src, 0, map[string]int{})
	ceilings := must.Get(model.Ceilings(link))(t)
	for i := range rows {
		model.Limit(&rows[i], ceilings)
	}
	return rows
}

// sections returns the sections of a report as readers see them.
func sections(rows []journal.Row) []document.Section {
	list, _ := report.Sections(report.Input{Bench: Bench(), Data: dataset.Of(&journal.Run{Rows: rows})},
		dataset.All(rows))
	return lists.Map(list, document.NewSection)
}

// dump formats sections as text.
func dump(list []document.Section) string {
	var b strings.Builder
	for _, s := range list {
		fmt.Fprintf(&b, "## %s\n\n%s\n\n", s.Title, s.Text)
		if s.Grid != nil {
			fmt.Fprintf(&b, "grid %s: %s\n", s.Grid.Corner, strings.Join(s.Grid.Columns, " | "))
			for _, r := range s.Grid.Rows {
				for _, c := range r.Cells {
					fmt.Fprintf(&b, "%s: %s %s\n", r.Name, c.Status, c.Text)
				}
			}
		}
		for _, r := range s.Table {
			b.WriteString(strings.Join(r, " | ") + "\n")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// The generated report draws the right conclusions from the published numbers. Its whole
// text is in testdata.
func TestPublishedReport(t *testing.T) {
	golden.Check(t, "published.golden", dump(sections(published(t))))
}

// The first lines of the summary name the mistakes of the published report: those that
// its table shows by itself, and with claims.yaml those of its prose.
func TestPublishedMistakes(t *testing.T) {
	const link = "nvlink-h100"
	shown := map[string]string{
		"time linear in size called latency-bound": "is bandwidth-bound at 3.11 GB/s",
		"the signature of another path":            "the data most likely takes another path, such as through host memory",
		"equal types against bandwidth":            "what a bandwidth limit predicts and no evidence against one",
		"86.41 against 86.40 ms":                   "The switch between them most likely had no effect",
		"256 MB as a decode step":                  "the smallest message, 64Mi, is 4096 tokens of Llama 3.1 70B",
		"required cells that never ran": "3 required points were never executed, so they have not passed " +
			"(the machine has 2 GPUs",
		"float16 claimed":                    "float16 is claimed but not among the types",
		"no correctness":                     "no cell of the matrix ran, so nothing is known",
		"neither date nor machine nor build": "does not say on which machine, by whom, when and with which build",
		"no samples":                         "times are **not usable** (0 of 6 settled)",
	}
	linked := map[string]string{
		"utilisation without denominator": "119 times slower than its ceiling, nvlink-h100 reachable",
		"potential understated":           "the published nccl-h100 is 85 to 102 times faster",
	}
	prose := map[string]string{
		"1.2 % of what":         `"1.2 % utilisation" (refused)`,
		"wrong per cent of raw": `"1.2 % of the 478 GB/s of NVLink" (refuted)`,
		"twice the throughput":  `"the actual data movement is 5.95 GB/s" (refuted)`,
		"5 said, 6 listed":      `"5 configurations were measured" (refuted)`,
		"a decode step":         `"a decode step of Llama 70B all-reduces 256 MB" (refused)`,
	}
	for name, c := range map[string]struct {
		rows []journal.Row
		want []map[string]string
	}{
		"table":            {publishedTable(t, ""), []map[string]string{shown}},
		"table and link":   {publishedTable(t, link), []map[string]string{shown, linked}},
		"table and claims": {published(t), []map[string]string{shown, linked, prose}},
	} {
		first := strings.Split(sections(c.rows)[0].Text, "\n")
		got := strings.Join(first[:min(len(first), 10)], "\n")
		for _, want := range c.want {
			for mistake, text := range want {
				if !strings.Contains(got, text) {
					t.Errorf("%s: %s: the first lines lack %q:\n%s", name, mistake, text, got)
				}
			}
		}
		if strings.Contains(got, "all passed") {
			t.Errorf("%s: the report says \"all passed\"", name)
		}
	}
}

// A table with provenance and messages as small as a decode step's raises no complaint.
func TestSoundTableIsNotCriticized(t *testing.T) {
	rows := publishedTable(t, "")[:4]
	for i := range rows {
		rows[i].Point[slices.IndexFunc(rows[i].Point, func(c point.Coord) bool {
			return c.Name == "size"
		})].Value = point.BytesValue(16 << 10 << i)
		rows[i].Metrics["time_us"] = 10 + 0.1*float64(i)
		rows[i].Details["source"] = "log of the run"
	}
	for _, line := range strings.Split(sections(rows)[0].Text, "\n") {
		for _, title := range []string{"No decode step", "Provenance", "Far", "Not measured", "switch", "Element types",
			"Claims"} {
			if strings.Contains(line, "**"+title) {
				t.Errorf("complaint: %s", line)
			}
		}
	}
}

// Contradictions to physics are attached to the rows that they concern, once, even if
// the rows are viewed repeatedly. The journal's own rows do not change.
func TestWarningsOnRows(t *testing.T) {
	rows := published(t)
	shown := addWarnings(addWarnings(dataset.All(rows)))
	for i, r := range shown {
		want := 0
		dtype := r.Point.At("dtype")
		if r.Part == matrix.Performance && r.Status == journal.OK && r.Point.At("size").String() == "268435456" &&
			dtype.String() == "bf16" {
			want = 1 // two paths with identical times
		}
		if got := strings.Count(strings.Join(r.Conditions.Sentences(), "\n"), "identical: "); got != want {
			t.Errorf("row %d (%s): %d warnings of identical times, want %d: %q", i, r.Point, got, want, r.Conditions.Sentences())
		}
		if len(rows[i].Conditions) != 0 {
			t.Errorf("row %d of the journal was changed", i)
		}
	}
}

// passingRows returns the rows of a complete run of the correctness parts in which
// everything passed.
func passingRows(t *testing.T) []journal.Row {
	t.Helper()
	p := must.Get(plan.Make(Bench(), plan.Request{Backend: hints.HostBackend}))(t)
	var rows []journal.Row
	add := func(task plan.Task, status journal.Status) {
		r := journal.Row{Bench: Name, Part: task.Part, Point: task.Point, NumRanks: &task.Ranks, Backend: hints.HostBackend,
			Status: status, Reason: journal.Text(task.Reason), Options: p.Options}
		if matrix.Find(task.Point.At("algorithm").String()).Hardware != "" && status == journal.OK {
			r.Status, r.Optional, r.Reason = journal.NotExecuted, true, "needs a GPU"
		}
		if task.Part != matrix.Performance {
			rows = append(rows, r)
		}
	}
	for _, g := range p.Groups {
		for _, task := range g.Tasks {
			add(task, journal.OK)
		}
	}
	for _, task := range p.Dropped {
		add(task, journal.Skipped)
	}
	return rows
}

func leadText(rows []journal.Row) string { return sections(rows)[0].Text }

// The summary says "all passed" of a complete run only.
func TestAllPassed(t *testing.T) {
	rows := passingRows(t)
	if text := leadText(rows); !strings.Contains(text,
		"all passed. Every required cell ran: 3564 passed, 0 failed, 864 skipped, 972 not executed") {
		t.Errorf("complete run: %s", text)
	}
	spoil := func(change func(rows []journal.Row) []journal.Row) string {
		return leadText(change(slices.Clone(rows)))
	}
	index := func(rows []journal.Row, status journal.Status) int {
		for i := range rows {
			if rows[i].Part == matrix.Correctness && rows[i].Status == status {
				return i
			}
		}
		t.Fatal("no such row")
		return 0
	}
	for name, c := range map[string]struct {
		change func(rows []journal.Row) []journal.Row
		want   string
	}{
		"a row failed": {func(rows []journal.Row) []journal.Row {
			r := &rows[index(rows, journal.OK)]
			r.Status, r.Reason = journal.Failed, "element 3 is 4"
			r.Details = map[string]string{"cells": "0=ok, 1 element=ok, 8Ki=failed, 8Ki+1=ok, 1Mi-1=ok"}
			return rows
		}, "**wrong results.** 3562 passed, 1 failed"},
		"a row timed out": {func(rows []journal.Row) []journal.Row {
			rows[index(rows, journal.OK)].Status = journal.Timeout
			return rows
		}, "**wrong results.** 3558 passed, 6 failed"},
		"a required row did not run": {func(rows []journal.Row) []journal.Row {
			r := &rows[index(rows, journal.OK)]
			r.Status, r.Reason = journal.NotExecuted, "no memory"
			return rows
		}, "not shown. All cells that ran passed, but required cells did not run: 3558 passed, 0 failed, 864 " +
			"skipped, 978 not executed (6 of them required)"},
		"a row is not there": {func(rows []journal.Row) []journal.Row {
			i := index(rows, journal.OK)
			return append(rows[:i], rows[i+1:]...)
		}, "978 not executed (6 of them required)"},
		"eight ranks were left out": {func(rows []journal.Row) []journal.Row {
			var kept []journal.Row
			for _, r := range rows {
				if *r.NumRanks != 8 {
					kept = append(kept, r)
				}
			}
			return kept
		}, "required cells did not run"},
		"nothing ran": {func([]journal.Row) []journal.Row { return nil }, "no cell of the matrix ran"},
	} {
		if text := spoil(c.change); !strings.Contains(text, c.want) || strings.Contains(text, "all passed") {
			t.Errorf("%s: want %q in\n%s", name, c.want, text)
		}
	}
}

// timedRun returns plausible rows of the performance part.
func timedRun(t *testing.T) (rows []journal.Row) {
	t.Helper()
	p := must.Get(plan.Make(Bench(), plan.Request{Backend: hints.HostBackend}))(t)
	for _, g := range p.Groups {
		for _, task := range g.Tasks {
			if task.Part != matrix.Performance {
				continue
			}
			size := task.Point.At("size")
			h := fnv.New32()
			fmt.Fprint(h, task.Point)
			us := 2 + float64(len(task.Point.At("algorithm").String())) + float64(size.Int())/20e3*(1+float64(h.Sum32()%100)/400)
			low, high := us*0.98, us*1.02
			rows = append(rows, journal.Row{Bench: Name, Part: task.Part, Point: task.Point, NumRanks: &task.Ranks,
				Backend: hints.HostBackend, Status: journal.OK, Kind: journal.Measured,
				Samples: 200, Options: p.Options, Host: "host",
				Metrics: map[string]float64{"time_us": us, "algbw": float64(size.Int()) / us / 1e3,
					"busbw": float64(size.Int()) / us / 1e3, "wrong": 0, "traffic_bytes": float64(size.Int())},
				Limits: map[string]float64{"bandwidth": us / 2, "hops": 1}, Details: map[string]string{"buffers": "symmetric"},
				Stats: journal.NewObject(map[string]journal.Stat{"time_us": {Min: low, P50: us, P90: high, P99: high, Max: high,
					Mean: us, CILow: &low, CIHigh: &high}}), Key: task.Point.String() + fmt.Sprint(task.Ranks)})
		}
	}
	return rows
}

// A printed report has at most twelve pages. Failed and interrupted runs have the longest reports. The
// limit of the estimate is ten, because page breaks take additional room.
func TestPrintedPages(t *testing.T) {
	all := passingRows(t)
	for i := range all {
		all[i].Key = all[i].Part + all[i].Point.String() + fmt.Sprint(*all[i].NumRanks)
	}
	times := timedRun(t)
	failed := slices.Clone(all)
	for i := range failed {
		if i%3 == 0 && failed[i].Status == journal.OK {
			failed[i].Status, failed[i].Reason = journal.Failed, journal.Textf("rank %d: element %d is 3, want 4", i%4, i)
			failed[i].Conditions = []journal.Condition{journal.Remarkf("warning of its own %c: %s", 'a'+i%26,
				strings.Repeat("words ", 10))}
		}
	}
	for name, c := range map[string]struct {
		rows    []journal.Row
		outcome string
	}{
		"failed":      {slices.Concat(failed, times), "complete"},
		"interrupted": {slices.Concat(all[:len(all)/2], times[:10]), "interrupted"},
	} {
		dir := t.TempDir()
		run := &journal.Run{Header: journal.Header{Schema: 1, Run: "r", Bench: Name, Backend: hints.HostBackend,
			Points: len(all) + len(times)},
			Rows: c.rows, End: &journal.End{Outcome: c.outcome, Seconds: 100}}
		must.Get(report.Render(dir, report.Input{Bench: Bench(), Data: dataset.Of(run)}))(t)
		page := must.Get(os.ReadFile(filepath.Join(dir, "report.html")))(t)
		if n := pages(string(page)); n < 3 || n > 10 {
			t.Errorf("%s: about %.1f pages, want 3 to 10", name, n)
		}
		// Details are not printed. If they were, the report would be much longer.
		if n := pages(strings.ReplaceAll(string(page), `class="detail"`, "")); n < 20 {
			t.Errorf("%s: with its rows about %.1f pages, want more than 20", name, n)
		}
	}
}

// Dimensions of a printed page according to page.css, with 9-point lines and the smaller of A4 and
// Letter in both directions.
const (
	linesOfPage    = 58.0
	lettersOfLine  = 115
	linesOfFigure  = 28.0 // 11 cm with caption and margins
	linesOfHeading = 2.7
	linesOfRow     = 0.9 // one line of text in a table row
	linesOfPadding = 0.35
)

var (
	unprinted = regexp.MustCompile(`(?s)<nav\b.*?</nav>|<section[^>]*class="detail".*?</section>|` +
		`<style>.*?</style>|<script.*?</script>|<title>.*?</title>`)
	table     = regexp.MustCompile(`(?s)<table\b.*?</table>`)
	tableRow  = regexp.MustCompile(`(?s)<tr\b.*?</tr>`)
	tableCell = regexp.MustCompile(`(?s)<t[dh]\b[^>]*>(.*?)</t[dh]>`)
	block     = regexp.MustCompile(`(?s)<(h1|h2|h3|p|li|dt|dd|figure|pre)\b[^>]*>(.*?)` +
		`</(?:h1|h2|h3|p|li|dt|dd|figure|pre)>`)
	tag = regexp.MustCompile(`<[^>]*>`)
)

func letters(markup string) int {
	return len([]rune(html.UnescapeString(tag.ReplaceAllString(markup, ""))))
}

// lineCount returns the number of lines that a text takes in a column of that width.
func lineCount(letters, width int) int { return (letters + width - 1) / max(width, 1) }

// pages estimates the number of printed pages: text and table cells by their letters, figures at their
// maximum height. Chromium needed up to 1.2 pages more for such reports, because it does not break
// figures and rows.
func pages(page string) float64 {
	page = unprinted.ReplaceAllString(page, "")
	lines := 0.0
	for _, t := range table.FindAllString(page, -1) {
		lines += tableLines(t)
	}
	for _, b := range block.FindAllStringSubmatch(table.ReplaceAllString(page, ""), -1) {
		switch b[1] {
		case "figure":
			lines += linesOfFigure
		case "h1", "h2", "h3":
			lines += linesOfHeading
		default:
			lines += float64(max(1, lineCount(letters(b[2]), lettersOfLine)))
		}
	}
	return lines / linesOfPage
}

// tableLines distributes the width of the page over the columns by their longest cells.
func tableLines(table string) (lines float64) {
	var widths []int
	all := 0
	for _, r := range tableRow.FindAllString(table, -1) {
		for i, c := range tableCell.FindAllStringSubmatch(r, -1) {
			for len(widths) <= i {
				widths = append(widths, 0)
				all += 2
			}
			if n := letters(c[1]); n > widths[i] {
				all, widths[i] = all+n-widths[i], n
			}
		}
	}
	for _, r := range tableRow.FindAllString(table, -1) {
		most := 1
		for i, c := range tableCell.FindAllStringSubmatch(r, -1) {
			width := widths[i]
			if all > lettersOfLine {
				width = max(min(width, 10), width*lettersOfLine/all)
			}
			most = max(most, lineCount(letters(c[1]), width))
		}
		lines += float64(most)*linesOfRow + linesOfPadding
	}
	return lines
}
