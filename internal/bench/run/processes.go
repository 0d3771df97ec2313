package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/sweep"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/culprit"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The logs of a launcher.
const launcherOut, launcherErr = "launcher.out", "launcher.err"

// launcherProc describes the process of a launcher, which starts a program as the ranks of the group.
func (r *runner) launcherProc(g *plan.Group, p processSpec) launch.Proc {
	via, set := r.opts.Launcher, variables(g, p.extra)
	for name, value := range jobenv.SocketVars(via.Interface, r.opts.Ports.String()) {
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
	return launch.Proc{
		Argv: via.command(g.Ranks, p.argv, export), Dir: p.dir, Env: set,
		Stdout: filepath.Join(p.logs, launcherOut), Stderr: filepath.Join(p.logs, launcherErr),
	}
}

// processes describes a launch. There is one process per rank, except for a program that starts its own ranks and a
// backend with all ranks in one process: these are a single process.
func (r *runner) processes(g *plan.Group, p processSpec) (spec launch.Spec, err error) {
	spec = launch.Spec{Environ: r.opts.Environ, ReportEnv: p.watch, StopOnFailure: p.stopOnFailure, Grace: r.opts.Grace,
		ForwardSignals: p.passOn}
	ranks := r.plan.Processes(g)
	vars := launch.RankVars{WorldSize: ranks, LocalWorldSize: ranks}
	native, ports := r.guarded(g), r.opts.Ports
	var shares [][]int
	switch {
	case r.joined(g):
		native = r.opts.Joined.Native
	case !native:
		ports = connection.PortRange{}
		shares = cores.Share(cores.Allowed(), ranks, g.Threads, g.Bind)
	}
	if g.Ranks > 0 {
		if vars.MasterPort, err = ports.FreePort("127.0.0.1"); err != nil { // presumably also free on the host of rank 0
			return spec, err
		}
	}
	// Other processes of this user on this host can open this process's descriptors.
	files := lists.Map(p.files, func(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) })
	for rank := range ranks {
		proc := launch.Proc{Rank: rank, Argv: p.argv, Dir: p.dir, Files: files, Env: variables(g, p.extra), Native: native}
		if g.Ranks > 0 {
			own := vars
			own.Rank, own.LocalRank = rank, rank
			proc.Vars = &own
		}
		proc.Stdout, proc.Stderr = logFiles(p.logs, rank)
		if shares != nil {
			proc.CPUs = shares[rank]
		}
		spec.Procs = append(spec.Procs, proc)
	}
	return spec, nil
}

// logFiles returns the paths of a rank's log files for stdout and stderr.
func logFiles(dir string, rank int) (out, err string) {
	return filepath.Join(dir, logName(rank, "out")), filepath.Join(dir, logName(rank, "err"))
}

// variables returns the changes to the inherited environment of a group's processes; nil removes a
// variable.
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

// lastOutput returns the end of a rank's stderr, or of its stdout if stderr is empty. For a crashed Go
// program it returns the beginning of the crash report.
func lastOutput(dir string, rank int) string {
	const maxBytes = 2000
	for _, ext := range []string{"err", "out"} {
		buf := tailOf(dir, logName(rank, ext))
		if len(buf) == 0 {
			continue
		}
		// A crashing Go program prints the reason first and then many stacks.
		if report := culprit.CrashReport(buf); report != nil {
			return toValidText(report[:min(maxBytes, len(report))])
		}
		return toValidText(buf[max(0, len(buf)-maxBytes):])
	}
	return ""
}

// logName returns the name of the log of one stream of a rank.
func logName(rank int, ext string) string { return fmt.Sprintf("rank%d.%s", rank, ext) }

// tailOf returns the end of a log, or nil if there is none. The program may have replaced it.
func tailOf(dir, name string) []byte {
	const maxTail = 64 << 10 // bytes
	tail, err := infile.TailBelow(dir, name, maxTail)
	if err != nil {
		return nil
	}
	return tail
}

// salientLine returns the most informative line of a rank's last output.
func salientLine(dir string, rank int) string {
	stream := func(ext string) string { return toValidText(tailOf(dir, logName(rank, ext))) }
	return culprit.SalientLine(stream("err"), stream("out"))
}

// toValidText makes program output valid for JSON and terminals.
func toValidText(b []byte) string {
	for len(b) > 0 && !utf8.RuneStart(b[0]) {
		b = b[1:] // the rest of a character that was cut off
	}
	return strings.TrimRight(strings.ToValidUTF8(string(b), "\uFFFD"), "\n")
}

func envNames(env point.Env) []string {
	return lists.Map(env, func(e point.EnvVar) string { return e.Name })
}

