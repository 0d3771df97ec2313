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
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/report"
)

// timedRun are good rows of the performance part, as a machine might give them.
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

// A report that is printed has at most twelve pages, of a run that failed everywhere and of
// one that was interrupted too: those have most to say. An estimate of ten leaves room for what
// pages are broken at.
func TestPrintedPages(t *testing.T) {
	if testing.Short() {
		t.Skip("draws all figures twice")
	}
	all := complete(t)
	for i := range all {
		all[i].Key = all[i].Part + all[i].Point.String() + fmt.Sprint(*all[i].NumRanks)
	}
	times := timedRun(t)
	failed := slices.Clone(all)
	for i := range failed {
		if i%3 == 0 && failed[i].Status == journal.OK {
			failed[i].Status, failed[i].Reason = journal.Failed, fmt.Sprintf("rank %d: element %d is 3, want 4", i%4, i)
			failed[i].Warnings = []string{fmt.Sprintf("warning of its own %c: %s", 'a'+i%26, strings.Repeat("words ", 10))}
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
		must.Get(report.Render(dir, report.Input{Bench: Bench(), Run: run}))(t)
		page := must.Get(os.ReadFile(filepath.Join(dir, "report.html")))(t)
		if n := pages(string(page)); n < 3 || n > 10 {
			t.Errorf("%s: about %.1f pages, want 3 to 10", name, n)
		}
		// What is for the screen alone counts as soon as it is printed.
		if n := pages(strings.ReplaceAll(string(page), `class="detail"`, "")); n < 20 {
			t.Errorf("%s: with its rows about %.1f pages, want more than 20", name, n)
		}
	}
}

// What a printed page holds, by page.css: lines of 9 points on the shorter and narrower of
// A4 and Letter.
const (
	linesOfPage    = 58.0
	lettersOfLine  = 115
	linesOfFigure  = 28.0 // 11 cm, its caption and margins
	linesOfHeading = 2.7
	linesOfRow     = 0.9 // a line of a table
	linesOfPadding = 0.35
)

var (
	unprinted = regexp.MustCompile(`(?s)<nav\b.*?</nav>|<section[^>]*class="detail".*?</section>|<style>.*?</style>|<script.*?</script>|<title>.*?</title>`)
	table     = regexp.MustCompile(`(?s)<table\b.*?</table>`)
	tableRow  = regexp.MustCompile(`(?s)<tr\b.*?</tr>`)
	tableCell = regexp.MustCompile(`(?s)<t[dh]\b[^>]*>(.*?)</t[dh]>`)
	block     = regexp.MustCompile(`(?s)<(h1|h2|h3|p|li|dt|dd|figure|pre)\b[^>]*>(.*?)</(?:h1|h2|h3|p|li|dt|dd|figure|pre)>`)
	tag       = regexp.MustCompile(`<[^>]*>`)
)

func letters(markup string) int {
	return len([]rune(html.UnescapeString(tag.ReplaceAllString(markup, ""))))
}

// wrapped is how many lines so many letters take in a column.
func wrapped(letters, width int) int { return (letters + width - 1) / max(width, 1) }

// pages estimates how many pages a report takes in print, from what is printed of it: text
// by its letters, tables by those of their cells, figures at their greatest height. Chromium
// took up to 1.2 pages more for such reports, since figures and rows are not broken.
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
			lines += float64(max(1, wrapped(letters(b[2]), lettersOfLine)))
		}
	}
	return lines / linesOfPage
}

// tableLines shares the width of the page out among columns by their longest cells.
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
			most = max(most, wrapped(letters(c[1]), width))
		}
		lines += float64(most)*linesOfRow + linesOfPadding
	}
	return lines
}
