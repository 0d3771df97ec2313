package report

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
)

// names returns the files below dir, sorted.
func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			out = append(out, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func oneFigure(name string, panels ...figure.Panel) func(dataset.Set) []figure.Figure {
	return func(dataset.Set) []figure.Figure { return []figure.Figure{{Name: name, Panels: panels}} }
}

var byDType = views.Plot{X: "size", Y: []string{"time_us"}, By: []string{"dtype"}}

var goodPanel = figure.Panel{X: figure.Axis{Label: "x"}, Y: figure.Axis{Label: "y"}}

// TestLostRows checks that a report never calls a run good whose rows are lost, whatever its bench answers.
func TestLostRows(t *testing.T) {
	run := &journal.Run{Header: *fixtureHeader(), Rows: []journal.Row{fixtureRow(coords{1024, "f32", 2, "", 0})},
		End: &journal.End{Outcome: "complete", Counts: map[journal.Status]int{journal.OK: 3}}}
	own := &bench.Bench{Sections: func(dataset.Set) []bench.Section {
		return []bench.Section{{Title: "Answer", Lead: true, Text: "Good."}}
	}}
	for _, b := range []*bench.Bench{nil, own} {
		doc, errs := Document(&Input{Bench: b, Data: dataset.Of(run)}, dataset.All(run.Rows))
		hasErrors(t, errors.Join(errs...))
		var page strings.Builder
		must.Do(t, doc.WriteHTML(&page))
		for _, want := range []string{"Of its 3 rows 1 is ok and 2 are lost.", `<li class="failed"><b>2</b> lost</li>`,
			"<strong>2 rows are lost:</strong> lines of the journal are damaged or missing."} {
			if !strings.Contains(page.String(), want) {
				t.Errorf("the page of a bench with an answer %v does not say %q", b != nil, want)
			}
		}
		if strings.Contains(page.String(), "No failure") {
			t.Error("the page says that there is no failure")
		}
	}
}

func failedRun() *journal.Run {
	return &journal.Run{Header: *fixtureHeader(),
		Rows: []journal.Row{notOK(fixtureRow(coords{1024, "f32", 2, "", 0}), journal.Failed, "no")}}
}

// hasErrors checks that the error contains all wanted texts, and that there is no error
// if none is wanted.
func hasErrors(t *testing.T, err error, want ...string) {
	t.Helper()
	for _, w := range want {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error %v, want it to say %q", err, w)
		}
	}
	if len(want) == 0 && err != nil {
		t.Error(err)
	}
}

