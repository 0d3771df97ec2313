package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// Launcher starts the ranks of a launch through another program: Open MPI's mpirun, MPICH's mpiexec or
// srun. That program may put ranks on other hosts, so workers connect to the supervisor over TCP.
type Launcher struct {
	// Interface is the network interface between the ranks, "" if unspecified.
	Interface string

	argv []string // the program and the user's flags for it
	kind jobenv.Launcher
	addr string // at which ranks reach this host
	name string // job name for srun, by which recall finds the job
}

// versionLimit bounds the query of a launcher's version.
const versionLimit = 10 * time.Second

// NewLauncher returns the launcher for a command such as "mpirun --hostfile hosts". addr is the address
// at which its ranks reach this host.
func NewLauncher(ctx context.Context, command, addr string) (*Launcher, error) {
	argv, err := launch.ParseCommand(command)
	if err == nil && len(argv) == 0 {
		err = errors.New("want a command, such as mpirun or srun")
	}
	if err != nil {
		return nil, fmt.Errorf("launcher %q: %w", command, err)
	}
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	// Several programs with different flags are called mpirun or mpiexec.
	version, err := exec.CommandContext(ctx, argv[0], "--version").CombinedOutput()
	if err != nil && ctx.Err() != nil { // do not say "not a launcher": the machine may be busy
		return nil, fmt.Errorf("launcher %s: it did not answer --version within %v: %w", argv[0], versionLimit, ctx.Err())
	}
	var failed *exec.ExitError
	if errors.As(err, &failed) { // torchrun has no --version
		return nil, fmt.Errorf("launcher %s: %w", argv[0], notALauncher(fmt.Sprintf("its --version fails (%v)", err)))
	}
	if err != nil {
		return nil, fmt.Errorf("launcher %s: asking its version: %w", argv[0], err)
	}
	kind, err := launcherKind(string(version))
	if err != nil {
		return nil, fmt.Errorf("launcher %s: %w", argv[0], err)
	}
	return &Launcher{argv: argv, kind: kind, addr: addr, name: "kernbench-" + rand.Text()}, nil
}

// launcherKind recognizes a launcher by the output of its --version.
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
	return "", notALauncher(fmt.Sprintf("its --version prints %q", first))
}

// notALauncher returns the error for a program that --launcher cannot use.
func notALauncher(evidence string) error {
	return fmt.Errorf("%s, so it is not Open MPI's mpirun, MPICH's mpiexec or srun; under another launcher, "+
		"such as torchrun, start kernbench as the program of its ranks", evidence)
}

// Name returns the launcher's program name, for the record.
func (l *Launcher) Name() string { return filepath.Base(l.argv[0]) }

// command returns the command line that starts the ranks of a program. Open MPI exports only the
// named variables to other hosts; the other launchers export all.
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

// recall returns a command that ends the ranks after their launcher was killed or has failed to end
// them. Only Slurm's ranks outlive their launcher: as a job of that name, or as a step of that name in
// the user's own job. For other launchers it returns nil.
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

// self returns the command by which a launcher starts this program again. The path must be the same
// on every host.
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

// launcherEndTimeout bounds the wait for a launcher that is ending all its ranks.
const launcherEndTimeout = 20 * time.Second

// handleDisconnect returns the failure of a rank that another launcher started. The supervisor learns of
// the rank's end only from its connection. The launcher itself ends a moment later, or not at all: some
// launchers let the other ranks continue.
func (w *workerGroup) handleDisconnect(e worker.Event) *failure {
	if !e.Closed || w.launcher == nil {
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
			w.updateRank(e)
			if e.Closed {
				limit.Reset(launcherEndTimeout) // the launcher is ending all ranks
			}
		case e, open := <-w.events:
			x, is := e.(launch.Exit)
			switch {
			case is && (x.Stopped || x.Signal != 0):
				return w.processEvent(x)
			case is:
				how := fmt.Sprintf("%s ended with %s", w.launcher.Name(), x.How())
				if message := slurmCancel(w.lastOutput(nil)); message != "" { // no rank is to blame
					f.rank, f.reason = nil, how+": "+message
				} else {
					f.reason += "; " + how
				}
				return f
			case !open: // neither the rank nor the launcher is to blame
				return w.processEvent(nil)
			}
		case <-limit.C:
			return w.preferLaunchFailure(f)
		}
	}
}

// launcherDied returns the failure for a launcher that has ended together with its ranks. If a rank
// disconnected first, that rank is blamed.
func (w *workerGroup) launcherDied(x *launch.Exit) *failure {
	f := &failure{status: journal.Failed, phase: "start", reason: w.launcher.Name() + " ended with " + x.How()}
	if x.Signal != 0 { // it was killed, and its ranks follow
		f.phase = w.ranks[0].phase
		return f
	}
	if message := slurmCancel(w.lastOutput(nil)); message != "" {
		f.phase, f.reason = w.ranks[0].phase, f.reason+": "+message
		return f
	}
	limit := time.After(drainLimit)
	for {
		if rank := w.hub.FirstDisconnected(); rank >= 0 {
			w.drain(rank)
			f.rank, f.phase = &rank, w.ranks[rank].phase
			return f
		}
		if !w.anyJoined() {
			w.addLauncherOutput(f)
			return f
		}
		select {
		case e := <-w.hub.Events():
			w.updateRank(e)
		case <-limit:
			return f
		}
	}
}

func (w *workerGroup) anyJoined() bool {
	return slices.ContainsFunc(w.ranks, func(s rankState) bool { return s.joined })
}

