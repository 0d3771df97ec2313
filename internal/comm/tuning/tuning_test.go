package tuning

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

func TestTuning(t *testing.T) {
	const text = `{"note": "a test", "entries": [
		{"backend": "cpu", "op": "allreduce", "max_ranks": 4, "dtypes": ["bf16"], "max_bytes": 100, "algorithm": "a"},
		{"op": "allreduce", "buffers": "symmetric", "algorithm": "b", "chunk_bytes": 64},
		{"min_ranks": 3, "algorithm": "c"}]}`
	path := filepath.Join(t.TempDir(), "tuning.json")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	table := must.Get(Load(path))(t)
	for _, c := range []struct {
		backend   string
		op        string
		ranks     int
		d         dtype.DType
		bytes     int
		symmetric bool
		want      string
	}{
		{"cpu", schedule.AllReduce, 4, dtype.BF16, 100, true, "a"},
		{"cpu", schedule.AllReduce, 4, dtype.BF16, 101, true, "b"},
		{"cpu", schedule.AllReduce, 5, dtype.BF16, 100, true, "b"},
		{"mpi", schedule.AllReduce, 4, dtype.BF16, 100, true, "b"},
		{"cpu", schedule.AllReduce, 4, dtype.F32, 100, false, "c"},
		{"cpu", schedule.Gather, 2, dtype.F32, 100, false,
			Default().Choose("cpu", schedule.Gather, 2, dtype.F32, 100, false).Algorithm},
	} {
		if got := table.Choose(c.backend, c.op, c.ranks, c.d, c.bytes, c.symmetric).Algorithm; got != c.want {
			t.Errorf("%+v gives %q", c, got)
		}
	}
	if table.Hash() == Default().Hash() || len(table.Hash()) != 12 {
		t.Errorf("hash is %q", table.Hash())
	}
	for _, bad := range []string{"", `{"entries": [{}]}`, `{"entries": [{"algorithm": "x", "op": "y"}]}`,
		`{"entries": [{"algorithm": "x", "buffers": "y"}]}`, `{"entries": [{"algorithm": "x", "max_bytes": -1}]}`,
		`{"entries": [{"algorithm": "x@64K"}]}`, `{"entries": [{"algorithm": "x#4"}]}`,
		`{"entries": [{"algorithm": "x", "blocks": -1}]}`, `{"entries": [{"algorithm": "x", "ranks_per_device": 2}]}`,
		`{"entries": [{"algorithm": "x", "dtypes": ["f31"]}]}`, `{"entires": []}`,
		`{"entries": []} {"entries": []}`, `{"entries": [{"algorithm": "x", "algorithm": "y"}]}`,
		`{"entries": [{"algorithm": "x", "min_ranks": 5, "max_ranks": 4}]}`,
		`{"entries": [{"algorithm": "x", "min_bytes": 1e3}]}`, `{"entries": [{"algorithm": "x", "min_bytes": "1K"}]}`,
		`{"entries": [{"algorithm": "x", "min_bytes": 9223372036854775808}]}`, "\uFEFF{}"} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a table that is not there was read")
	}
}

// Entries measured on one kind of GPU, with a number of ranks per GPU and one kind of ranks (processes
// or blocks of one kernel), apply only to groups of that kind.
func TestTuningOfOneDevice(t *testing.T) {
	table := must.Get(Parse([]byte(`{"entries": [
		{"backend": "cuda", "device": "NVIDIA H200", "ranks_per_device": 8, "knobs": {"ranks_as": "processes"}, "algorithm": "lamport", "blocks": 4},
		{"algorithm": "one-stage"}]}`)))(t)
	processes, blocks := map[string]string{"ranks_as": "processes"}, map[string]string{"ranks_as": "blocks"}
	for _, c := range []struct {
		on   *Table
		want string
	}{
		{table.For(Group{Device: "NVIDIA H200", PerDevice: 8, Knobs: processes}), "lamport#4"},
		{table.For(Group{Device: "NVIDIA H100", PerDevice: 8, Knobs: processes}), "one-stage"},
		{table.For(Group{Device: "NVIDIA H200", PerDevice: 1, Knobs: processes}), "one-stage"},
		{table.For(Group{Device: "NVIDIA H200", PerDevice: 8, Knobs: blocks}), "one-stage"},
		{table.For(Group{Device: "NVIDIA H200", PerDevice: 8, Knobs: nil}), "one-stage"},
		{table.For(Group{Device: "", PerDevice: 0, Knobs: nil}), "one-stage"}, {table, "one-stage"},
	} {
		e := c.on.Choose("cuda", schedule.AllReduce, 8, dtype.BF16, 8192, true)
		if got := e.Choice().String(); got != c.want {
			t.Errorf("auto takes %s, want %s", got, c.want)
		}
	}
}

func TestParseChoice(t *testing.T) {
	for name, want := range map[string]Choice{
		"one-stage":         {Algorithm: "one-stage"},
		"one-stage#16":      {Algorithm: "one-stage", Blocks: 16},
		"steps:tree@1":      {Algorithm: "tree", Steps: true, ChunkBytes: 1},
		"ring@100":          {Algorithm: "ring", ChunkBytes: 100},
		"ring@64Ki":         {Algorithm: "ring", ChunkBytes: 1 << 16},
		"steps:ring@3Mi#4":  {Algorithm: "ring", Steps: true, ChunkBytes: 3 << 20, Blocks: 4},
		"":                  {},
		"an-unknown-method": {Algorithm: "an-unknown-method"},
	} {
		if got, err := ParseChoice(name); err != nil || got != want || got.String() != name {
			t.Errorf("%s is read as %+v and written as %s, %v", name, got, got, err)
		}
	}
	for _, bad := range []string{"one-stage#", "one-stage#0", "one-stage#-1", "one-stage#x", "one-stage#4#4",
		"one-stage#4@64K", "ring@", "ring@0", "ring@x"} {
		if _, err := ParseChoice(bad); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

// FuzzTuning checks that any text is a table or an error, and never panics.
func FuzzTuning(f *testing.F) {
	f.Add([]byte(`{"entries": [{"algorithm": "ring", "op": "allreduce"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		table, err := Parse(text)
		if err != nil {
			return
		}
		table.Choose("cpu", schedule.AllReduce, 2, dtype.F32, 8, true)
		for _, e := range table.Entries() { // an entry applies to the fewest ranks and bytes that it names
			one := Table{entries: []Entry{e}, group: Group{e.Host, e.Device, e.PerDevice, e.Knobs}}
			d := dtype.F32
			if len(e.DTypes) > 0 {
				d = e.DTypes[0]
			}
			got := one.Choose(e.Backend, e.Op, e.MinRanks, d, e.MinBytes, e.Buffers == "symmetric")
			if got.Algorithm != e.Algorithm {
				t.Errorf("%s: the entry %+v applies to nothing", text, e)
			}
		}
	})
}
