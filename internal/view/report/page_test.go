package report

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/document"
	"github.com/kernbench/kernbench/internal/view/export"
	"github.com/kernbench/kernbench/internal/view/tuned"
)

// filler fills every string of a value, at any depth, with a unique text.
type filler struct {
	text  string
	count int
}

func (f *filler) next() string {
	f.count++
	return fmt.Sprintf("%s#%d#", f.text, f.count)
}

func (f *filler) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.next())
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key)
		f.fill(elem)
		v.SetMapIndex(key, elem)
	case reflect.Struct:
		switch v.Type() {
		case reflect.TypeFor[time.Time]():
		case reflect.TypeFor[point.Value]():
			v.Set(reflect.ValueOf(point.StringValue(f.next())))
		default:
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					f.fill(v.Field(i))
				}
			}
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(1.5)
	}
}

// filledPage returns a page with the text in every field of the run, its rows, sections
// and figures.
func filledPage(t *testing.T, text string) string {
	t.Helper()
	f := &filler{text: text}
	var run journal.Run
	f.fill(reflect.ValueOf(&run.Header).Elem())
	run.Header.Points = 99
	for _, status := range []journal.Status{journal.OK, journal.Failed, journal.Skipped, "x" + journal.Status(text)} {
		var r journal.Row
		f.fill(reflect.ValueOf(&r).Elem())
		r.Status = status
		run.Rows = append(run.Rows, r, r)
	}
	run.Notes = []journal.Note{{Text: journal.Text(f.next())}}
	run.End = &journal.End{Outcome: f.next()}
	var sections []bench.Section
	f.fill(reflect.ValueOf(&sections).Elem())
	// Markdown inside the section must stay intact around any text.
	sections[0].Text = fmt.Sprintf("%s\n\n- `%s`\n- **%s**\n\n1. %s", f.next(), f.next(), f.next(), f.next())
	fig := figure.Figure{Name: f.next(), Title: f.next(), Caption: f.next(),
		Panels: []figure.Panel{{Title: f.next(), X: figure.Axis{Label: f.next()}, Y: figure.Axis{Label: f.next()},
			Series: []figure.Series{{Name: f.next()}}}}}
	figures := []document.Figure{document.NewFigure(fig, []byte("<svg>"+text))}
	out := htmlOf(t, newPage(&run, run.Rows, sections, figures, f.next()))
	return out
}

// newPage builds a document with these sections and figures only.
func newPage(run *journal.Run, rows []journal.Row, sections []bench.Section, figures []document.Figure,
	noFigure string) document.Document {
	doc, _ := Document(&Input{Data: dataset.Of(run)}, dataset.All(rows))
	doc.Sections, doc.Figures, doc.NoFigure = lists.Map(sections, document.NewSection), figures, noFigure
	doc.Tables, doc.Omitted = tables(&run.Header, dataset.All(rows))
	return doc
}

func htmlOf(t *testing.T, d document.Document) string {
	t.Helper()
	var b strings.Builder
	must.Do(t, d.WriteHTML(&b))
	return b.String()
}

func markdownOf(t *testing.T, d document.Document) string {
	t.Helper()
	var b strings.Builder
	must.Do(t, d.WriteMarkdown(&b))
	return b.String()
}

var (
	tagRE   = regexp.MustCompile(`(?s)<[^>]*>`)
	valueRE = regexp.MustCompile(`="[^"]*"`)
)

// skeleton returns the markup of a page without its texts and attribute values.
func skeleton(page string) []string {
	tags := tagRE.FindAllString(page, -1)
	for i, tag := range tags {
		tags[i] = valueRE.ReplaceAllString(tag, "=")
	}
	return tags
}

var hostile = []string{
	`</script><script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`' onmouseover='alert(1)`,
	`${alert(1)}{{.}}*_~`,
	`]]>--></style></title></pre><!--`,
	"javascript:alert(1)//\u2028\u202e\u0000 ünïcödé 日本 \xff\xfe",
	`&lt;b&gt;&amp;#60;`,
}

func TestHostileValuesStayText(t *testing.T) {
	want := skeleton(filledPage(t, "plain"))
	if len(want) < 100 {
		t.Fatalf("only %d tags: the page shows too little to test", len(want))
	}
	for _, text := range hostile {
		got := filledPage(t, text)
		if diff := cmp.Diff(want, skeleton(got)); diff != "" {
			t.Errorf("%q changes the markup (-want +got):\n%s", text, diff)
		}
	}
	// The comparison itself must be able to fail.
	if cmp.Equal(want, append(skeleton("<p>"), want...)) ||
		cmp.Equal(skeleton(`<p a="1">`), skeleton(`<p a="1" onclick="x">`)) {
		t.Error("added markup is not noticed")
	}
}

