package imports

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/bandwidth"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
)

// Source describes the file of records and the run that their rows belong to.
type Source struct {
	Name   string // file name
	SHA256 string
	Bench  string // bench whose views show the rows
	Part   string
	Run    string // id of the run
	Time   time.Time
}

// Rows returns the journal rows of records. Repeated points become trials. first is the index
// of the first row. trials counts the rows of each key over all files of an import; Rows
// updates it.
func Rows(records []Record, src Source, first int, trials map[string]int) []journal.Row {
	out := make([]journal.Row, 0, len(records))
	for i, rec := range records {
		row := rec.row(src)
		row.Index = first + i
		row.Trial = trials[row.Key]
		trials[row.Key]++
		out = append(out, row)
	}
	return out
}

// row returns the journal row of a record. It adds the bandwidths that follow from size and time if
// the tool did not print them, and the place of the record in its file as a detail.
func (rec Record) row(src Source) journal.Row {
	r := journal.Row{
		Schema: journal.Schema, Run: src.Run, Bench: src.Bench, Part: src.Part, Backend: rec.Backend,
		Point: rec.point(), Status: rec.Status, Reason: journal.Text(rec.Reason), Kind: rec.Kind, Samples: rec.Samples,
		Metrics: maps.Clone(rec.Metrics), Units: map[string]string{}, Details: maps.Clone(rec.Details), Host: rec.Host,
		Time: src.Time, Conditions: slices.Clone(rec.Remarks),
	}
	if rec.Ranks > 0 {
		ranks := rec.Ranks
		r.NumRanks = &ranks
	}
	us, timed := r.Metrics["time_us"]
	if timed && us > 0 && rec.Size > 0 {
		if _, has := r.Metrics["algbw"]; !has {
			r.Metrics["algbw"] = bandwidth.Alg(rec.Size, us)
		}
		if bw, ok := bandwidth.Bus(rec.Op, rec.Ranks, rec.Size, us); ok && rec.Ranks > 0 {
			if _, has := r.Metrics["busbw"]; !has {
				r.Metrics["busbw"] = bw
			}
		}
	}
	if rec.High > 0 && timed {
		low, high := rec.Low, rec.High
		r.Stats = journal.Stats{{Name: "time_us", Value: journal.Stat{P50: us, CILow: &low, CIHigh: &high}}}
	}
	for name := range r.Metrics {
		r.Units[name] = unitOf(name)
	}
	if r.Details == nil {
		r.Details = map[string]string{}
	}
	r.Details["file"] = fmt.Sprintf("%s line %d, SHA-256 %.12s", src.Name, rec.Line, src.SHA256)
	r.Key = journal.Key(r.Bench, r.Part, "", r.Point, r.NumRanks, r.Backend, nil, nil, nil)
	return r
}

// point returns the coordinates under the names of kernbench's own collectives bench.
func (rec Record) point() point.Point {
	p := point.Point{{Name: "op", Value: point.StringValue(rec.Op)}}
	add := func(name, text string) {
		if text != "" {
			p = append(p, point.Coord{Name: name, Value: point.StringValue(text)})
		}
	}
	add("algorithm", rec.Algorithm)
	if d, err := dtype.Parse(rec.DType); err == nil {
		p = append(p, point.Coord{Name: "dtype", Value: point.DTypeValue(d)})
	} else {
		add("dtype", rec.DType)
	}
	add("reduction", rec.Reduction)
	p = append(p, point.Coord{Name: "size", Value: point.BytesValue(rec.Size)},
		point.Coord{Name: "inplace", Value: point.BoolValue(rec.InPlace)})
	return append(p, rec.Extra...)
}

// unitOf returns the unit of a metric, which follows from its name.
func unitOf(metric string) string {
	switch {
	case metric == "algbw" || metric == "busbw":
		return "GB/s"
	case metric == "utilisation":
		return "%"
	case strings.HasSuffix(metric, "_us"):
		return "us"
	}
	return ""
}

// Axes returns the axes of the rows, for the header of their run.
func Axes(rows []journal.Row) []journal.AxisInfo {
	var out []journal.AxisInfo
	for _, r := range rows {
		for _, c := range r.Point {
			if !slices.ContainsFunc(out, func(a journal.AxisInfo) bool { return a.Name == c.Name && a.Part == r.Part }) {
				out = append(out, journal.AxisInfo{Part: r.Part, Name: c.Name, Kind: c.Value.Kind()})
			}
		}
	}
	return out
}

// Metrics returns the metrics of the rows: time_us first, the others sorted by name.
func Metrics(rows []journal.Row) []journal.MetricInfo {
	units := map[string]string{}
	for _, r := range rows {
		maps.Copy(units, r.Units)
	}
	var out []journal.MetricInfo
	for _, name := range slices.Sorted(maps.Keys(units)) {
		better := ""
		switch units[name] {
		case "us":
			better = "lower"
		case "GB/s", "%":
			better = "higher"
		}
		info := journal.MetricInfo{Name: name, Unit: units[name], Better: better}
		if name == "time_us" {
			out = slices.Insert(out, 0, info)
		} else {
			out = append(out, info)
		}
	}
	return out
}

// ClaimsPart is the part of the rows that hold verdicts on claims.
const ClaimsPart = "claims"

// VerdictRows returns a row for each verdict: ok if the claim holds, skipped if it is undecided, and
// failed otherwise.
func VerdictRows(verdicts []model.Verdict, src Source, first int) []journal.Row {
	var out []journal.Row
	for i, v := range verdicts {
		r := journal.Row{Schema: journal.Schema, Run: src.Run, Bench: src.Bench, Part: ClaimsPart, Index: first + i,
			Kind: journal.Modelled, Time: src.Time,
			Point: point.Point{{Name: "claim", Value: point.StringValue(v.Claim.Text)}},
			Details: map[string]string{"kind": v.Claim.Kind, "answer": string(v.Answer),
				"because": v.Reason, "file": fmt.Sprintf("%s, SHA-256 %.12s", src.Name, src.SHA256)}}
		switch v.Answer {
		case model.Holds:
			r.Status = journal.OK
		case model.Undecided:
			r.Status, r.Reason = journal.Skipped, journal.Text("undecided: "+v.Reason)
		default:
			r.Status, r.Reason = journal.Failed, journal.Text(string(v.Answer)+": "+v.Reason)
		}
		r.Key = journal.Key(r.Bench, r.Part, "", r.Point, nil, "", nil, nil, nil)
		out = append(out, r)
	}
	return out
}

// Warn adds the warnings to the rows they name, without repeating any, and returns the
// warnings about the whole import.
func Warn(warnings []model.Warning) (notes []string) {
	for _, w := range warnings {
		text := w.Kind + ": " + w.Text
		if w.Note {
			notes = append(notes, text)
			continue
		}
		for _, r := range w.Rows {
			r.Conditions.Add(journal.Remarkf("%s", text))
		}
	}
	return notes
}
