package predict

import (
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// rowsOf computes a sweep. Words that begin with -- are options, others are axes.
func rowsOf(t *testing.T, words ...string) (dataset.Set, error) {
	t.Helper()
	return benchtest.Rows(t, Bench(), "cpu", words...)
}

// All rows are modelled. Rows have an error and an interval, or are marked as not validated.
func TestRows(t *testing.T) {
	rows := must.Get(rowsOf(t, "cluster=h100-8x1,h100-8x8,b200-8x1,a100-8x1"))(t)
	validated := 0
	for _, r := range rows {
		cluster, algorithm := dataset.Text(r, clusterAxis), dataset.Text(r, algorithmAxis)
		if r.Status == journal.Skipped && algorithm == "nvls" && cluster == "a100-8x1" {
			continue // the switch of an A100 cannot add
		}
		if r.Status != journal.OK || r.Kind != journal.Modelled || !(r.Metrics["time_us"] > 0) {
			t.Errorf("%v: %s (%s), %s, %v", r.Point, r.Status, r.Reason, r.Kind, r.Metrics)
		}
		_, interval := r.Metrics["high_us"]
		not := strings.HasPrefix(r.Details[validationDetail], "not validated: ")
		by := r.Details[journal.ValidatedByDetail]
		want := cluster != "h100-8x8" && algorithm == "best" && dataset.Text(r, protocolAxis) == "best" &&
			dataset.Number(r, sizeAxis) <= 512<<20
		if interval == not || interval != want || interval != (r.Metrics[errorMedian] > 0) ||
			interval == (by == "not validated") || by == "" {
			t.Errorf("%v: interval %v, %q by %q", r.Point, interval, r.Details[validationDetail], by)
		}
		if interval {
			validated++
		}
	}
	if validated != 30 {
		t.Errorf("%d rows were validated", validated)
	}
	if f := figures(rows); len(f) != 1 || len(f[0].Panels) != 4 || len(f[0].Panels[0].Lines) != 1 ||
		len(f[0].Panels[1].Lines) != 0 || !strings.Contains(f[0].Panels[0].Title, "error 2 %, 90 % within 8 %") ||
		!strings.HasSuffix(f[0].Panels[1].Title, "not validated") {
		t.Errorf("%+v", f)
	} else if err := f[0].Validate(); err != nil {
		t.Error(err)
	}
	s := benchtest.Sections(t, Bench(), rows)
	if len(s) != 5 || len(s[0].Table) != 12 {
		t.Fatalf("%+v", s)
	}
	times := s[4] // a line for each cluster, size and protocol
	if times.Title != "Time by algorithm and protocol" || len(times.Table) != 1+4*11*3 ||
		strings.Join(times.Table[0], ", ") != "cluster, op, size, protocol, ring, tree, nvls" {
		t.Fatalf("%+v", times)
	}
	// Times of a cluster that was not measured are not corrected. The best choice has the least time.
	of := rows.Good().At(clusterAxis, "h100-8x8")
	for _, best := range of.Where(func(r *journal.Row) bool { return bests(r) == 2 }) {
		pairs := of.At(sizeAxis, dataset.Text(best, sizeAxis)).Where(func(r *journal.Row) bool { return bests(r) == 0 })
		if least := slices.Min(pairs.Values("time_us")); len(pairs) != 7 || least != best.Metrics["time_us"] {
			t.Errorf("%v: the least of %d is %v, the best choice takes %v", best.Point, len(pairs), least,
				best.Metrics["time_us"])
		}
	}
	if !strings.Contains(s[1].Text,
		"8 x 8 GPUs, NVLink 4 at 370.8 GB/s, 8 NICs of 50 GB/s a node, infiniband, 2 levels of switches") {
		t.Errorf("%s", s[1].Text)
	}
	for _, line := range figures(rows)[0].Panels[0].Series {
		if line.Name != "best" && !strings.Contains(line.Name, ", ") {
			t.Errorf("the figure has both pairs and the best of some: %s", line.Name)
		}
	}
}

// Other collectives have rings, or direct sends for an all-to-all.
func TestOtherCollectives(t *testing.T) {
	rows := must.Get(rowsOf(t, "cluster=b200-4x1", "op=allgather,reduce_scatter,alltoall", "size=1Ki,64Mi"))(t)
	ran := map[string]int{}
	for _, r := range rows {
		if r.Status == journal.OK {
			ran[dataset.Text(r, opAxis)+" "+r.Details[choiceDetail]]++
			if bests(r) == 2 && r.Details[journal.ValidatedByDetail] != "left-out rank count" {
				t.Errorf("%v: %v", r.Point, r.Details)
			}
		}
	}
	if ran["allgather ring with LL"] == 0 || ran["reduce_scatter ring with Simple"] == 0 ||
		ran["alltoall direct with LL"] == 0 || ran["alltoall direct with Simple"] == 0 {
		t.Errorf("%v", ran)
	}
	if f := figures(rows); len(f) != 1 || len(f[0].Panels) != 3 ||
		!strings.HasPrefix(f[0].Panels[1].Title, "b200-4x1, reduce") {
		t.Errorf("%+v", f)
	}
}

// Mistakes are refused before anything runs.
func TestMistakes(t *testing.T) {
	for axis, want := range map[string]string{"cluster=h1oo-8x1": `did you mean "h100"`, "cluster=h100-1x1": "one GPU",
		"op=broadcast": "allreduce", "op=allgather cluster=host-2": "model of allreduce only",
		"algorithm=rnig": "ring", "protocol=LL12": "LL128", "cluster=missing.yaml": "no such file"} {
		if _, err := rowsOf(t, strings.Fields(axis)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", axis, err, want)
		}
	}
}
