package model

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Each conclusion of the published report gets its answer, with the numbers in the reason.
func TestJudgePublishedReport(t *testing.T) {
	for _, c := range []struct {
		name   string
		claim  Claim
		answer Answer
		reason string
	}{
		{"linear time called latency-bound", Claim{Kind: ClaimBound, Bound: Latency}, Refuted,
			"the fit says default, bf16, 2 ranks, cuda: time = 13.3 µs + bytes / (3.107 GB/s), bandwidth-bound from " +
				"64Mi to 512Mi"},
		{"the right one", Claim{Kind: ClaimBound, Bound: Bandwidth, Algorithm: "default", DType: "bf16"}, Holds,
			"3.107 GB/s"},
		{"types alike, so no bandwidth limit", Claim{Kind: ClaimDTypes}, Refuted,
			"bf16 and f32 take equal time (86.4 ms) for equal bytes (256Mi), which is what a bandwidth limit predicts"},
		{"multimem brings nothing", Claim{Kind: ClaimNoEffect, Algorithm: "multimem", Against: "default"}, Refused,
			"86.41 ms at 256Mi, 0.012 % apart"},
		{"256 MB as a decode step", Claim{Kind: ClaimDecode, Bytes: 256 * mib, Hidden: 8192}, Refused,
			"16384 tokens: the prefill of a long prompt, never a decode step"},
		{"a decode step that is one", Claim{Kind: ClaimDecode, Bytes: 16384, Hidden: 8192}, Holds, "1 sequence"},
		{"5 said, 6 listed", Claim{Kind: ClaimCount, Count: 5}, Refuted, "it says 5 configurations, the table has 6"},
		{"6 said", Claim{Kind: ClaimCount, Count: 6}, Holds, "6"},
		{"all passed", Claim{Kind: ClaimPassed}, Refused,
			"of 8 required points 6 passed, 0 failed, 0 were skipped and 2 never executed"},
		{"utilisation of nothing", Claim{Kind: ClaimUtilisation, Value: 1.2}, Refused, "1.2 % of what?"},
		{"utilisation of raw", Claim{Kind: ClaimUtilisation, Value: 1.2, Of: "nvlink-h100 raw"}, Refuted,
			"3.107 GB/s are 0.65 % of nvlink-h100 raw (478 GB/s), not 1.2 %"},
		{"utilisation that is right", Claim{Kind: ClaimUtilisation, Value: 0.65, Of: "nvlink-h100 raw"}, Holds, "0.65 %"},
		{"twice the throughput", Claim{Kind: ClaimBusBW, Value: 5.95}, Refuted, "3.107 GB/s with 2 ranks, not 5.95"},
		{"the throughput", Claim{Kind: ClaimBusBW, Value: 3.1}, Holds, "3.1"},
		{"potential of 64", Claim{Kind: ClaimPotential, Value: 64, Against: "nccl-h100"}, Holds,
			"nccl-h100 is 85 to 102 times faster"},
		{"potential of 110", Claim{Kind: ClaimPotential, Value: 110, Against: "nccl-h100"}, Undecided,
			"at most 102 times faster, which does not show that 110 times is possible"},
		{"an unknown curve", Claim{Kind: ClaimPotential, Value: 64, Against: "nccl-h10"}, Undecided, "nccl-h100"},
		{"no such rows", Claim{Kind: ClaimBound, Bound: Latency, Algorithm: "ring"}, Undecided, "no row matches the claim"},
		{"one size", Claim{Kind: ClaimBound, Bound: Latency, Algorithm: "multimem"}, Undecided, "one size"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Judge(dataset.All(published()), []Claim{c.claim}, NamedCurve)
			if len(got) != 1 || got[0].Answer != c.answer || !strings.Contains(got[0].Reason, c.reason) {
				t.Errorf("%+v\nwant %s: %s", got, c.answer, c.reason)
			}
		})
	}
}

// A variant with an effect, one without, and element types that cannot be compared.
func TestJudgeEffects(t *testing.T) {
	claim := Claim{Kind: ClaimNoEffect, Algorithm: "tree", Against: "ring"}
	for factor, answer := range map[float64]Answer{1.5: Refuted, 0.5: Refuted, 1.02: Holds, 1: Refused} {
		rows := []journal.Row{row("ring", dtype.F32, 4, mib, 1000), row("tree", dtype.F32, 4, mib, 1000*factor),
			row("ring", dtype.F32, 4, 2*mib, 1900)}
		if got := Judge(dataset.All(rows), []Claim{claim}, nil)[0]; got.Answer != answer {
			t.Errorf("%v times: %+v, want %s", factor, got, answer)
		}
	}
	apart := []journal.Row{row("ring", dtype.F32, 4, mib, 10), row("tree", dtype.F32, 4, 2*mib, 10)}
	if got := Judge(dataset.All(apart), []Claim{claim, {Kind: ClaimDTypes}, {Kind: "other"}},
		nil); got[0].Answer != Undecided ||
		got[1].Answer != Undecided || got[2].Answer != Undecided {
		t.Errorf("nothing in common: %+v", got)
	}
	large := []journal.Row{row("ring", dtype.F32, 4, mib, 100), row("ring", dtype.F32, 4, 8*mib, 800),
		row("ring", dtype.F32, 4, 64*mib, 6400)}
	if got := Judge(dataset.All(large), []Claim{{Kind: ClaimDTypes}}, nil)[0]; got.Answer != Refuted {
		t.Errorf("bandwidth-bound with one type: %+v", got)
	}
}

// "All passed" holds only if all required points ran. Optional points may be missing.
func TestJudgePassed(t *testing.T) {
	rows := published()
	if got := Judge(dataset.All(rows[:6]), []Claim{{Kind: ClaimPassed}}, nil)[0]; got.Answer != Holds {
		t.Errorf("six good rows: %+v", got)
	}
	for i := range rows[6:] {
		rows[6+i].Optional = true
	}
	if got := Judge(dataset.All(rows), []Claim{{Kind: ClaimPassed}}, nil)[0]; got.Answer != Holds {
		t.Errorf("optional cells did not run: %+v", got)
	}
	rows[2].Status = journal.Failed
	if got := Judge(dataset.All(rows), []Claim{{Kind: ClaimPassed}}, nil)[0]; got.Answer != Refused {
		t.Errorf("a failed row: %+v", got)
	}
}
