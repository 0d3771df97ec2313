package predict

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/probe"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
	"github.com/kernbench/kernbench/internal/result/predict"

	_ "github.com/kernbench/kernbench/dist/cpu"
	"github.com/kernbench/kernbench/internal/base/must"
)

// probed returns the probe result of an invented machine with two cores.
func probed() probe.Result {
	cells := []probe.Cell{{Cores: 1, Bytes: 16 << 10, GBps: 80}, {Cores: 1, Bytes: 64 << 20, GBps: 10},
		{Cores: 2, Bytes: 16 << 10, GBps: 160}, {Cores: 2, Bytes: 64 << 20, GBps: 12}}
	return probe.Result{Schema: probe.Schema, Class: "none", Version: "any", Host: "elsewhere", Profile: "scripted",
		Cores: 2, Copy: cells, Read: cells,
		Exchange: []probe.Cell{{Cores: 2, Bytes: 128 << 10, GBps: 9}, {Cores: 2, Bytes: 64 << 20, GBps: 3}},
		Hops:     []probe.Hop{{From: 0, To: 1, US: 0.2}}}
}

// run writes a run of measured all-reduces: the model's times for a given library, with two disturbed
// sizes that take 40 times as long.
func run(t *testing.T, host string, algorithms ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	w := must.Get(journal.Open(dir))(t)
	records := []any{journal.Header{Schema: journal.Schema, Run: "r", Bench: "collectives"}}
	h := must.Get(newHost(probed()))(t)
	ranks := 2
	for _, algorithm := range algorithms {
		for i := range 8 {
			bytes := int64(1024) << (2 * i)
			us := must.Get(h.US(model.Series{Algorithm: algorithm, DType: "f32", Ranks: ranks, Backend: "cpu"},
				predict.Library{OverheadUS: 0.5, Share: 0.8}, bytes))(t)
			r := journal.Row{Schema: journal.Schema, Run: "r", Bench: "collectives", Status: journal.OK, Kind: journal.Measured,
				NumRanks: &ranks, Host: host,
				Backend: "cpu", Key: fmt.Sprint(algorithm, i), Quality: journal.QualitySettled,
				Metrics: map[string]float64{"time_us": us}, Point: point.Point{
					{Name: "op", Value: point.StringValue("allreduce")}, {Name: "algorithm", Value: point.StringValue(algorithm)},
					{Name: "dtype", Value: point.StringValue("f32")}, {Name: "size", Value: point.BytesValue(bytes)}}}
			if i == 3 || i == 4 {
				r.Quality, r.Metrics["time_us"] = journal.QualityDisturbed, 40*us
			}
			low, high := 0.98*r.Metrics["time_us"], 1.02*r.Metrics["time_us"]
			r.Stats = journal.NewObject(map[string]journal.Stat{"time_us": {CILow: &low, CIHigh: &high}})
			records = append(records, r)
		}
	}
	for _, rec := range records {
		must.Do(t, w.Append(rec))
	}
	must.Do(t, w.Close())
	return dir
}

