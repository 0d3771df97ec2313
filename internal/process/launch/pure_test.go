package launch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// The variable that names the file of a declared library is a setting.
var _ = dynlib.Register(dynlib.Spec{Name: "of this test", Env: "KERNBENCH_TEST_LIBRARY"})

func TestEnviron(t *testing.T) {
	value := func(s string) *string { return &s }
	outer := []string{
		"RANK=9", "WORLD_SIZE=9", "LOCAL_RANK=9", "LOCAL_WORLD_SIZE=9", "GROUP_RANK=9", "GROUP_WORLD_SIZE=9", "ROLE_RANK=9",
		"ROLE_NAME=x", "NODE_RANK=9", "MASTER_ADDR=far", "MASTER_PORT=9", "TORCHELASTIC_RUN_ID=x", "OMPI_COMM_WORLD_SIZE=9",
		"OMPI_UNIVERSE_SIZE=9", "PMIX_RANK=9", "PMI_FD=9", "HYDI_CONTROL_FD=9", "MPI_LOCALRANKID=9", "MPI_LOCALNRANKS=9",
		"SLURM_PROCID=9", "SLURM_LOCALID=9", "SLURM_NODEID=9", "SLURM_STEP_ID=9", "KERNBENCH_AGENT=x", "KERNBENCH_LAUNCH=x",
	}
	kept := []string{
		"HOME=/h", "KERNBENCH_TEST_LIBRARY=/lib/x.so", "LOCAL_RANKS=3", "MY_RANK=1", "NCCL_ALGO=Ring", "OMPI_MCA_btl=self",
		"PMIX_MCA_gds=hash", "RANKS=2", "SLURM_JOB_ID=7",
	}
	tests := map[string]struct {
		base []string
		set  map[string]*string
		rank *RankVars
		want []string
	}{
		"outer launchers are removed, settings kept": {base: slices.Concat(outer, kept), want: kept},
		"nothing from nothing":                       {want: []string{}},
		"last of several wins":                       {base: []string{"A=1", "B=2", "A=3"}, want: []string{"A=3", "B=2"}},
		"values keep their equals signs":             {base: []string{"A=b=c="}, want: []string{"A=b=c="}},
		"malformed entries are dropped":              {base: []string{"A", "=B", "", "C="}, want: []string{"C="}},
		"set replaces, adds and removes": {
			base: []string{"A=1", "B=2", "C=3"}, set: map[string]*string{"A": value("x"), "B": nil, "D": value(""), "E": nil},
			want: []string{"A=x", "C=3", "D="},
		},
		"set wins over the removal": {
			base: outer, set: map[string]*string{"SLURM_PROCID": value("0")}, want: []string{"SLURM_PROCID=0"},
		},
		"rank variables win over all": {
			base: outer, set: map[string]*string{"RANK": nil, "WORLD_SIZE": value("77")},
			rank: &RankVars{Rank: 3, WorldSize: 8, LocalRank: 1, LocalWorldSize: 2, MasterPort: 29500},
			want: []string{"LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500", "RANK=3",
				"WORLD_SIZE=8"},
		},
		"another master": {
			rank: &RankVars{MasterAddr: "node0"},
			want: []string{"LOCAL_RANK=0", "LOCAL_WORLD_SIZE=0", "MASTER_ADDR=node0", "MASTER_PORT=0", "RANK=0", "WORLD_SIZE=0"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(test.base)
			if diff := cmp.Diff(test.want, Environ(test.base, test.set, test.rank)); diff != "" {
				t.Error(diff)
			}
			if !slices.Equal(before, test.base) {
				t.Error("the base was changed")
			}
		})
	}
}

// For any input, the result has one entry per name, and applying Environ again changes nothing.
func TestEnvironProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"A", "B", "RANK", "PMI_X", "PMIX_MCA_x", "KERNBENCH_X", "ROLE_X", "ü", "a b"})
		base := rapid.SliceOf(rapid.Map(rapid.SliceOfN(name, 2, 2), func(p []string) string {
			return p[0] + "=" + p[1]
		})).Draw(t, "base")
		set := rapid.MapOf(name, rapid.Ptr(rapid.String(), true)).Draw(t, "set")
		got := Environ(base, set, nil)
		seen := make(map[string]string)
		for _, entry := range got {
			key, value, _ := strings.Cut(entry, "=")
			if _, twice := seen[key]; twice {
				t.Fatalf("%s twice in %q", key, got)
			}
			seen[key] = value
		}
		for key, value := range set {
			if have, ok := seen[key]; ok != (value != nil) || ok && have != *value {
				t.Fatalf("%s is %q, %v", key, have, ok)
			}
		}
		if again := Environ(got, set, nil); !slices.Equal(again, got) {
			t.Fatalf("%q became %q", got, again)
		}
	})
}

func TestOOMKills(t *testing.T) {
	if n := parseOOMKills("pgfault 5\noom_kill 3\nnuma 7\n"); n != 3 {
		t.Errorf("%d, want 3", n)
	}
	if n := parseOOMKills("pgfault 5\n"); n != 0 {
		t.Errorf("%d, want 0", n)
	}
}

func TestGreeting(t *testing.T) {
	tests := map[string]struct {
		first reply
		good  bool
	}{
		"greeting":    {reply{Hello: true}, true},
		"no greeting": {reply{Refused: "for a reason"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a, b := connection.Pipe()
			go b.Send(test.first)
			if err := expectHello(t.Context(), a); (err == nil) != test.good {
				t.Errorf("accepted: %v, want %v (%v)", err == nil, test.good, err)
			}
		})
	}
	t.Run("silence", func(t *testing.T) {
		a, _ := connection.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := expectHello(ctx, a); err == nil {
			t.Error("silence was accepted")
		}
	})
}

func TestParseCommand(t *testing.T) {
	for text, want := range map[string][]string{
		"m2 --mca x 'a b'": {"m2", "--mca", "x", "a b"},
		`a "b 'c'" d''`:    {"a", "b 'c'", "d"},
		" \t a\nb ":        {"a", "b"},
		"'' a":             {"", "a"},
		"  ":               nil,
	} {
		if got, err := ParseCommand(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if _, err := ParseCommand(`a "b`); err == nil {
		t.Error("a quote that is not closed is accepted")
	}
}

// The variables and the descriptor of the launcher reach a native process.
func TestNative(t *testing.T) {
	file := must.Get(os.Create(filepath.Join(t.TempDir(), "pmi")))(t)
	defer file.Close()
	base := []string{fmt.Sprintf("PMI_FD=%d", file.Fd()), "A=1", "B=1"}
	three := "3"
	p := Proc{Argv: []string{"x"}, Env: EnvOverrides{"B": nil, "C": &three}, Native: true, Files: []string{file.Name()}}
	procs, files, err := (&Agent{tag: "tag"}).encode(Spec{Procs: []Proc{p}, Environ: base})
	must.Do(t, err)
	if got := strings.Join(procs[0].Env, " "); got != "A=1 C=3 KERNBENCH_LAUNCH=tag PMI_FD=4" || len(files) != 2 {
		t.Errorf("%s, %d files", got, len(files))
	}
	if ours, theirs := must.Get(file.Stat())(t), must.Get(files[1].Stat())(t); !os.SameFile(ours, theirs) {
		t.Error("another file than the launcher's")
	}
}
