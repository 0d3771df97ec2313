package imports

import (
	"os"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
)

// TestPublishedReport reads the rows and claims of a published report and checks the answer to
// each claim.
func TestPublishedReport(t *testing.T) {
	table := must.Get(os.ReadFile("../../../examples/published-report/times.csv"))(t)
	claimed := must.Get(os.ReadFile("../../../examples/published-report/claims.yaml"))(t)
	// A claim may also state what the table shows directly.
	claimed = append(claimed, `
  - {text: "latency-bound, not bandwidth-bound", kind: bound, bound: latency}
  - {text: "no dtype dependency, so memory bandwidth is not the limit", kind: dtypes, algorithm: default}
  - {text: multimem shows no improvement, kind: no-effect, algorithm: multimem, against: default, dtype: bf16}
  - {text: 3/3 tests passed, kind: passed}
`...)
	claims := must.Get(Claims("claims.yaml", claimed))(t)
	rows := Rows(read(t, "csv", string(table), Given{}).Records, Source{}, 0, map[string]int{})
	want := []struct{ text, reason string }{
		{"a decode step", "refused: 256Mi at hidden 8192 in 16 bits is 16384 tokens"},
		{"5 configurations", "refuted: it says 5 configurations, the table has 6"},
		{"1.2 % utilisation", "refused: 1.2 % of what?"},
		{"1.2 % of the 478", "refuted: 3.107 GB/s are 0.65 % of nvlink-h100 raw (478 GB/s), not 1.2 %"},
		{"the actual data movement", "refuted: bus bandwidth is bytes / time x 2(n-1)/n: the nearest is 3.107 GB/s"},
		{"a potential", "holds: nccl-h100 is 85 to 102 times faster at these sizes"},
		{"latency-bound, not bandwidth-bound",
			"refuted: the fit says default, bf16, 2 ranks, cuda: time = 13.3 µs + bytes / (3.107 GB/s), bandwidth-bound from " +
				"64Mi to 512Mi"},
		{"no dtype dependency", "refuted: it does not follow: bf16 and f32 take equal time (86.4 ms) for equal bytes (256Mi)"},
		{"multimem shows no improvement",
			"refused: default and multimem take the same time (86.4 ms and 86.41 ms at 256Mi, 0.012 % apart)"},
		{"3/3 tests passed", "refused: of 9 required points 6 passed, 0 failed, 0 were skipped and 3 never executed"},
	}
	verdicts := VerdictRows(model.Judge(dataset.All(rows), claims, model.NamedCurve), Source{Bench: "b"}, len(rows))
	if len(verdicts) != len(want) {
		t.Fatalf("%d verdicts, want %d", len(verdicts), len(want))
	}
	for i, w := range want {
		r := verdicts[i]
		text, reason := r.Point.At("claim"), r.Reason
		if r.Status == journal.OK {
			reason = journal.Text(r.Details["answer"] + ": " + r.Details["because"])
		}
		if !strings.HasPrefix(text.String(), w.text) || !strings.HasPrefix(string(reason), w.reason) ||
			r.Part != ClaimsPart || r.Index != len(rows)+i {
			t.Errorf("%s: %s, %s\nwant %s: %s", text, r.Status, reason, w.text, w.reason)
		}
	}
	notes := Warn(model.Check(model.SamplesOf(dataset.All(rows))))
	if len(notes) != 1 || !strings.HasPrefix(notes[0], "equal-dtypes: ") || len(rows[2].Conditions) != 1 ||
		!strings.HasPrefix(rows[4].Conditions[0].Sentence(), "identical: default and multimem") ||
		len(rows[5].Conditions) != 0 {
		t.Errorf("notes %q, warnings %q", notes, rows[2].Conditions.Sentences())
	}
}

func TestVerdictRows(t *testing.T) {
	rows := VerdictRows([]model.Verdict{{Answer: model.Holds, Reason: "so it is"},
		{Answer: model.Undecided, Reason: "who knows"}}, Source{}, 0)
	if rows[0].Status != journal.OK || rows[0].Details["because"] != "so it is" || rows[1].Status != journal.Skipped ||
		rows[1].Reason != "undecided: who knows" {
		t.Errorf("%+v", rows)
	}
}

func TestClaimFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "claims"},
		{"claims: []", "claims"},
		{"claims:\n  - text: x\n    kind: bond\n", `did you mean "bound"`},
		{"claims:\n  - text: x\n    kind: bound\n", "needs bound"},
		{"claims:\n  - text: x\n    kind: decode\n    size: 1M\n", "needs size, and model or hidden"},
		{"claims:\n  - text: x\n    kind: decode\n    model: llama3-7b\n    size: 1M\n", "llama3-70b"},
		{"claims:\n  - text: x\n    kind: rows\n    count: many\n", "count"},
		{"claims:\n  - text: x\n    kind: rows\n    cuont: 5\n", "cuont"},
		{"claims:\n  - kind: passed\n", "text"},
		{"claims:\n  - text: x\n    kind: busbw\n    value: 1\n    size: 3Q\n", "size"},
		{"claims:\n  - text: x\n    kind: no-effect\n    algorithm: a\n", "algorithm and against"},
	} {
		if got, err := Claims("c.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "c.yaml") {
			t.Errorf("%q: %v, %v, want %q", c.text, got, err, c.want)
		}
	}
}

func FuzzClaims(f *testing.F) {
	f.Add("claims:\n  - text: x\n    kind: decode\n    model: llama3-70b\n    size: 256M\n    value: 1.5\n")
	f.Fuzz(func(t *testing.T, text string) {
		claims, err := Claims("c.yaml", []byte(text))
		if err == nil {
			model.Judge(nil, claims, model.NamedCurve)
		}
	})
}

// TestDocumentedClaims reads the claims in docs/models.md.
func TestDocumentedClaims(t *testing.T) {
	for _, b := range golden.Pages(t)["docs/models.md"] {
		if b.Kind != "yaml" {
			continue
		}
		if claims := must.Get(Claims("claims.yaml", []byte(b.Text)))(t); len(claims) != 2 {
			t.Errorf("%s: %d claims", b, len(claims))
		}
		return
	}
	t.Error("the page shows no claims")
}
