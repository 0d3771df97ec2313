package report

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/decl"
	"github.com/kernbench/kernbench/internal/figure"
	"github.com/kernbench/kernbench/internal/journal"
)

// names are the files below dir, sorted.
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
	return out
}

func oneFigure(name string, panels ...figure.Panel) func([]journal.Row) []figure.Figure {
	return func([]journal.Row) []figure.Figure { return []figure.Figure{{Name: name, Panels: panels}} }
}

func TestRender(t *testing.T) {
	views := []string{"report.html", "rows.csv", "table.txt"}
	dtype := Plot{X: "size", Y: "time_us", By: []string{"dtype"}}
	good := figure.Panel{X: figure.Axis{Label: "x"}, Y: figure.Axis{Label: "y"}}
	empty := &journal.Run{Header: *fixtureHeader()}
	failed := &journal.Run{Header: *fixtureHeader(), Rows: []journal.Row{notOK(fixtureRow(coords{1024, "f32", 2, "", 0}), journal.Failed, "no")}}
	wide := &journal.Run{Header: *fixtureHeader()}
	for i, r := range sweep([]int64{1}, []string{"f32"}, slices.Repeat([]int{2}, 400), []string{""}, 1) {
		r.Key, r.Run, r.Backend = r.Key+string(rune('a'+i)), string(rune('a'+i%20)), string(rune('a'+i/20))
		wide.Rows = append(wide.Rows, r)
	}
	for _, c := range []struct {
		name    string
		in      Input
		figures []string
		errs    []string
		says    string
	}{
		{"automatic", Input{Run: fixtureRun()}, []string{"plot_time_us_vs_size_by_num_ranks_dtype"}, nil, `<img src="data:image/svg`},
		{"plots twice", Input{Run: fixtureRun(), Plots: []Plot{dtype, dtype}}, []string{"plot_time_us_vs_size_by_dtype", "plot_time_us_vs_size_by_dtype_2"}, nil, ""},
		{"own and plot", Input{Bench: &decl.Bench{Figures: oneFigure("mine", good)}, Run: fixtureRun(), Plots: []Plot{dtype}}, []string{"mine", "plot_time_us_vs_size_by_dtype"}, nil, ""},
		{"sections", Input{Bench: fixtureBench(), Run: fixtureRun()}, []string{"plot_time_us_vs_size_by_num_ranks_dtype"}, nil, "Where the knee is"},
		{"bad plot", Input{Run: fixtureRun(), Plots: []Plot{{X: "nope"}, dtype}}, []string{"plot_time_us_vs_size_by_dtype"}, []string{"run 20261115-014233-7f3a", `unknown coordinate "nope"`}, ""},
		{"bad figure", Input{Bench: &decl.Bench{Figures: oneFigure("bad name", good)}, Run: fixtureRun(), Plots: []Plot{dtype}}, []string{"plot_time_us_vs_size_by_dtype"}, []string{"figure bad name"}, ""},
		{"figure without panels", Input{Bench: &decl.Bench{Figures: oneFigure("hollow")}, Run: fixtureRun()}, nil, []string{"figure hollow", "no panels"}, ""},
		{"panic", Input{Bench: &decl.Bench{Name: "b", Figures: func(r []journal.Row) []figure.Figure { panic("odd rows") },
			Sections: func(r []journal.Row) []decl.Section { return make([]decl.Section, -len(r)) }}, Run: fixtureRun()},
			[]string{"plot_time_us_vs_size_by_num_ranks_dtype"}, []string{"figures of bench b: panic: odd rows", "sections of bench b: panic"}, ""},
		{"two of a name", Input{Bench: &decl.Bench{Figures: func(r []journal.Row) []figure.Figure {
			return append(oneFigure("a", good)(r), oneFigure("a", good)(r)...)
		}}, Run: fixtureRun()}, []string{"a"}, []string{"figure a: the bench has two of that name"}, ""},
		{"empty run", Input{Run: empty}, nil, nil, "allreduce recorded no row. The run has not come to its end."},
		{"nothing good", Input{Bench: &decl.Bench{Figures: oneFigure("hollow")}, Run: failed}, nil, nil, "There is no good row to draw."},
		{"too many series", Input{Run: wide}, nil, nil, "No figure was drawn by default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			files, err := Render(dir, c.in)
			for _, want := range c.errs {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want it to say %q", err, want)
				}
			}
			if len(c.errs) == 0 && err != nil {
				t.Error(err)
			}
			var want []string
			for _, f := range c.figures {
				want = append(want, "figures/"+f+".png", "figures/"+f+".svg")
			}
			want = append(want, views...)
			have := names(t, dir)
			slices.Sort(want)
			slices.Sort(have)
			if !slices.Equal(have, want) {
				t.Errorf("the folder holds %q, want %q", have, want)
			}
			var told []string
			for _, f := range files {
				rel, _ := filepath.Rel(dir, f)
				told = append(told, rel)
			}
			slices.Sort(told)
			if !slices.Equal(told, want) {
				t.Errorf("Render returned %q, want %q", told, want)
			}
			page, err := os.ReadFile(filepath.Join(dir, "report.html"))
			if err != nil || !strings.Contains(string(page), c.says) {
				t.Errorf("the page does not say %q (%v)", c.says, err)
			}
		})
	}
}

// Views are replaced, everything else in the folder stays, and the same rows
// give the same bytes.
func TestRenderAgain(t *testing.T) {
	dir := t.TempDir()
	keep := filepath.Join(dir, "figures", "mine.svg")
	if err := os.MkdirAll(filepath.Dir(keep), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keep, []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	var pages [2]string
	for i := range pages {
		if _, err := Render(dir, Input{Run: fixtureRun()}); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, "report.html"))
		if err != nil {
			t.Fatal(err)
		}
		pages[i] = string(data)
	}
	if pages[0] != pages[1] {
		t.Error("the same rows gave two different pages")
	}
	if data, err := os.ReadFile(keep); err != nil || string(data) != "mine" {
		t.Errorf("a file that is not a view was touched: %q, %v", data, err)
	}
	if got := names(t, dir); len(got) != 6 {
		t.Errorf("the folder holds %q", got)
	}
}

func TestRenderErrors(t *testing.T) {
	if _, err := Render(t.TempDir(), Input{}); err == nil {
		t.Error("no run was accepted")
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "rows.csv"), 0o777); err != nil {
		t.Fatal(err)
	}
	files, err := Render(dir, Input{Run: fixtureRun()})
	if err == nil || !strings.Contains(err.Error(), "rows.csv") {
		t.Errorf("error %v, want it to name rows.csv", err)
	}
	if !slices.Contains(files, filepath.Join(dir, "report.html")) {
		t.Errorf("one bad file kept the page from being written: %q", files)
	}
}
