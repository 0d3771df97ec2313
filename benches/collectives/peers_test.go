package collectives

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/sweep"
)

// peers is the folder of programs that do the same work with other libraries. It holds C sources, so
// its Go test is here.
const peers = "../../peers"

// The all-reduce sweeps load, name existing scripts, and parse the programs' output.
func TestAllReduceSweeps(t *testing.T) {
	for _, name := range []string{"openmpi", "mpich", "gloo"} {
		b, err := sweep.Load(filepath.Join(peers, name+".yaml"))
		if err != nil {
			t.Error(err)
			continue
		}
		if err := b.Validate(); err != nil {
			t.Error(err)
		}
		part := b.Parts[0]
		if b.Name != name || !part.Command.OwnRanks {
			t.Errorf("%s is named %q, with ranks of its own: %v", name, b.Name, part.Command.OwnRanks)
		}
		if _, ok := part.Axis("np"); !ok {
			t.Errorf("%s has no axis np, by which its rows are paired", name)
		}
		if info, err := os.Stat(filepath.Join(peers, part.Command.Argv[0])); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s: %s cannot be executed: %v", name, part.Command.Argv[0], err)
		}
		rows, err := part.Command.Parse([]decl.RankOutput{{Stdout: []byte("size,inplace,time_us,samples,batch,wrong\n" +
			"4,false,0.5798,9596,9,0\n16,false,0.6382,9934,8,0\n")}})
		if err != nil || len(rows) != 2 {
			t.Errorf("%s: %d rows, %v", name, len(rows), err)
			continue
		}
		if size, _ := rows[1].Extra.Get("size"); size.Float() != 16 || len(rows[1].Extra) != 2 ||
			rows[1].Samples["time_us"][0] != 0.6382 {
			t.Errorf("%s: the second line is read as %+v", name, rows[1])
		}
	}
}

// Every program prints the header that the sweeps expect.
func TestProgramsPrintTheColumns(t *testing.T) {
	for _, name := range []string{"allreduce_mpi.c", "allreduce_gloo.cc"} {
		text := must.Get(os.ReadFile(filepath.Join(peers, name)))(t)
		if !strings.Contains(string(text), `"size,inplace,time_us,samples,batch,wrong\n"`) {
			t.Errorf("%s prints another header", name)
		}
	}
}
