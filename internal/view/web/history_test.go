package web

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Equally named benches of different folders have histories of their own.
func TestHistoryKeepsFoldersApart(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		record(t, filepath.Join(dir, "a"), fmt.Sprintf("r%d", i), 4, 10, 7)
		record(t, filepath.Join(dir, "b"), fmt.Sprintf("s%d", i), 4, 50, 7)
	}
	s := newServer(dir, "")
	rows := ask[rowPage](t, s, "/api/rows?run=a")
	page := ask[historyPage](t, s, "/api/history?run=a&point="+url.QueryEscape(rows.Tables[0].Rows[0].Point))
	if len(page.Runs) != 3 || page.Runs[0].Info.Folder != "a" {
		t.Errorf("%d runs: %+v", len(page.Runs), page.Runs)
	}
}

// past returns runs of one point with the given times, four launches each.
func past(times ...float64) (out pastRuns) {
	for i, us := range times {
		id := fmt.Sprintf("r%d", i)
		run := dataset.Named{Dataset: &dataset.Dataset{Header: journal.Header{Run: id, Bench: "b",
			Commit: strings.Repeat(fmt.Sprint(i%10), 40)}}}
		for trial := range 4 {
			run.Rows = append(run.Rows, &journal.Row{Run: id, Bench: "b", Trial: trial, Status: journal.OK,
				Kind: journal.Measured, Samples: 9, Point: point.Point{{Name: "size", Value: point.IntValue(1)}},
				Metrics: map[string]float64{"time_us": us * (1 + 0.005*float64((i+trial)%3))}})
		}
		out.infos, out.changed = append(out.infos, runInfo{Run: id}), append(out.changed, "")
		out.runs = append(out.runs, run)
	}
	return out
}

func TestHistorySummary(t *testing.T) {
	ten := []float64{100, 100, 100, 100, 100, 100, 100, 100, 100, 100}
	key := dataset.Key(past(1).runs[0].Rows[0])
	for name, c := range map[string]struct {
		past        pastRuns
		want, state string
	}{
		"a visible step of few runs": {past(100, 300), "slower by 2", "failed"},
		"a step":                     {past(append(ten, 110, 110, 110)...), "since run r10 (commit 000000000000)", "failed"},
		"few runs":                   {past(100, 101), "2 undisturbed runs: at least 5 are needed", "skipped"},
		"steady":                     {past(ten...), "10 runs. No lasting change of more than 2 % found in 10 runs.", "ok"},
	} {
		page := must.Get(newHistory(c.past, key, "time_us"))(t)
		if text := strings.Join(page.Summary, " "); !strings.Contains(text, c.want) {
			t.Errorf("%s: %s\nwant %s", name, text, c.want)
		}
		if page.State != c.state {
			t.Errorf("%s: state %s, want %s", name, page.State, c.state)
		}
	}
	cut := past(ten...)
	cut.cut = 7
	if page := must.Get(newHistory(cut, key, "time_us"))(t); page.Summary[0] != "The latest 10 of 17 runs." {
		t.Error(page.Summary[0])
	}
}

// TestHistoryCountsTrials checks that a run of two points with four trials each has four trials, not eight.
func TestHistoryCountsTrials(t *testing.T) {
	p := past(100, 101)
	for i := range p.runs {
		for _, r := range p.runs[i].Rows.Clone() {
			r.Point = point.Point{{Name: "size", Value: point.IntValue(2)}}
			p.runs[i].Rows = append(p.runs[i].Rows, r)
		}
	}
	if page := must.Get(newHistory(p, "", "time_us"))(t); page.Runs[0].Trials != 4 {
		t.Errorf("%d trials, want 4", page.Runs[0].Trials)
	}
}

// A run whose trials were all disturbed is hollow and raises no alarm.
func TestHistoryOfDisturbedRuns(t *testing.T) {
	p := past(100, 100, 100, 100, 100, 300)
	for i := range p.runs[5].Rows {
		p.runs[5].Rows[i].Quality = journal.QualityDisturbed
	}
	page := must.Get(newHistory(p, dataset.Key(p.runs[0].Rows[0]), "time_us"))(t)
	last := page.Runs[5]
	if !last.Disturbed || last.Change != "" || !page.Figures[0].Panels[0].Series[0].Points[5].Hollow {
		t.Errorf("%+v", last)
	}
	if _, err := newHistory(p, "gone", "time_us"); err == nil {
		t.Error("a point that no run has is accepted")
	}
}