// withHooks runs a point's setup program, then the work, then the cleanup program. The cleanup runs
// even if the others failed or were interrupted.
func (s *runSlot) withHooks(ctx context.Context, g *plan.Group, t plan.Task,
	work func() ([]journal.Row, error)) ([]journal.Row, error) {
	cmd := g.Part.Command
	reason, seen, err := s.runHook(ctx, g, &t, "setup", cmd.Setup)
	var rows []journal.Row
	switch {
	case err != nil:
	case ctx.Err() != nil:
		err = ctx.Err()
	case reason != "":
		row := s.row(t)
		row.Status, row.Phase, row.Reason = journal.Failed, "setup", journal.Text(reason)
		rows = []journal.Row{row}
	default:
		rows, err = work()
	}
	if ctx.Err() != nil && len(cmd.Cleanup) > 0 {
		s.opts.Observe(Event{Note: "interrupted: running the cleanup program; press Ctrl-C again to skip it"})
	}
	reason, more, cleanupErr := s.runHook(context.WithoutCancel(ctx), g, &t, "cleanup", cmd.Cleanup)
	if reason != "" {
		reason = "cleanup " + reason
		more = append(more, journal.Remarkf("%s", reason))
	}
	for i := range rows {
		rows[i].Conditions.Add(slices.Concat(seen, more)...)
	}
	if len(rows) == 0 && reason != "" { // there is no row to attach the reason to
		cleanupErr = cmp.Or(cleanupErr, s.note(fmt.Sprintf("%s: %s", t.Label(), reason)))
	}
	return rows, cmp.Or(err, cleanupErr)
}

// prepare runs the prepare program of each part once and then plans the run again, since the prepare
// program may have built the program to be measured. It does so even if a resumed run may have nothing
// left to do, because only then is it known whether the program has changed. It returns warnings about
// processes that a prepare program left behind.
func (r *runner) prepare(ctx context.Context) (left []journal.Condition, err error) {
	s := &runSlot{runner: r}
	defer s.close()
	done := map[*decl.Part]bool{}
	for _, g := range r.plan.Groups {
		cmd := g.Part.Command
		if cmd == nil || len(cmd.Prepare) == 0 || done[g.Part] {
			continue
		}
		done[g.Part] = true
		r.opts.Observe(Event{Note: "running prepare: " + texttab.Shorten(strings.Join(cmd.Prepare, " "), 80)})
		s.nextLaunch()
		reason, more, err := s.runHook(ctx, &plan.Group{Part: g.Part}, nil, "prepare", cmd.Prepare)
		switch {
		case err != nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case reason != "":
			return nil, errors.New("prepare " + reason)
		}
		left = append(left, more...)
	}
	if len(done) == 0 {
		return nil, nil
	}
	if err := r.plan.Bench.Tracked.Refresh(); err != nil {
		return nil, fmt.Errorf("after prepare: %w", err)
	}
	if r.opts.Replan != nil {
		replanned, err := r.opts.Replan()
		if err != nil {
			return nil, fmt.Errorf("after prepare: %w", err)
		}
		r.plan = replanned
	}
	return left, nil
}

// runHook runs a setup, cleanup or prepare program once on this host, with the environment of the
// group. t is the point for the program's arguments, or nil. reason is why the program failed, or "".
func (s *runSlot) runHook(ctx context.Context, g *plan.Group, t *plan.Task, name string, argv []string) (reason string,
	seen []journal.Condition, err error) {
	if len(argv) == 0 || ctx.Err() != nil {
		return "", nil, nil
	}
	if err := s.ensureAgent(ctx); err != nil {
		return "", nil, err
	}
	logs, path, err := s.logDir()
	if err != nil {
		return "", nil, err
	}
	var at plan.Task
	if t != nil {
		at = *t
	}
	argv, err = sweep.Substitute(argv, at.Point, s.row(at).NumRanks)
	if err != nil {
		return err.Error(), nil, nil
	}
	proc := launch.Proc{Argv: argv, Dir: g.Part.Command.Dir, Env: variables(g, nil)}
	proc.Stdout, proc.Stderr = logFiles(path, 0)
	l, err := s.agent.Launch(ctx, launch.Spec{Environ: s.opts.Environ, Grace: s.opts.Grace, Procs: []launch.Proc{proc}})
	if err != nil {
		return fmt.Sprintf("%s: %v", argv[0], err), nil, nil
	}
	limit := s.timeout(g)
	watched := s.watchProgram(l, plan.Task{}, limit)
	out, err := l.Wait()
	if out.Leftovers > 0 {
		seen = append(seen, outlived(out.Leftovers, name))
	}
	switch {
	case err != nil:
		reason = err.Error()
	case watched.late > 0:
		reason = fmt.Sprintf("not finished within %v", limit)
	case out.Failed() != nil:
		reason = out.Failed().How()
	case out.Reason != "":
		reason = "it was ended: " + out.Reason
	default:
		return "", seen, nil
	}
	if line := salientLine(path, 0); line != "" {
		reason += "; its last output: " + line
	}
	return fmt.Sprintf("%s: %s; its output is in logs/%s", argv[0], reason, logs), seen, nil
}
