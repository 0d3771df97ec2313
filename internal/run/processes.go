package run

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kernbench/kernbench/internal/cores"
	"github.com/kernbench/kernbench/internal/launch"
	"github.com/kernbench/kernbench/internal/plan"
	"github.com/kernbench/kernbench/internal/point"
)

// processes describes one process per rank, or a single one for a program that
// starts its own ranks or for a launcher that starts them: argv, exactly the
// planned environment, logs, cores.
func (r *runner) processes(g *plan.Group, logs string, argv []string, dir string, extra map[string]string) ([]launch.Proc, error) {
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
	if via := r.opts.Launcher; via != nil && g.Ranks > 0 {
		var export []string
		for name, value := range set {
			if value != nil {
				export = append(export, name)
			}
		}
		slices.Sort(export)
		return []launch.Proc{{
			Argv: via.command(g.Ranks, argv, export), Dir: dir, Env: launch.Environ(r.opts.Environ, set, nil),
			Stdout: filepath.Join(logs, "rank0.out"), Stderr: filepath.Join(logs, "rank0.err"),
		}}, nil
	}
	ranks := max(g.Ranks, 1)
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
			Rank: rank, Argv: argv, Dir: dir,
			Env:    launch.Environ(r.opts.Environ, set, vars),
			Stdout: filepath.Join(logs, fmt.Sprintf("rank%d.out", rank)),
			Stderr: filepath.Join(logs, fmt.Sprintf("rank%d.err", rank)),
		}
		if shares != nil {
			procs[rank].CPUs = shares[rank]
		}
	}
	return procs, nil
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
