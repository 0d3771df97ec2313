package run

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// processes describes one process per rank, or a single one for a program that
// starts its own ranks, for a launcher that starts them or for a backend that has
// them all in one process: argv, exactly the planned environment, logs, cores.
func (r *runner) processes(g *plan.Group, s spawn) ([]launch.Proc, error) {
	set := variables(g, s.extra)
	if via := r.opts.Launcher; via != nil && g.Ranks > 0 {
		var export []string
		for name, value := range set {
			if value != nil {
				export = append(export, name)
			}
		}
		slices.Sort(export)
		return []launch.Proc{{
			Argv: via.command(g.Ranks, s.argv, export), Dir: s.dir, Env: launch.Environ(r.opts.Environ, set, nil),
			Stdout: filepath.Join(s.logs, "rank0.out"), Stderr: filepath.Join(s.logs, "rank0.err"), ExtraFiles: s.files,
		}}, nil
	}
	ranks := r.plan.Processes(g)
	port := 0
	if g.Ranks > 0 {
		var err error
		if port, err = launch.FreePort(); err != nil {
			return nil, err
		}
	}
	shares := cores.Share(cores.Allowed(), ranks, g.Threads, g.Bind)
	procs := make([]launch.Proc, ranks)
	for rank := range procs {
		var vars *launch.RankVars
		if g.Ranks > 0 {
			vars = &launch.RankVars{Rank: rank, WorldSize: ranks, LocalRank: rank, LocalWorldSize: ranks, MasterPort: port}
		}
		procs[rank] = launch.Proc{
			Rank: rank, Argv: s.argv, Dir: s.dir, ExtraFiles: s.files,
			Env:    launch.Environ(r.opts.Environ, set, vars),
			Stdout: filepath.Join(s.logs, fmt.Sprintf("rank%d.out", rank)),
			Stderr: filepath.Join(s.logs, fmt.Sprintf("rank%d.err", rank)),
		}
		if shares != nil {
			procs[rank].CPUs = shares[rank]
		}
	}
	return procs, nil
}

// variables are what a group's processes get besides what they inherit; nil is a
// variable to remove.
func variables(g *plan.Group, extra map[string]string) map[string]*string {
	set := make(map[string]*string, len(g.Env)+len(extra))
	if g.Threads > 0 {
		n := fmt.Sprint(g.Threads)
		for _, name := range cores.ThreadVars {
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
	return set
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
