package findings

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
)

// The first line says whether results are correct and times usable, and if not, why.
func TestVerdict(t *testing.T) {
	sample := func(us, low, high float64, doubt ...journal.Condition) model.Sample {
		var by *journal.Condition
		if len(doubt) > 0 {
			by = &doubt[0]
		}
		return model.Sample{Bytes: 1024, TimeUS: us, LowUS: low, HighUS: high, Disturbance: by, Samples: 50, Launches: 4,
			Kind:   string(journal.Measured),
			Series: model.Series{Algorithm: "ring", Ranks: 4, DType: "bf16"}}
	}
	calm, wide := sample(10, 9.9, 10.1), sample(10, 5, 30)
	load := sample(10, 9.9, 10.1, journal.NewCondition(journal.CodeForeign, journal.Named{"share": 0.618}))
	other := sample(10, 9.9, 10.1, journal.NewCondition(journal.CodeCrowd, journal.Named{"process": 7}))
	in := func(part string, status journal.Status, needed bool) cell {
		return cell{part: part, status: status, required: needed}
	}
	right := []cell{in(matrix.Correctness, journal.OK, true), in(matrix.Contracts, journal.OK, true)}
	failed := []journal.Row{{Part: matrix.Performance, Status: journal.Failed}}
	for _, c := range []struct {
		rows    []journal.Row
		cells   []cell
		samples []model.Sample
		want    string
	}{
		{nil, nil, nil, "correctness was **not run**; times were **not run**."},
		{nil, right, []model.Sample{calm, calm}, "**correct** (1 cell passed); times are **usable** (2 of 2 settled)."},
		{nil, append(right, in(matrix.Correctness, journal.NotExecuted, true)), nil,
			"**correct as far as it ran**, but 1 required cell was not run;"},
		{nil, append(right, in(matrix.Correctness, journal.Failed, true)), nil, "results are **wrong** (1 cell failed);"},
		{nil, append(right, in(matrix.Contracts, journal.Failed, true)), nil,
			"sums are correct, but 1 cell of the contracts or failures is **not** as promised;"},
		{nil, right, []model.Sample{calm, calm, load},
			"times are **usable with care** (2 of 3 settled; the conclusions below rely on these): 1 disturbed by load."},
		{nil, right, []model.Sample{calm, load, other, other, wide},
			"times are **not usable** (1 of 5 settled): 2 disturbed by another kernbench, 1 disturbed by load, 1 with too " +
				"wide an interval (too few samples for the noise)."},
		{failed, right, []model.Sample{calm}, "times are **not usable** (1 of 1 settled): 1 timed row failed."},
	} {
		r := newResults(dataset.All(c.rows), c.cells, c.samples)
		if got := r.summarize()[0].Text; !strings.Contains(got, c.want) {
			t.Errorf("got %s\nwant %s", got, c.want)
		}
	}
}

// A part without a cell that ran is "not run", never "not all hold".
func TestPartState(t *testing.T) {
	for want, c := range map[string]counts{
		"not run":                               {missing: 360, required: 360},
		"all that ran hold, but 2 were not run": {passed: 3, missing: 2, required: 2},
		"1 do **not** hold":                     {passed: 3, failed: 1},
		"holds":                                 {passed: 3, skipped: 1, missing: 1},
	} {
		if got := partState(c, "holds"); got != want {
			t.Errorf("%+v: %s, want %s", c, got, want)
		}
	}
}

// There is one conclusion for each model. Steps whose message size the run does not
// cover are "not known".
func TestInference(t *testing.T) {
	var samples []model.Sample
	for bytes := int64(1 << 10); bytes <= 16<<20; bytes *= 4 {
		us := 20 + float64(bytes)/1e5
		samples = append(samples, model.Sample{Bytes: bytes, TimeUS: us, LowUS: us, HighUS: us, Launches: 4,
			Series: model.Series{Algorithm: "ring", Ranks: 4, DType: "bf16"}})
	}
	section := func(samples []model.Sample, models string) string {
		r := resultsOf(samples...)
		if models != "" {
			r.rows[0].Options = r.rows[0].Options.With(ModelsOption, point.StringValue(models))
		}
		s := inferenceSections(r)
		if len(s) != 1 || len(s[0].Table) != 1+2*len(s[0].Sentences) {
			t.Fatalf("%+v", s)
		}
		return s[0].Text + texts(s[0].Sentences)
	}
	text := section(samples, "")
	for _, want := range []string{"spread over 4 ranks",
		"- **Llama 3.1 8B:** make messages of 4Mi faster first: prefill spends ", "- **Llama 3.1 70B:** ",
		"- **DeepSeek-V3:** make messages of 14Ki faster first: decode spends "} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	if text := section(samples[:4], "llama3-405b"); !strings.Contains(text, "405B:** decode spends") ||
		!strings.Contains(text, "prefill is not known: the run has no times at 16Mi") {
		t.Error(text)
	}
	if inferenceSections(&results{}) != nil || CheckModels("llama3-8b,lama") == nil {
		t.Error("there is a section without times, or an unknown model is accepted")
	}
}

// The grid distinguishes the four outcomes.
func TestGridCells(t *testing.T) {
	ok, bad := cell{status: journal.OK, required: true}, cell{status: journal.Failed, reason: "element 3", required: true}
	optional, skipped := cell{status: journal.NotExecuted, reason: "no GPU"},
		cell{status: journal.Skipped, reason: "does not apply"}
	missing := optional
	missing.required = true
	for _, c := range []struct {
		cells  []cell
		status journal.Status
		text   string
	}{
		{[]cell{ok, ok}, journal.OK, "2"}, {[]cell{ok, bad}, journal.Failed, "1 of 2 failed"},
		{[]cell{optional}, journal.NotExecuted, "not run"},
		{[]cell{skipped}, journal.Skipped, "skipped"}, {[]cell{ok, missing}, journal.NotExecuted, "1 of 2 not run"},
		{[]cell{ok, skipped}, journal.OK, "1"}, {nil, "", ""},
	} {
		if got := gridCell(c.cells); got.Status != c.status || got.Text != c.text {
			t.Errorf("%v: %+v, want %s %q", c.cells, got, c.status, c.text)
		}
	}
	if got := gridCell([]cell{optional, bad}); !strings.Contains(got.Note, "element 3") {
		t.Errorf("the note is %q, not the failure", got.Note)
	}
}
