package collectives

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/dist/mpi"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The bench runs on MPI without changes: every operation is correct in private buffers, the details
// name the library, and there are no limits.
func TestMPI(t *testing.T) {
	for library, command := range map[string]string{
		"Open MPI": "mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none", "MPICH": "mpiexec.hydra",
	} {
		t.Run(library, func(t *testing.T) {
			if _, err := exec.LookPath(strings.Fields(command)[0]); err != nil {
				t.Fatalf("this test needs Debian's openmpi-bin and mpich (scripts/deps.sh): %v", err)
			}
			via := must.Get(run.NewLauncher(t.Context(), command, "127.0.0.1"))(t)
			p := must.Get(plan.Make(Bench(),
				plan.Request{Backend: mpi.Name, Seed: 1,
					Axes: axes("op="+strings.Join(ops(), ","), "size=4,4K", "dtype=f32,bf16")}))(t)
			sampleLittle(p)
			dir := filepath.Join(t.TempDir(), "run")
			must.Get(run.Run(t.Context(), p, run.Options{Dir: dir, Environ: os.Environ(), Launcher: via}))(t)
			_, r := must.Get2(journal.LoadRun(dir))(t)
			rows := dataset.Of(r).Rows
			for _, row := range rows {
				if strings.Contains(string(row.Reason), "a barrier moves no data") {
					continue
				}
				if row.Status != journal.OK || row.Metrics["wrong"] != 0 ||
					!strings.HasPrefix(row.Details["library"], library+" ") || len(row.Limits) > 0 || len(row.Details) != 1 {
					t.Errorf("%s: %s %s, details %v, limits %v, metrics %v", row.Point, row.Status, row.Reason, row.Details,
						row.Limits, row.Metrics)
				}
			}
			if len(rows) < 2*len(ops()) {
				t.Errorf("%d rows", len(rows))
			}
		})
	}
}