func TestChooseFigures(t *testing.T) {
	const auto = "plot_time_us_vs_size_by_num_ranks_dtype"
	wide := &journal.Run{Header: *fixtureHeader()}
	for i, r := range sweep([]int64{1}, []string{"f32"}, slices.Repeat([]int{2}, 400), []string{""}, 1) {
		r.Key, r.Run, r.Backend = r.Key+string(rune('a'+i)), string(rune('a'+i%20)), string(rune('a'+i/20))
		wide.Rows = append(wide.Rows, r)
	}
	one := &journal.Run{Header: *fixtureHeader(), Rows: fixtureRun().Rows[:1]}
	for _, c := range []struct {
		name    string
		in      Input
		figures []string
		why     string
		errs    []string
	}{
		{"automatic", Input{Data: dataset.Of(fixtureRun())}, []string{auto}, "", nil},
		{"bench without figures", Input{Bench: fixtureBench(), Data: dataset.Of(fixtureRun())}, []string{auto}, "", nil},
		{"plots twice", Input{Data: dataset.Of(fixtureRun()), Plots: []views.Plot{byDType, byDType}},
			[]string{"plot_time_us_vs_size_by_dtype", "plot_time_us_vs_size_by_dtype_2"}, "", nil},
		{"own and plot", Input{Bench: &bench.Bench{Figures: oneFigure("mine", goodPanel)}, Data: dataset.Of(fixtureRun()),
			Plots: []views.Plot{byDType}}, []string{"mine", "plot_time_us_vs_size_by_dtype"}, "", nil},
		{"bad plot", Input{Data: dataset.Of(fixtureRun()), Plots: []views.Plot{{X: "nope"}, byDType}},
			[]string{"plot_time_us_vs_size_by_dtype"}, "", []string{`unknown coordinate "nope"`}},
		{"panic", Input{Bench: &bench.Bench{Name: "b", Figures: func(dataset.Set) []figure.Figure {
			panic("odd rows")
		}}, Data: dataset.Of(fixtureRun())},
			[]string{auto}, "", []string{"figures of bench b: panic: odd rows"}},
		{"two of a name", Input{Bench: &bench.Bench{Figures: func(r dataset.Set) []figure.Figure {
			return append(oneFigure("a", goodPanel)(r), oneFigure("a", goodPanel)(r)...)
		}}, Data: dataset.Of(fixtureRun())}, []string{"a"}, "", []string{"duplicate figure a of the bench"}},
		{"empty run", Input{Data: dataset.Of(&journal.Run{})}, nil, "no ok row", nil},
		{"nothing good", Input{Bench: &bench.Bench{Figures: oneFigure("hollow")}, Data: dataset.Of(failedRun())}, nil, "no ok row", nil},
		{"one point", Input{Data: dataset.Of(one)}, nil, "no coordinate varies", nil},
		{"too many series", Input{Data: dataset.Of(wide)}, nil, "No figure was drawn by default", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			figures, why, errs := Figures(c.in, c.in.Data.Rows)
			hasErrors(t, errors.Join(errs...), c.errs...)
			var got []string
			for _, f := range figures {
				got = append(got, f.Name)
			}
			if !slices.Equal(got, c.figures) || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
				t.Errorf("figures %q, why %q; want %q, %q", got, why, c.figures, c.why)
			}
		})
	}
}

// An error in one view does not keep the others from being written. Existing views are
// replaced, and other files in the folder stay.
func TestRender(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	for name, text := range map[string]string{"figures/mine.svg": "mine", "report.html": "old", "journal.jsonl": "{}"} {
		path := filepath.Join(dir, name)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)))
	}
	in := Input{Data: dataset.Of(fixtureRun()), Plots: []views.Plot{byDType, {X: "nope"}},
		Bench: &bench.Bench{Name: "b", Figures: oneFigure("hollow"),
			Sections: func(r dataset.Set) []bench.Section { return make([]bench.Section, -len(r)) }}}
	files, err := Render(dir, in)
	hasErrors(t, err, "run 20261115-014233-7f3a", `"nope"`, "figure hollow", "no panels", "sections of bench b: panic")
	written := []string{"figures/plot_time_us_vs_size_by_dtype.png", "figures/plot_time_us_vs_size_by_dtype.svg",
		"table.txt", "rows.csv", "report.html", "report.md"}
	var told []string
	for _, f := range files {
		rel, _ := filepath.Rel(dir, f)
		told = append(told, rel)
	}
	if !slices.Equal(told, written) {
		t.Errorf("Render returned %q, want %q", told, written)
	}
	want := append(written, "figures/mine.svg", "journal.jsonl")
	slices.Sort(want)
	if have := names(t, dir); !slices.Equal(have, want) {
		t.Errorf("the folder holds %q, want %q", have, want)
	}
	for name, text := range map[string]string{"figures/mine.svg": "mine", "journal.jsonl": "{}",
		"report.html": `<img src="data:image/svg`, "rows.csv": "time_us", "table.txt": "23 points: 20 ok"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(data), text) {
			t.Errorf("%s does not say %q (%v)", name, text, err)
		}
	}
}

func TestRenderErrors(t *testing.T) {
	if _, err := Render(t.TempDir(), Input{}); err == nil {
		t.Error("no run was accepted")
	}
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "rows.csv"), 0o777))
	files, err := Render(dir, Input{Data: dataset.Of(failedRun())})
	hasErrors(t, err, "rows.csv")
	if !slices.Contains(files, filepath.Join(dir, "report.html")) {
		t.Errorf("one bad file kept the page from being written: %q", files)
	}
}

