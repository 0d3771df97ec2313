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
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/culprit"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/process/rankhost"
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
	switch {
	case err != nil:
		return nil, fmt.Errorf("--launcher: %w", err)
	case len(argv) == 0:
		return nil, errors.New("--launcher is empty: leave it out, or give auto, local, join, mpirun, mpiexec or srun")
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return nil, fmt.Errorf("--launcher %s: no such program: want auto, local, join, or mpirun, mpiexec or srun with its "+
			"own flags", argv[0])
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
	if l.kind != jobenv.Srun {
		return nil
	}
	const script = `scancel --quiet --name="$1"
squeue --noheader --steps --format="%i %j" | while read -r id name; do
	[ "$name" != "$1" ] || scancel --quiet "$id"
done`
	return []string{"/bin/sh", "-c", script, "recall", l.name}
}

// launcherEndTimeout bounds the wait for a launcher that is ending all its ranks.
const launcherEndTimeout = 20 * time.Second

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

// guardedLaunch is a launch through a launcher. The launcher starts a guard for each rank, and the guard starts the
// rank. This process is to the guards what rank 0 of a job is to rank hosts.
type guardedLaunch struct {
	*rankhost.Launch
	leader *rankhost.Leader
	outer  *launch.Launch  // the process of the launcher
	over   context.Context // ends when the launcher has ended
	via    *Launcher
	logs   string
}

// abortGrace is how long a rank that has called MPI_Abort may take to end by itself, after the launcher
// has begun to end the others. The launcher kills them one second after it has asked them to end.
const abortGrace = 300 * time.Millisecond

// startGuarded starts ranks through the launcher. The launcher starts one guard per rank (this program again), the
// guards connect to this process, and each guard then starts its rank. If the launcher ends before all guards have
// connected, the start fails.
func (s *runSlot) startGuarded(ctx context.Context, g *plan.Group, p processSpec,
	spec launch.Spec) (*guardedLaunch, error) {
	via := s.opts.Launcher
	self, err := os.Executable() // the path must be the same on every host
	if err != nil {
		return nil, fmt.Errorf("finding this program's file: %w", err)
	}
	limit := cmp.Or(s.opts.JoinTimeout, StartLimit)
	leader, guardVars, err := rankhost.LeadGuards(ctx, via.addr, s.opts.Ports, g.Ranks, limit, s.opts.AllowOtherBuild)
	if err != nil {
		return nil, err
	}
	guard := processSpec{logs: p.logs, argv: []string{self}, dir: p.dir, extra: guardVars}
	outer, err := s.agent.Launch(ctx, launch.Spec{
		Procs: []launch.Proc{s.launcherProc(g, guard)}, Environ: s.opts.Environ,
		Grace: s.opts.Grace, ForwardSignals: p.passOn, RemoteLauncher: true, RecallCommand: via.recall()})
	if err != nil {
		leader.Close()
		return nil, err
	}
	over, end := context.WithCancelCause(ctx)
	go func() {
		for e := range outer.Events() {
			if _, is := e.(launch.Exit); is { // before the processes that it leaves behind
				break
			}
		}
		end(errors.New(via.Name() + " has ended"))
	}()
	if err := leader.Gather(over); err != nil {
		return nil, via.startError(outer, p.logs, limit, err)
	}
	for rank := range spec.Procs {
		spec.Procs[rank].Dir = "" // the guards are there
	}
	l, err := leader.Launch(ctx, spec)
	if err != nil {
		leader.Close()
		outer.Stop(launch.StopRequest{Reason: err.Error()})
		outer.Wait()
		return nil, err
	}
	go endAborted(l, leader, via)
	return &guardedLaunch{l, leader, outer, over, via, p.logs}, nil
}

// startError ends a launcher that has not started all guards, and returns the reason. The launcher's own message
// usually explains it.
func (l *Launcher) startError(outer *launch.Launch, logs string, limit time.Duration, err error) error {
	outer.Stop(launch.StopRequest{Reason: err.Error()})
	out, _ := outer.Wait()
	missing, late := errors.AsType[*rankhost.MissingError](err)
	if x := out.Failed(); x != nil {
		err = fmt.Errorf("%s ended with %s", l.Name(), x.How())
	} else if late && missing.Joined == 0 { // in a full cluster, for example, srun waits for free nodes
		missing.Text = fmt.Sprintf("%s started no rank within %v (--join-timeout)", l.Name(), limit)
	}
	if said := firstTextLine(string(tailOf(logs, launcherErr)) + "\n" + string(tailOf(logs, launcherOut))); said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return err
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

// Ending reports whether a rank, the launcher or its agent is lost or about to be.
func (g *guardedLaunch) Ending() bool {
	return g.over.Err() != nil || g.Launch.Ending() || g.outer.Ending()
}

// Wait returns when the ranks, the guards and the launcher have ended.
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
	if err == nil && out.Failed() == nil && out.Reason == "" {
		return out, nil
	}
	if outer.Reason != "" && g.outer.Ending() { // the launcher's agent ended the launcher, the guards and the ranks
		return launch.Outcome{}, errors.New(outer.Reason)
	}
	x := outer.Failed()
	if x == nil {
		return out, err
	}
	// If the launcher ends all guards and ranks, the first one that is missed looks like the cause.
	by := culprit.Launcher{Name: g.via.Name(), End: x.How(), Signal: x.Signal, Stderr: string(tailOf(g.logs, launcherErr))}
	if v := culprit.Blame(culprit.Evidence{Launcher: &by}); v.Kind == culprit.LauncherEnded {
		return launch.Outcome{}, errors.New(v.Reason)
	}
	return out, err
}
