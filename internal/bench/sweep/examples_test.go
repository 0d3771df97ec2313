package sweep

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/bench/decl"
)

const examples = "../../../examples"

// runOnce runs an example's program at the first value of each axis and the
// given environment, one process per rank, and parses the output. It is a minimal launcher; the
// real one has its own tests.
func runOnce(t *testing.T, file string, environ ...string) []decl.ParsedRow {
	t.Helper()
	loaded, err := Load(filepath.Join(examples, file))
	if err != nil {
		t.Fatal(err)
	}
	part := loaded.Parts[0]
	at, declared := firstPoint(part)
	argv, err := Substitute(part.Command.Argv, at, declared)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()

	ranks := 1
	if declared != nil {
		ranks = *declared
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	outs := make([]decl.RankOutput, ranks)
	errs := make([]error, ranks)
	var group sync.WaitGroup
	for rank := range ranks {
		group.Go(func() {
			var stdout, stderr strings.Builder
			cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
			cmd.Dir, cmd.Stdout, cmd.Stderr = part.Command.Dir, &stdout, &stderr
			cmd.Env = append(os.Environ(), fmt.Sprintf("RANK=%d", rank), fmt.Sprintf("WORLD_SIZE=%d", ranks),
				"MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port)
			cmd.Env = append(cmd.Env, environ...)
			start := time.Now()
			if err := cmd.Run(); err != nil {
				errs[rank] = fmt.Errorf("rank %d: %v: %s", rank, err, stderr.String())
			}
			outs[rank] = decl.RankOutput{Rank: rank, Stdout: []byte(stdout.String()), Stderr: []byte(stderr.String()),
				Wall: time.Since(start)}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	rows, err := part.Command.Parse(outs)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestExamplesLoad(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%d examples, error %v", len(files), err)
	}
	for _, f := range files {
		bench, err := Load(f)
		if err != nil {
			t.Error(err)
			continue
		}
		if bench.Help == "" || bench.Name+".yaml" != filepath.Base(f) {
			t.Errorf("%s: name %q, description %q", f, bench.Name, bench.Help)
		}
	}
}

func TestExamplesRun(t *testing.T) {
	rows := runOnce(t, "rccl-cta-sweep.yaml", "NCCL_MIN_CTAS=32", "NCCL_MAX_CTAS=32")
	if len(rows) != 1 || len(rows[0].Samples["time_us"]) != 10 {
		t.Errorf("rccl-cta-sweep: %s", show(rows))
	}
	rows = runOnce(t, "rccl-warp-speed.yaml", "RCCL_WARP_SPEED_ENABLE=1")
	if len(rows) != 1 || len(rows[0].Samples["time_us"]) != 10 || len(rows[0].Samples["gbps"]) != 1 ||
		len(rows[0].Samples["start_s"]) != 1 {
		t.Errorf("rccl-warp-speed: %s", show(rows))
	}
	rows = runOnce(t, "nccl-tests.yaml", "NCCL_ALGO=Ring")
	if len(rows) != 8 || rows[0].Extra.String() != "size=1Ki type=float redop=sum" || len(rows[7].Samples) != 5 {
		t.Errorf("nccl-tests: %s", show(rows))
	}
}
