package run

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/launch"
	"github.com/kernbench/kernbench/internal/plan"
	"github.com/kernbench/kernbench/internal/point"
)

// processes describes one process per rank, or a single one for a program that
// starts its own ranks: argv, exactly the planned environment, logs, cores.
func (r *runner) processes(g *plan.Group, logs string, argv []string, dir string, extra map[string]string) ([]launch.Proc, error) {
	set := make(map[string]*string, len(g.Env)+len(extra))
	if g.Threads > 0 {
		n := fmt.Sprint(g.Threads)
		for _, name := range []string{"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"} {
			set[name] = &n
		}
	}
	for _, e := range g.Env {
		set[e.Name] = nil
		if e.Set {
			set[e.Name] = &e.Value
		}
	}
	for name, v := range extra {
		set[name] = &v
	}
	ranks := max(g.Ranks, 1)
	port := 0
	if g.Ranks > 0 {
		var err error
		if port, err = launch.FreePort(); err != nil {
			return nil, err
		}
	}
	cores := share(affinity(), ranks, g.Threads, g.Bind)
	procs := make([]launch.Proc, ranks)
	for rank := range procs {
		var vars *launch.RankVars
		if g.Ranks > 0 {
			vars = &launch.RankVars{Rank: rank, WorldSize: ranks, LocalRank: rank, LocalWorldSize: ranks, MasterPort: port}
		}
		procs[rank] = launch.Proc{
			Rank: rank, Argv: argv, Dir: dir,
			Env:    launch.Environ(r.opts.Environ, set, vars),
			Stdout: filepath.Join(logs, fmt.Sprintf("rank%d.out", rank)),
			Stderr: filepath.Join(logs, fmt.Sprintf("rank%d.err", rank)),
		}
		if cores != nil {
			procs[rank].CPUs = cores[rank]
		}
	}
	return procs, nil
}

// share divides the cores among the ranks. Neighbouring ranks get neighbouring
// cores; a rank never shares a core with another. When that cannot be (more
// ranks than cores), or nobody wants it, it returns nil and the kernel decides.
func share(cores []int, ranks, threads int, bind plan.Bind) [][]int {
	if bind == plan.BindNone || ranks > len(cores) || len(cores) == 0 {
		return nil
	}
	out := make([][]int, ranks)
	for i := range out {
		lo, hi := i*len(cores)/ranks, (i+1)*len(cores)/ranks
		if bind == plan.BindCore {
			hi = min(hi, lo+max(threads, 1))
		}
		out[i] = cores[lo:hi]
	}
	return out
}

// affinity lists the cores this process may use.
func affinity() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	cores := make([]int, 0, set.Count())
	for i := 0; len(cores) < set.Count(); i++ {
		if set.IsSet(i) {
			cores = append(cores, i)
		}
	}
	return cores
}

// toValidText makes program output fit for JSON and terminals.
func toValidText(b []byte) string {
	for len(b) > 0 && !utf8.RuneStart(b[0]) {
		b = b[1:] // a cut rune
	}
	return strings.TrimRight(strings.ToValidUTF8(string(b), "\uFFFD"), "\n")
}

func envNames(env point.Env) []string {
	names := make([]string, len(env))
	for i, e := range env {
		names[i] = e.Name
	}
	return names
}
