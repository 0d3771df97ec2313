package collectives

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/export"
)

func TestMain(m *testing.M) { os.Exit(benchtest.Main(m, Bench(), CTASweep())) }

// The whole path with real processes: plan, launch, groups of package dist, journal, and the table of
// nccl-tests.
func TestProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	p := planned(t, plan.Request{Axes: axes("op=allreduce,allgather", "size=64,64K", "inplace=false,true",
		"algorithm=auto"),
		Options: axes("probe=" + scriptedFile(t)), Trials: 2})
	sampleLittle(p)
	res := must.Get(run.Run(t.Context(), p, run.Options{Dir: dir, Environ: os.Environ()}))(t)
	_, r := must.Get2(journal.LoadRun(dir))(t)
	rows := dataset.Of(r).Rows
	if res.Counts[journal.OK] != len(rows) || len(rows) != 16 {
		t.Errorf("%v of %d rows, want 16 good ones", res.Counts, len(rows))
	}
	for _, row := range rows {
		if row.Details["algorithm"] == "" || row.Details["tuning"] == "" || !(row.Metrics["pct_of_limit"] > 0) ||
			row.Metrics["wrong"] != 0 || row.Cadence != "streaming" {
			t.Errorf("%s: %s %s, details %v, metrics %v", row.Point, row.Status, row.Reason, row.Details, row.Metrics)
		}
	}
	var table bytes.Buffer
	must.Do(t, export.Write(&table, "nccl-tests", export.Input{Header: &r.Header, Rows: rows},
		export.Options{}))
	gap := false
	for line := range strings.Lines(table.String()) {
		gap = gap || !strings.HasPrefix(line, "#") && strings.Contains(line, "N/A")
	}
	if gap || !strings.Contains(table.String(), "Out of bounds values : 0 OK") {
		t.Errorf("both places of every size were run:\n%s", table.String())
	}
}