func TestPageIsComplete(t *testing.T) {
	run := fixtureRun()
	page := htmlOf(t, newPage(run, run.Rows, fixtureBench().Sections(nil), nil, ""))
	text := html.UnescapeString(tagRE.ReplaceAllString(string(page), ""))
	for _, want := range []string{
		"allreduce recorded 23 points of 36 planned on cpu. Of its 23 rows 20 are ok, 1 failed, 1 timed out and 1 " +
			"was skipped.",
		"points have one settled launch, which does not show how launches differ (--trials 4 does).",
		"2 rows have a warning.", "The run completed in 1m23s.",
		"no visible effect: NCCL_ALGO=Ring", "only 5 samples (2 rows)", "the clock is unstable (1 row)",
		"rank 1 in timing: killed by signal 11 (segmentation fault)", `fatal:\u{7} bad address 0x0`, "logs/0003",
		"no answer in 30 s", "needs respawn",
		"Where the knee is", "128Ki",
		"20261115-014233-7f3a", "Sun, 15 Nov 2026 01:42:33 UTC", "node1: Example CPU @ 2.00GHz", "Example Linux 1", "v1.2.3",
		"go1.26.0",
		"OMP_NUM_THREADS", "9f86d081884c7d65",
		`kernbench run --bench allreduce --env 'NCCL_ALGO=Ring,"a b"' --seed 42`, "kernbench report .@20261115-014233-7f3a",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if again := htmlOf(t, newPage(run, run.Rows, fixtureBench().Sections(nil), nil, "")); again != page {
		t.Error("the same rows gave two different pages")
	}
	if strings.ContainsFunc(string(page), func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
		t.Error("control characters are in the page")
	}
}

// The page loads nothing from other places, and only its own script may run.
func TestPageIsSelfContained(t *testing.T) {
	page := html.UnescapeString(filledPage(t, "plain"))
	for _, m := range regexp.MustCompile(`(?i)\b(src|href|action|url)\s*[=(]\s*"?([^">)]*)`).FindAllStringSubmatch(page,
		-1) {
		if !strings.HasPrefix(m[2], "data:image/svg+xml;base64,") && !strings.HasPrefix(m[2], "#") {
			t.Errorf("the page refers to %q", m[0])
		}
	}
	script := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindStringSubmatch(page)
	if script == nil {
		t.Fatal("no script")
	}
	sum := sha256.Sum256([]byte(script[1]))
	if hash := base64.StdEncoding.EncodeToString(sum[:]); !strings.Contains(page, "script-src 'sha256-"+hash+"'") {
		t.Error("the policy does not allow the page's own script")
	}
}

// The page has the columns of the terminal. Those with one value are listed above the table.
func TestTableConstants(t *testing.T) {
	got, _ := tables(fixtureHeader(), dataset.All(fixtureRun().Rows))
	if len(got) != 1 {
		t.Fatalf("%d tables", len(got))
	}
	want := []string{"backend=cpu", "NCCL_ALGO=Ring"}
	if diff := cmp.Diff(want, got[0].Constants); diff != "" {
		t.Errorf("constants (-want +got):\n%s", diff)
	}
	var heads []string
	for _, c := range got[0].Columns {
		heads = append(heads, c.Title)
	}
	want = []string{"num_ranks", "size", "dtype", "status", "time (µs)", "±95%", "busbw (GB/s)"}
	if diff := cmp.Diff(want, heads); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	other := fixtureRow(coords{1024, "f32", 2, "", 0})
	other.Part = "other"
	parts, _ := tables(fixtureHeader(), dataset.All(append(fixtureRun().Rows, other)))
	if len(parts) != 2 || parts[0].Note != export.SingleNote || parts[1].Note != "" {
		t.Errorf("the note on single launches is not shown once: %q and %q", parts[0].Note, parts[1].Note)
	}
}

func TestLongRunsAreCut(t *testing.T) {
	var rows []journal.Row
	for i := range maxRows + 10 {
		rows = append(rows, fixtureRow(coords{int64(i + 1), "f32", 2, "", 0}))
	}
	if _, cut := tables(fixtureHeader(), dataset.All(rows[:maxRows])); cut != "" {
		t.Errorf("nothing is left out, yet the page says %q", cut)
	}
	rows[maxRows+3] = notOK(rows[maxRows+3], journal.Failed, "late")
	got, cut := tables(fixtureHeader(), dataset.All(rows))
	if len(got) != 1 || len(got[0].Rows) != maxRows ||
		cut != "2000 of 2010 rows are shown; of those left out, 1 are not ok. All are in rows.csv." {
		t.Errorf("%d tables, %q", len(got), cut)
	}
	long := strings.Repeat("line of output\n", 1000)
	if got := Tail(long); len(got) > maxOutput+10 || !strings.HasPrefix(got, "…\nline") {
		t.Errorf("tail of a long output is %d bytes: %.20q", len(got), got)
	}
}

// Conditions that differ only in their numbers are one remark, with the range of the numbers.
func TestRemarks(t *testing.T) {
	rows := sweep(sizes[:3], []string{"f32"}, []int{2}, []string{""}, 1)
	drift := func(change float64) journal.Condition {
		return journal.NewCondition(journal.CodeDrift, journal.Named{"change": change})
	}
	steal := journal.NewCondition(journal.CodeSteal, journal.Named{"share": 0.1})
	rows[0].Conditions = []journal.Condition{drift(0.592), steal}
	rows[1].Conditions = []journal.Condition{drift(-0.07)}
	rows[2].Conditions = []journal.Condition{steal}
	run := dataset.Of(&journal.Run{Notes: []journal.Note{{Text: "twice"}, {Text: "twice"}}})
	want := []string{"twice", "drift: from the first to the second half of the samples, the median changed by -7.0 to " +
		"+59.2 % (2 rows)", "steal: the hypervisor took 10.0 % of this host's cores away (2 rows)"}
	if got := Remarks(run, dataset.All(rows)); !cmp.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestShellWord(t *testing.T) {
	for in, want := range map[string]string{"a=b,c": "a=b,c", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'",
		"*": "'*'"} {
		if got := tuned.ShellWord(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

// A page starts with links to every section. On a long page, details and rows are folded
// and not printed.
func TestContentsAndDetails(t *testing.T) {
	sections := []bench.Section{{Title: "First", Lead: true, Detail: true}, {Title: "Second", Lead: true},
		{Title: "Third", Detail: true, Table: [][]string{{"a"}, {"1"}, {"2"}}}, {Title: "Fourth"}}
	run := &journal.Run{Header: journal.Header{Bench: "b"}}
	html := func(sections []bench.Section) string {
		return htmlOf(t, newPage(run, []journal.Row{{Bench: "b", Status: journal.OK}}, sections, nil, ""))
	}
	page := html(sections)
	nav, _, _ := strings.Cut(page, "</nav>")
	for _, want := range []string{"First", "Second", "Summary", "Third", "Fourth", "Rows", "Provenance",
		"How to reproduce"} {
		anchor := regexp.MustCompile(`<a href="#([a-z0-9]+)">` + want + `</a>`).FindStringSubmatch(nav)
		if anchor == nil || strings.Count(page, `<section id="`+anchor[1]+`"`) != 1 {
			t.Errorf("the contents do not lead to %s: %v", want, anchor)
		}
	}
	if !strings.Contains(page, `<section id="s2" class="detail">`) ||
		!strings.Contains(page, "<summary>Show the 2 lines</summary>") || strings.Count(page, `class="detail"`) != 2 {
		t.Error("not exactly the third section and the rows are details")
	}
	if !strings.Contains(page, "<details><summary><h3>") || !strings.Contains(page, ".detail { display: none; }") {
		t.Error("rows are open, or printed")
	}
	if short := html(sections[:2]); !strings.Contains(short, "<nav") ||
		!strings.Contains(short, "<details open><summary><h3>") ||
		strings.Contains(short, `class="detail"`) {
		t.Error("a short page has no contents, or hides its rows")
	}
}

// The number of ok rows is not green if rows were disturbed, and the disturbed rows are counted.
func TestDisturbedRunIsNotGreen(t *testing.T) {
	rows := sweep(sizes[:2], []string{"f32"}, []int{2}, []string{""}, 1)
	run := &journal.Run{Header: *fixtureHeader(), Rows: rows}
	counts := func() string {
		page := htmlOf(t, newPage(run, rows, nil, nil, ""))
		return regexp.MustCompile(`(?s)<ul class="counts">.*?</ul>`).FindString(page)
	}
	if got := counts(); !strings.Contains(got, `<li class="ok"><b>2</b> ok</li>`) || strings.Contains(got, "disturbed") {
		t.Errorf("undisturbed rows: %s", got)
	}
	for i := range rows {
		rows[i].Quality = journal.QualityDisturbed
	}
	if got := counts(); !strings.Contains(got, `<li class="skipped"><b>2</b> ok</li>`) ||
		!strings.Contains(got, `<li class="skipped"><b>2</b> disturbed</li>`) || strings.Contains(got, `class="ok"`) {
		t.Errorf("disturbed rows: %s", got)
	}
	if text := markdownOf(t, newPage(run, rows, nil, nil, "")); !strings.Contains(text, "Rows: 2 ok, 2 disturbed.") {
		t.Errorf("the Markdown has not the number of disturbed rows:\n%s", text)
	}
}