// addLauncherOutput adds the launcher's message to a failure. It usually explains why no rank has connected.
func (w *workerGroup) addLauncherOutput(f *failure) {
	if message := firstTextLine(w.lastOutput(nil)); message != "" {
		f.reason += ": " + message
	}
}

var (
	slurmCancelled = regexp.MustCompile(`\*\*\* ((?:JOB|STEP) \S+ ON \S+ CANCELLED .*?) \*\*\*`)
	slurmAborted   = regexp.MustCompile(`^srun: (Job step aborted)\b`)
	slurmTaskEnded = regexp.MustCompile(`^srun: error: \S+: tasks? \d`)
)

// slurmCancel returns Slurm's message that the job or step was cancelled: by scancel, a time limit or a
// job of higher priority. It returns "" if a rank ended first.
//
// In both cases Slurm says that the step was cancelled, because srun --kill-on-bad-exit cancels the step after
// the end of a rank. The lines come from several processes, in any order. But srun says that the job step was
// aborted only if somebody else cancelled it.
func slurmCancel(output string) string {
	var message string
	taskEnded, aborted := false, false
	for line := range strings.Lines(output) {
		if m := slurmCancelled.FindStringSubmatch(line); m != nil && message == "" {
			message = m[1]
			aborted = aborted || !taskEnded
		}
		aborted = aborted || slurmAborted.MatchString(line)
		taskEnded = taskEnded || slurmTaskEnded.MatchString(line)
	}
	switch {
	case !aborted:
		return ""
	case message == "":
		return "Job step aborted"
	}
	return message
}

// firstTextLine returns the first line that contains letters. It skips the lines of dashes that
// launchers print around their messages.
func firstTextLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.ContainsFunc(line, unicode.IsLetter) {
			return line
		}
	}
	return ""
}

// guardedLaunch is a launch of a program through a launcher. The launcher starts a guard for each rank,
// and the guard starts the rank. This process is to the guards what rank 0 of a job is to rank hosts.
type guardedLaunch struct {
	*rankhost.Launch
	leader *rankhost.Leader
	outer  *launch.Launch // the process of the launcher
	via    *Launcher
}

// abortGrace is how long a rank that has called MPI_Abort may take to end by itself, after the launcher
// has begun to end the others. The launcher kills them one second after it has asked them to end.
const abortGrace = 300 * time.Millisecond

// startGuarded starts a program through the launcher. The launcher starts one guard per rank (this
// program again), the guards connect to this process, and each guard then starts its rank of the
// program. If the launcher ends before all guards have connected, the start fails.
func (s *runSlot) startGuarded(ctx context.Context, g *plan.Group, p processSpec) (*guardedLaunch, error) {
	via := s.opts.Launcher
	self, err := via.self()
	if err != nil {
		return nil, err
	}
	guards, err := rankhost.ListenGuards(ctx, via.addr, s.opts.Ports, g.Ranks, cmp.Or(s.opts.JoinTimeout, StartLimit))
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
		launch.Spec{Procs: procs, Grace: s.opts.Grace, ForwardSignals: p.passOn, RemoteLauncher: true,
			RecallCommand: via.recall()})
	if err != nil {
		return nil, err
	}
	gathering, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // stop waiting for guards when the launcher has ended
		outer.Wait()
		cancel(errors.New(via.Name() + " has ended"))
	}()
	leader, err := guards.Gather(gathering)
	if err != nil {
		outer.Stop(launch.StopRequest{Reason: err.Error()})
		out, _ := outer.Wait()
		if x := out.Failed(); x != nil {
			err = fmt.Errorf("%s ended with %s: %s", via.Name(), x.How(),
				firstTextLine(string(x.Stderr.Tail)+"\n"+string(x.Stdout.Tail)))
		}
		return nil, err
	}
	port, err := s.opts.Ports.FreePort("127.0.0.1") // presumably also free on the host of rank 0
	var l *rankhost.Launch
	if err == nil {
		// The rank belongs to the launcher's own job. It gets torchrun's variables in addition to the
		// launcher's.
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
	return &guardedLaunch{l, leader, outer, via}, nil
}

// endAborted stops the program when its launcher ends the ranks, for example because one of them has
// called MPI_Abort.
func endAborted(l *rankhost.Launch, leader *rankhost.Leader, via *Launcher) {
	ended := make(chan struct{})
	go func() { l.Wait(); close(ended) }()
	select {
	case <-leader.Interrupted():
	case <-ended:
		return
	}
	select {
	case <-time.After(abortGrace):
		l.Stop(launch.StopRequest{Reason: via.Name() + " ended the job"})
	case <-ended:
	}
}

// Wait returns when the program's ranks, the guards and the launcher have ended.
func (g *guardedLaunch) Wait() (launch.Outcome, error) {
	out, err := g.Launch.Wait()
	g.leader.Close()
	end := func() { g.outer.Stop(launch.StopRequest{Reason: "its ranks have ended"}) }
	timer := time.AfterFunc(launcherEndTimeout, end)
	defer timer.Stop()
	outer, outerErr := g.outer.Wait()
	if outerErr != nil {
		return out, outerErr
	}
	x := outer.Failed()
	if x == nil || err == nil && out.Failed() == nil && out.Reason == "" {
		return out, err
	}
	// If the launcher is killed or its job is cancelled, all guards end, and the first one that is missed looks like the
	// cause. Blame the launcher instead.
	if message := slurmCancel(string(x.Stderr.Tail)); message != "" {
		err = fmt.Errorf("%s ended with %s: %s", g.via.Name(), x.How(), message)
	} else if err != nil && x.Signal != 0 {
		err = fmt.Errorf("%s ended with %s", g.via.Name(), x.How())
	}
	return out, err
}
