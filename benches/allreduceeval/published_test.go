package allreduceeval

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/findings"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/imports"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
)

// published are the rows of a report that got its conclusions wrong, imported
// as the command does it, with what its prose says about them.
func published(t *testing.T) []journal.Row {
	t.Helper()
	rows := publishedTable(t, "nvlink-h100")
	data := must.Get(os.ReadFile(filepath.Join("..", "..", "examples", "published-report", "claims.yaml")))(t)
	claims := must.Get(imports.Claims("claims.yaml", data))(t)
	src := imports.Source{Run: "r", Bench: Name, Part: matrix.Performance, Name: "claims.yaml"}
	return append(rows, imports.VerdictRows(model.Judge(rows, claims, model.NamedCurve), src, len(rows))...)
}

// publishedTable is its table alone.
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
	golden.Check(t, "published.golden", dump(sections(published(t))))
}

// The mistakes of the published report stand in the first lines of the summary: those that
// its table shows without any claim, those of its prose by claims.yaml.
func TestPublishedMistakes(t *testing.T) {
	const link = "nvlink-h100"
	shown := map[string]string{
		"time linear in size called latency-bound": "is bandwidth-bound at 3.11 GB/s",
		"the signature of another path":            "the data most likely takes another path, such as through host memory",
		"equal types against bandwidth":            "what a bandwidth limit predicts and no evidence against one",
		"86.41 against 86.40 ms":                   "The switch between them most likely had no effect",
		"256 MB as a decode step":                  "the smallest message, 64Mi, is 4096 tokens of Llama 3.1 70B",
		"required cells that never ran": "3 required points were never executed, so nothing has passed there " +
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
		"64 times at most":      `"a potential of 16 to 64 times" (refuted)`,
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
		if len(first) > 10 {
			first = first[:10]
		}
		got := strings.Join(first, "\n")
		for _, want := range c.want {
			for mistake, text := range want {
				if !strings.Contains(got, text) {
					t.Errorf("%s: %s: the first lines lack %q:\n%s", name, mistake, text, got)
				}
			}
		}
		if strings.Contains(got, "all passed") {
			t.Errorf("%s: the report says that all passed", name)
		}
	}
}

// A table that says where it comes from and reaches down to decode steps is not blamed.
func TestSoundTableIsNotBlamed(t *testing.T) {
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
				t.Errorf("blamed: %s", line)
			}
		}
	}
}

// What contradicts physics stands on the rows it is about, once, however often
// they are viewed; the journal's own rows stay as they are.
func TestWarningsOnRows(t *testing.T) {
	rows := published(t)
	shown := warned(warned(rows))
	for i, r := range shown {
		want := 0
		dtype := r.Point.At("dtype")
		if r.Part == matrix.Performance && r.Status == journal.OK && r.Point.At("size").String() == "268435456" &&
			dtype.String() == "bf16" {
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
