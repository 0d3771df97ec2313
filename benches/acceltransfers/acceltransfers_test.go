package acceltransfers

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/dist/ahbm"
	"github.com/kernbench/kernbench/internal/accel/dma"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// rowsOf simulates a sweep: axes as name=values, options as --name=value.
func rowsOf(t *testing.T, words ...string) dataset.Set {
	t.Helper()
	return must.Get(benchtest.Rows(t, Bench(), ahbm.Name, words...))(t)
}

// The parts of every transfer add up to its time, and the views have all cases and published values.
func TestRowsAndViews(t *testing.T) {
	rows := rowsOf(t, "size=4K,16K", "case=h2d-near,pe-local-hbm,one-port-8", "value=read-own,read-3", "model=whole,flits")
	if len(rows) != 3*2+2*2 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		if r.Status != journal.OK || r.Kind != journal.Simulated || r.Details[textDetail] == "" ||
			r.Details[machine.Hash] == "" {
			t.Errorf("%v: %s (%s), %s, %v", r.Point, r.Status, r.Reason, r.Kind, r.Details)
		}
		if r.Part == publishedPart {
			continue
		}
		sum := 0.0
		for _, c := range dma.Causes {
			sum += r.Metrics[c.Name+"_ns"]
		}
		if math.Abs(sum-r.Metrics["time_ns"]) > 1e-6 || r.Metrics["pct_of_limit"] > 100 || r.Details[bottleneckDetail] == "" {
			t.Errorf("%v: %v, %v", r.Point, r.Metrics, r.Details)
		}
	}
	figs := benchtest.Figures(t, Bench(), rows)
	if len(figs) != 2 {
		t.Errorf("%d figures", len(figs))
	}
	for _, f := range figs {
		must.Get(figure.Write(t.TempDir(), ".", f))(t)
	}
	secs := benchtest.Sections(t, Bench(), rows)
	if len(secs) != 2 || len(secs[0].Table) != 1+3 || len(secs[1].Table) != 1+2 {
		t.Fatalf("%+v", secs)
	}
	const want = "With whole messages 1 of 2 published times are met within 0.1 %. The largest difference is -3.8 %, of " +
		"read-3: 221.18 ns instead of 230."
	if text := benchtest.Text(secs[1]); !strings.Contains(text, want) {
		t.Errorf("%q, want %q", text, want)
	}
}

// The file and the fabric of a point are used, and recorded in its row.
func TestMachines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "my.yaml")
	text := strings.Replace(string(topo.DefaultFile()), "latency_ns: 43.201", "latency_ns: 100", 1)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	rows := rowsOf(t, "--topology=built-in,"+path, "case=pe-other-sip", "size=16K", "fabric=topology,whole",
		"value=read-other-sip", "model=whole")
	times := map[string]float64{}
	for _, r := range rows {
		if r.Status != journal.OK {
			t.Errorf("%v: %s", r.Point, r.Reason)
		}
		times[r.Part+" "+r.Details[machine.Option]+" "+r.Details[machine.Fabric]] = r.Metrics["time_ns"]
	}
	// A read passes the links between SIPs four times.
	const more = 4 * (100 - 43.201)
	for _, what := range []string{"transfer %s flits", "transfer %s whole", "published %s whole"} {
		built, mine := times[strings.Replace(what, "%s", "built-in", 1)], times[strings.Replace(what, "%s", "my.yaml", 1)]
		if built == 0 || math.Abs(mine-built-more) > 1e-6 {
			t.Errorf("%s: %g and %g in %v", what, built, mine, times)
		}
	}
	if times["transfer built-in whole"] != times["published built-in whole"] {
		t.Errorf("the same transfer takes two times: %v", times)
	}
}

// A case that is impossible on a machine is skipped with the reason.
func TestImpossibleCase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one.yaml")
	must.Do(t, os.WriteFile(path, []byte(strings.Replace(string(topo.DefaultFile()), "count: 2", "count: 1", 1)), 0o600))
	rows := rowsOf(t, "--topology="+path, "case=pe-other-sip", "size=4K", "value=read-own", "model=whole")
	if r := rows[0]; r.Status != journal.Skipped || r.Reason != "there is one SIP" {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
}

// Invalid options and values are rejected before anything runs.
func TestMistakes(t *testing.T) {
	for word, want := range map[string]string{
		"case=h2d-neer":           `did you mean "h2d-near"`,
		"value=read-onw":          "read-own",
		"model=rond-robin":        "round-robin",
		"fabric=age":              "whole",
		"size=3":                  "transfers of 3 bytes: want an even number up to",
		"--topology=missing.yaml": "missing.yaml",
	} {
		if _, err := benchtest.Rows(t, Bench(), ahbm.Name, word); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", word, err, want)
		}
	}
}
