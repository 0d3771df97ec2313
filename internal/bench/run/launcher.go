package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/process/rankhost"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Launcher starts the ranks of a launch through another program, which may put
// them on other hosts: Open MPI's mpirun, MPICH's mpiexec, or srun. Workers then
// reach the supervisor over TCP.
type Launcher struct {
	// Interface is the network between the ranks, "" if nobody chose one.
	Interface string

	argv []string // the program and the user's own flags for it
	kind jobenv.Launcher
	addr string
	name string // of srun's jobs
}

// versionLimit bounds a launcher that is only asked what it is.
const versionLimit = 10 * time.Second

// NewLauncher takes the start of the launcher's command line, such as
// "mpirun --hostfile hosts", and the address at which its ranks reach this host.
func NewLauncher(ctx context.Context, command, addr string) (*Launcher, error) {
	argv := strings.Fields(command)
	if len(argv) == 0 {
		return nil, fmt.Errorf("launcher %q: want a command, such as mpirun or srun", command)
	}
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	// Several programs go by the name of mpirun and mpiexec, with flags of their own.
	said, err := exec.CommandContext(ctx, argv[0], "--version").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("launcher %s: asking its version: %w", argv[0], err)
	}
	kind, err := launcherKind(string(said))
	if err != nil {
		return nil, fmt.Errorf("launcher %s: %w", argv[0], err)
	}
	return &Launcher{argv: argv, kind: kind, addr: addr, name: "kernbench-" + rand.Text()}, nil
}

func launcherKind(version string) (jobenv.Launcher, error) {
	first, _, _ := strings.Cut(strings.TrimSpace(version), "\n")
	switch {
	case strings.Contains(version, "Open MPI"), strings.Contains(version, "OpenRTE"):
		return jobenv.OpenMPI, nil
	case strings.Contains(version, "HYDRA"):
		return jobenv.Hydra, nil
	case strings.HasPrefix(first, "slurm"):
		return jobenv.Srun, nil
	}
	return "", fmt.Errorf("%q is neither Open MPI, nor MPICH's Hydra, nor Slurm", first)
}

// Name is the launcher's program, for the record.
func (l *Launcher) Name() string { return filepath.Base(l.argv[0]) }

// command is the line that starts the ranks of a program. Open MPI takes only
// the named variables to other hosts, the others take all.
func (l *Launcher) command(ranks int, program []string, export []string) []string {
	line := slices.Clone(l.argv)
	switch l.kind {
	case jobenv.OpenMPI:
		line = append(line, "-n", fmt.Sprint(ranks))
		for _, name := range export {
			line = append(line, "-x", name)
		}
	case jobenv.Hydra:
		line = append(line, "-n", fmt.Sprint(ranks))
	case jobenv.Srun:
		line = append(line, fmt.Sprintf("--ntasks=%d", ranks), "--export=ALL", "--kill-on-bad-exit=1", "--job-name="+l.name)
	}
	return append(line, program...)
}

// recall ends ranks whose launcher was killed, or did not end them when asked. Slurm's live on without their srun: as a
// job of the name, or as a step of it in the user's own job. Those of the others end by themselves.
func (l *Launcher) recall() []string {
	if l == nil || l.kind != jobenv.Srun {
		return nil
	}
	const script = `scancel --quiet --name="$1"
squeue --noheader --steps --format="%i %j" | while read -r id name; do
	[ "$name" != "$1" ] || scancel --quiet "$id"
done`
	return []string{"/bin/sh", "-c", script, "recall", l.name}
}

// self is how a launcher starts this program again: by its path, which must be
// the same on every host.
func (l *Launcher) self() ([]string, error) {
	if l == nil {
		return []string{"/proc/self/exe"}, nil // the running program, even when its file has been replaced since
	}
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program's file: %w", err)
	}
	return []string{path}, nil
}

// launcherEnds bounds the wait for a launcher that is ending all its ranks.
const launcherEnds = 20 * time.Second

// lost is the failure of a rank that another launcher started: its end is known
// only by that of its connection. The launcher's own end comes a moment later, if
// at all: some let the other ranks run on.
func (w *workerGroup) lost(e worker.Event) *failure {
	if !e.Closed || w.via == nil {
		return nil
	}
	rank := e.Rank
	if first := w.hub.FirstDisconnected(); first >= 0 {
		rank = first
		w.drain(rank)
	}
	f := &failure{status: journal.Failed, rank: &rank, phase: w.ranks[rank].phase, reason: "the worker ended"}
	limit := time.NewTimer(drainLimit)
	defer limit.Stop()
	for {
		select {
		case e := <-w.hub.Events():
			w.note(e)
			if e.Closed {
				limit.Reset(launcherEnds) // all are being ended
			}
		case e, open := <-w.events:
			x, is := e.(launch.Exit)
			switch {
			case is && (x.Stopped || x.Signal != 0):
				return w.processEvent(x)
			case is:
				f.reason += fmt.Sprintf("; %s ended with %s", w.via.Name(), x.How())
				return f
			case !open: // neither the rank nor the launcher is to blame
				return w.processEvent(nil)
			}
		case <-limit.C:
			return w.unlessDoomed(f)
		}
	}
}