func TestRenderEmptyRun(t *testing.T) {
	dir := t.TempDir()
	_, err := Render(dir, Input{Bench: fixtureBench(), Data: dataset.Of(&journal.Run{Header: *fixtureHeader()})})
	hasErrors(t, err)
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	for _, want := range []string{"allreduce recorded no row. The run has not ended.",
		"There is no ok row to draw.", "There is no row to show."} {
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("the page does not say %q (%v)", want, err)
		}
	}
}

// TestRenderReplacesSpecialFiles checks that files of a RUN that are pipes or links are replaced: writing to a pipe
// would wait for a reader, and writing through a link would destroy a file elsewhere.
func TestRenderReplacesSpecialFiles(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(elsewhere, []byte("kept"), 0o600))
	must.Do(t, os.Symlink(elsewhere, filepath.Join(dir, "report.md")))
	must.Do(t, os.Symlink("/dev/full", filepath.Join(dir, "rows.csv")))
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "report.html"), 0o600))
	must.Get(Render(dir, Input{Data: dataset.Of(fixtureRun())}))(t)
	for _, name := range []string{"report.md", "rows.csv", "report.html"} {
		if info := must.Get(os.Lstat(filepath.Join(dir, name)))(t); !info.Mode().IsRegular() || info.Size() == 0 {
			t.Errorf("%s is %v", name, info.Mode())
		}
	}
	if text := must.Get(os.ReadFile(elsewhere))(t); string(text) != "kept" {
		t.Errorf("a link was followed: %q", text)
	}
}

// TestRenderStaysInside checks that a linked folder of a RUN is not followed out of it.
func TestRenderStaysInside(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	must.Do(t, os.Symlink(elsewhere, filepath.Join(dir, "figures")))
	_, err := Render(dir, Input{Data: dataset.Of(fixtureRun())})
	hasErrors(t, err, "a symbolic link leads out of the folder")
	must.Do(t, os.Symlink(elsewhere, filepath.Join(dir, "runs")))
	_, err = Render(dir, Input{Data: dataset.Of(fixtureRun()), Folder: "runs/r"})
	hasErrors(t, err, "a symbolic link leads out of the folder")
	if found := names(t, elsewhere); len(found) > 0 {
		t.Errorf("written outside the folder: %v", found)
	}
}

// TestRenderIsPrintable checks that no control character of a journal reaches the text files.
func TestRenderIsPrintable(t *testing.T) {
	dir, run := t.TempDir(), failedRun()
	run.Rows[0].Reason, run.Rows[0].Host = "\x1b[2Jgone\x07", "\x1b]0;title\x07"
	run.Header.Argv = []string{"kernbench", "\x1b[31mred"}
	_, err := Render(dir, Input{Data: dataset.Of(run)})
	must.Do(t, err)
	for _, name := range []string{"table.txt", "report.md"} {
		text := string(must.Get(os.ReadFile(filepath.Join(dir, name)))(t))
		if at := strings.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }); at >= 0 {
			t.Errorf("%s holds a control character: %q", name, text[max(0, at-20):at+20])
		}
	}
}

// Disturbed rows are counted and never called the fastest.
func TestDisturbedRowsAreNotExtremes(t *testing.T) {
	rows := sweep(sizes, []string{"f32"}, []int{2}, []string{"Ring"}, 2)
	for i := range rows[:3] {
		rows[i].Quality, rows[i].Metrics["time_us"] = journal.QualityDisturbed, []float64{1e-3, 1e-3, 1e9}[i]
	}
	text := Summary(dataset.Of(&journal.Run{}), dataset.All(rows))
	if !strings.Contains(text, "3 rows were disturbed while measured") || strings.Contains(text, "1e") ||
		strings.Contains(text, "1 ns") {
		t.Errorf("summary: %s", text)
	}
}
