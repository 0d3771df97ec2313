package allreduceeval

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/findings"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/result/imports"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// published are the rows of a report that got its conclusions wrong, imported
// as the command does it, with what it said about them.
func published(t *testing.T) []journal.Row {
	t.Helper()
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join("..", "..", "examples", "published-report", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	file, err := imports.Read("csv", "times.csv", read("times.csv"), imports.Given{})
	if err != nil {
		t.Fatal(err)
	}
	src := imports.Source{Run: "r", Bench: Name, Part: matrix.Performance, Name: "times.csv"}
	rows := imports.Rows(file.Records, src, 0, map[string]int{})
	ceilings, err := model.Ceilings("nvlink-h100")
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		model.Limit(&rows[i], ceilings)
	}
	claims, err := imports.Claims("claims.yaml", []byte(read("claims.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	return append(rows, imports.VerdictRows(model.Judge(rows, claims, model.NamedCurve), src, len(rows))...)
}

func sections(rows []journal.Row) []bench.Section { return findings.Sections(rows, declared(rows)) }

// dump is sections as text.
func dump(list []bench.Section) string {
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

// The report on the published numbers comes to the right conclusions by itself:
// the whole text is in testdata.
func TestPublishedReport(t *testing.T) {
	got := dump(sections(published(t)))
	path := filepath.Join("testdata", "published.golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the report on the published numbers (-want +got):\n%s", diff)
	}
}

// One expected sentence for each of its mistakes.
func TestPublishedMistakes(t *testing.T) {
	got := dump(sections(published(t)))
	for mistake, want := range map[string]string{
		"time linear in size called latency-bound": "bandwidth-bound from 64Mi to 512Mi",
		"wrong classification":                     "latency-bound, not bandwidth-bound | refuted",
		"equal types against bandwidth":            "what a bandwidth limit predicts, and no sign against one",
		"86.41 against 86.40 ms":                   "multimem shows no improvement | refused",
		"a switch without effect":                  "the switch between them most likely had no effect",
		"256 MB as a decode step":                  "never a decode step",
		"5 said, 6 listed":                         "5 configurations are said, the table has 6",
		"required cells that never ran":            "required points were never executed",
		"passed without running":                   "3/3 tests passed | refused",
		"utilisation without denominator":          "1.2 % of what?",
		"the signature of another path":            "find out which way the data goes",
		"no correctness":                           "no cell of the matrix ran, so nothing is known",
		"potential understated":                    "85 to 102 times faster",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s: the report lacks %q", mistake, want)
		}
	}
	if strings.Contains(got, "all passed") {
		t.Error("the report says that all passed")
	}
}

// What contradicts physics stands on the rows it is about, once, however often
// they are viewed; the journal's own rows stay as they are.
func TestWarningsOnRows(t *testing.T) {
	rows := published(t)
	shown := warned(warned(rows))
	for i, r := range shown {
		want := 0
		size, _ := r.Point.Get("size")
		dtype, _ := r.Point.Get("dtype")
		if r.Part == matrix.Performance && r.Status == journal.OK && size.String() == "268435456" && dtype.String() == "bf16" {
			want = 1 // the two paths that take the same time
		}
		if got := strings.Count(strings.Join(r.Warnings, "\n"), "identical: "); got != want {
			t.Errorf("row %d (%s): %d warnings of identical times, want %d: %q", i, r.Point, got, want, r.Warnings)
		}
		if len(rows[i].Warnings) != 0 {
			t.Errorf("row %d of the journal was changed", i)
		}
	}
}