// One command gives predicted and measured curves in one figure and the error in words. Disturbed
// times count in neither.
func TestHost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.json")
	must.Do(t, probe.Save(file, probed()))
	rows := must.Get(rowsOf(t, "cluster=host-2", "algorithm=best,ring,two-stage,nvls", "size=1K:64M:x4", "--probe="+file,
		"--measured="+run(t, "elsewhere", "ring", "two-stage")))(t)
	lost, validated := 0, 0
	for _, r := range rows {
		bytes := int64(size(r))
		if r.Status != journal.OK || r.Kind != journal.Modelled || len(r.Conditions) > 0 {
			t.Fatalf("%v: %s (%s), %s, %v", r.Point, r.Status, r.Reason, r.Kind, r.Conditions.Sentences())
		}
		us, m := r.Metrics["time_us"], r.Metrics[measuredMetric]
		disturbed := bytes == 64<<10 || bytes == 256<<10
		switch {
		case bytes > 16<<20:
			if m != 0 || !strings.Contains(r.Details[validationDetail], "not validated: outside the measured sizes") {
				t.Errorf("%v: measured %v, %s", r.Point, m, r.Details[validationDetail])
			}
		case disturbed != notResolved(r):
			t.Errorf("%v: %s", r.Point, r.Details[useDetail])
		case disturbed:
			lost++
		case us < 0.97*m || us > 1.03*m || r.Metrics["low_us"] > us || r.Metrics["high_us"] < us:
			t.Errorf("%v: %v us (%v to %v), measured %v", r.Point, us, r.Metrics["low_us"], r.Metrics["high_us"], m)
		default:
			validated++
		}
	}
	if lost != 6 || validated != 18 {
		t.Errorf("%d times are not resolved, %d validated", lost, validated)
	}
	f := figures(rows)
	if len(f) != 1 || f[0].Name != "predict_host" || !strings.Contains(f[0].Caption, "On host-2: median error") ||
		len(f[0].Panels) != 1 || f[0].Validate() != nil {
		t.Fatalf("%+v", f)
	}
	series := f[0].Panels[0].Series
	if len(series) != 4 || series[0].Name != "ring, predicted" || series[1].Name != "ring, measured" ||
		series[1].Kind != figure.Scatter ||
		series[0].Color != series[1].Color || series[0].Color == series[2].Color || !series[1].Points[3].Hollow ||
		series[1].Points[2].Hollow {
		t.Errorf("%+v", series)
	}
	s := sections(rows)
	for _, want := range []string{"All algorithms together: median error 0 %, 90th percentile ",
		"on 6 times (sizes left out of the fit)",
		"- ring, f32, 2 ranks, cpu: 0.5 µs at either end of a message or flag and 80 % of the probed rates, fitted to 3 " +
			"sizes", "not resolved: 64Ki, 256Ki", "4 times in the table not resolved"} {
		if !strings.Contains(s[0].Text, want) {
			t.Errorf("no %q in: %s", want, s[0].Text)
		}
	}
	if len(s) != 2 || len(s[0].Table) != 17 || len(s[1].Table) != 10 {
		t.Errorf("%+v", s)
	}
}

// Without measured times, or with times of another host, the rows say so.
func TestHostNotValidated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.json")
	must.Do(t, probe.Save(file, probed()))
	rows, err := rowsOf(t, "cluster=host", "algorithm=ring,best", "size=1M", "--probe="+file)
	if err != nil || len(rows) != 2 {
		t.Fatal(rows, err)
	}
	for _, r := range rows {
		if _, has := r.Metrics["high_us"]; has ||
			!strings.Contains(r.Details[validationDetail], "not validated: no measured times") {
			t.Errorf("%v: %v, %v", r.Point, r.Metrics, r.Details)
		}
	}
	if f := figures(rows); !strings.HasSuffix(f[0].Panels[0].Title, "not validated") ||
		f[0].Panels[0].Series[0].Name != "ring, predicted, not validated" {
		t.Errorf("%+v", f)
	}
	if s := sections(rows); !strings.Contains(s[0].Text, "they are not validated") || s[0].Table != nil {
		t.Errorf("%+v", s)
	}
	rows, err = rowsOf(t, "cluster=host-2", "algorithm=ring,nvls", "size=1K", "--probe="+file,
		"--measured="+run(t, "other", "ring"))
	if err != nil || len(rows) != 1 || len(rows[0].Conditions) != 1 ||
		!strings.Contains(rows[0].Conditions[0].Sentence(), "measured on host other, but the probe is of elsewhere") {
		t.Errorf("%+v, %v", rows, err)
	}
	for want, axes := range map[string][]string{
		"2 to 2 ranks":         {"cluster=host-4", "--probe=" + file},
		`unknown algorithm`:    {"cluster=host", "algorithm=rnig"},
		"not a size of pieces": {"cluster=host", "algorithm=ring@x"},
		"--measured: ":         {"cluster=host", "--measured=" + t.TempDir()},
		"no measured all-red":  {"cluster=host", "--measured=" + run(t, "other")},
		"--probe: reading":     {"cluster=host", "--probe=host_test.go"},
	} {
		if _, err := rowsOf(t, axes...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", axes, err, want)
		}
	}
}