// launcherDied is the failure of a launcher that ended, and all its ranks with
// it. A rank whose connection ended before may be the cause.
func (w *workerGroup) launcherDied(x *launch.Exit) *failure {
	f := &failure{status: journal.Failed, phase: "start", reason: w.via.Name() + " ended with " + x.How()}
	if x.Signal != 0 { // it was killed, and its ranks follow
		f.phase = w.ranks[0].phase
		return f
	}
	limit := time.After(drainLimit)
	for {
		if rank := w.hub.FirstDisconnected(); rank >= 0 {
			w.drain(rank)
			f.rank, f.phase = &rank, w.ranks[rank].phase
			return f
		}
		if !slices.ContainsFunc(w.ranks, func(s rankState) bool { return s.joined }) {
			// None connected: the launcher itself will have said why.
			if said := firstSentence(w.lastOutput(nil)); said != "" {
				f.reason += ": " + said
			}
			return f
		}
		select {
		case e := <-w.hub.Events():
			w.note(e)
		case <-limit:
			return f
		}
	}
}

// firstSentence is the first line of a text that has words in it, without the
// rules that launchers draw around what they say.
func firstSentence(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.ContainsFunc(line, unicode.IsLetter) {
			return line
		}
	}
	return ""
}

// guarded is a launch of a program whose ranks a launcher has started, each below a
// guard: to this process they are what rank hosts are to the rank 0 of a job.
type guarded struct {
	*rankhost.Launch
	leader *rankhost.Leader
	outer  *launch.Launch // the launcher itself
	via    *Launcher
}

// abortLimit is how long a rank may take to end by itself when the launcher, told by
// that rank, ends the others. The launcher kills a second after it has asked.
const abortLimit = 300 * time.Millisecond

func (s *runSlot) startGuarded(ctx context.Context, g *plan.Group, p processSpec) (*guarded, error) {
	via := s.opts.Launcher
	self, err := via.self()
	if err != nil {
		return nil, err
	}
	guards, err := rankhost.ListenGuards(ctx, via.addr, s.opts.Ports, g.Ranks, startLimit)
	if err != nil {
		return nil, err
	}
	defer guards.Close()
	procs, err := s.processes(g, processSpec{logs: p.logs, argv: self, dir: p.dir, extra: guards.Vars()})
	if err != nil {
		return nil, err
	}
	procs[0].Stdout, procs[0].Stderr = filepath.Join(p.logs, "launcher.out"), filepath.Join(p.logs, "launcher.err")
	outer, err := s.agent.Launch(ctx,
		launch.Spec{Procs: procs, Grace: s.opts.Grace, ForwardSignals: p.passOn, RemoteLauncher: true, RecallCommand: via.recall()})
	if err != nil {
		return nil, err
	}
	gathering, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // what has ended will bring no guards
		outer.Wait()
		cancel(errors.New(via.Name() + " has ended"))
	}()
	leader, err := guards.Gather(gathering)
	if err != nil {
		outer.Stop(launch.StopRequest{Reason: err.Error()})
		out, _ := outer.Wait()
		if x := out.Failed(); x != nil {
			err = fmt.Errorf("%s ended with %s: %s", via.Name(), x.How(),
				firstSentence(string(x.Stderr.Tail)+"\n"+string(x.Stdout.Tail)))
		}
		return nil, err
	}
	port, err := s.opts.Ports.FreePort("127.0.0.1") // and, one hopes, where rank 0 is
	var l *rankhost.Launch
	if err == nil {
		// A rank of the launcher's own job, with torchrun's variables besides the launcher's.
		proc := rankhost.Proc{Argv: p.argv, Env: variables(g, p.extra), Native: true,
			Vars: launch.RankVars{WorldSize: g.Ranks, MasterAddr: leader.FirstRankAddr(), MasterPort: port}}
		rankhost.RemoveGuardVars(proc.Env)
		l, err = leader.Launch(ctx, p.hosted(g.Ranks, s.opts.Grace, proc))
	}
	if err != nil {
		leader.Close()
		outer.Stop(launch.StopRequest{Reason: err.Error()})
		outer.Wait()
		return nil, err
	}
	go endAborted(l, leader, via)
	return &guarded{l, leader, outer, via}, nil
}

// endAborted ends a program whose launcher ends its ranks, because one has called
// MPI_Abort, say.
func endAborted(l *rankhost.Launch, leader *rankhost.Leader, via *Launcher) {
	over := make(chan struct{})
	go func() { l.Wait(); close(over) }()
	select {
	case <-leader.Interrupted():
	case <-over:
		return
	}
	select {
	case <-time.After(abortLimit):
		l.Stop(launch.StopRequest{Reason: via.Name() + " ended the job"})
	case <-over:
	}
}

// Wait returns when the program's ranks, the guards and the launcher have ended.
func (g *guarded) Wait() (launch.Outcome, error) {
	out, err := g.Launch.Wait()
	g.leader.Close()
	late := time.AfterFunc(launcherEnds, func() { g.outer.Stop(launch.StopRequest{Reason: "its ranks have ended"}) })
	defer late.Stop()
	outer, outerErr := g.outer.Wait()
	if outerErr != nil {
		return out, outerErr
	}
	// Killed, it takes the guards with it, of which one is missed first.
	if x := outer.Failed(); err != nil && x != nil && x.Signal != 0 {
		err = fmt.Errorf("%s ended with %s", g.via.Name(), x.How())
	}
	return out, err
}
