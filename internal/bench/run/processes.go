package run

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/culprit"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// processes describes one process per rank, or a single one for a program that
// starts its own ranks, for a launcher that starts them or for a backend that has
// them all in one process: argv, exactly the planned environment, logs, cores.
func (r *runner) processes(g *plan.Group, p processSpec) ([]launch.Proc, error) {
	set := variables(g, p.extra)
	if via := r.opts.Launcher; via != nil && g.Ranks > 0 {
		for name, value := range jobenv.Reach(via.Interface, r.opts.Ports.String()) {
			if _, planned := set[name]; !planned && jobenv.Variable(r.opts.Environ, name) == "" {
				set[name] = &value
			}
		}
		var export []string
		for name, value := range set {
			if value != nil {
				export = append(export, name)
			}
		}
		slices.Sort(export)
		return []launch.Proc{{
			Argv: via.command(g.Ranks, p.argv, export), Dir: p.dir, Env: launch.Environ(r.opts.Environ, set, nil),
			Stdout: filepath.Join(p.logs, "rank0.out"), Stderr: filepath.Join(p.logs, "rank0.err"), ExtraFiles: p.files,
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
			Rank: rank, Argv: p.argv, Dir: p.dir, ExtraFiles: p.files,
			Env:    launch.Environ(r.opts.Environ, set, vars),
			Stdout: filepath.Join(p.logs, fmt.Sprintf("rank%d.out", rank)),
			Stderr: filepath.Join(p.logs, fmt.Sprintf("rank%d.err", rank)),
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

// lastOutput is the end of what a rank printed, its errors before the rest.
func lastOutput(dir string, rank int) string {
	const most = 2000
	for _, ext := range []string{"err", "out"} {
		buf := tailOf(dir, rank, ext)
		if len(buf) == 0 {
			continue
		}
		// A Go program that crashes says why first, and then shows its stacks.
		if at := crash.FindIndex(buf); at != nil {
			return toValidText(buf[at[0]:min(at[0]+most, len(buf))])
		}
		return toValidText(buf[max(0, len(buf)-most):])
	}
	return ""
}

// tailOf is the end of one stream of a rank; nothing when it did not get as far as printing.
func tailOf(dir string, rank int, ext string) []byte {
	const look = 64 << 10
	f, err := os.Open(filepath.Join(dir, fmt.Sprintf("rank%d.%s", rank, ext)))
	if err != nil {
		return nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil
	}
	buf := make([]byte, min(st.Size(), look))
	if _, err := f.ReadAt(buf, st.Size()-int64(len(buf))); err != nil {
		return nil
	}
	return buf
}

// lastWords is the line of a rank's last output that tells most.
func lastWords(dir string, rank int) string {
	return culprit.Words(toValidText(tailOf(dir, rank, "err")), toValidText(tailOf(dir, rank, "out")))
}

// crash is how the Go runtime starts its report.
var crash = regexp.MustCompile(`(?m)^(panic|fatal error): `)

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
