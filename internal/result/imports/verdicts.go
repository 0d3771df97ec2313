package imports

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
)

// ClaimsPart is the part of the rows that judge claims.
const ClaimsPart = "claims"

// VerdictRows makes a row of each verdict: a claim that holds is good, one that
// is refuted or cannot be made of these numbers has failed, and one that they
// do not decide is skipped.
func VerdictRows(verdicts []model.Verdict, src Source, first int) []journal.Row {
	var out []journal.Row
	for i, v := range verdicts {
		r := journal.Row{Schema: journal.Schema, Run: src.Run, Bench: src.Bench, Part: ClaimsPart, Index: first + i,
			Kind: journal.Modelled, Time: src.Time,
			Point: point.Point{{Name: "claim", Value: point.StringValue(v.Claim.Text)}},
			Details: map[string]string{"kind": v.Claim.Kind, "answer": string(v.Answer),
				"file": fmt.Sprintf("%s, SHA-256 %.12s", src.Name, src.SHA256)}}
		switch v.Answer {
		case model.Holds:
			r.Status, r.Details["because"] = journal.OK, v.Reason
		case model.Undecided:
			r.Status, r.Reason = journal.Skipped, "undecided: "+v.Reason
		default:
			r.Status, r.Reason = journal.Failed, string(v.Answer)+": "+v.Reason
		}
		r.Key = journal.Key(r.Bench, r.Part, "", r.Point, nil, "", nil, nil, nil)
		out = append(out, r)
	}
	return out
}

// Warn attaches the warnings to the rows they name, unless they are there, and
// returns the notes, which are about the whole.
func Warn(rows []journal.Row, warnings []model.Warning) (notes []string) {
	for _, w := range warnings {
		text := w.Kind + ": " + w.Text
		if w.Note {
			notes = append(notes, text)
			continue
		}
		for _, i := range w.Rows {
			if !slices.Contains(rows[i].Warnings, text) {
				rows[i].Warnings = append(rows[i].Warnings, text)
			}
		}
	}
	return notes
}
