// Package node runs one node's part of a job that spans several nodes. The nodes meet at a rendezvous, which one of
// them hosts in its own process. Each node starts its ranks when the rendezvous begins a round, forwards their output
// to the console and to logs, reports to the rendezvous when they end, and ends them when any rank or node of the job
// fails. Package launch starts and kills the processes.
//
// The node that owns the address of the endpoint hosts the rendezvous, over TCP. Every node, including the host, is a
// member. A round begins when every node is ready for it. A failure on any node ends the round on all nodes, with a
// single verdict that names what failed first. Silence and closed connections are failures too. If restarts are left,
// the next round follows; otherwise the job ends. Every round has the same nodes, because the number of ranks is part
// of what a program computes or measures. A lost node ends the job.
//
// Members prove to each other that they know a shared secret, which itself is never sent, and every message is
// authenticated with a key derived from it. Nothing is encrypted, because no message is confidential.
package node

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/culprit"
	"github.com/kernbench/kernbench/internal/process/launch"
)

const (
	// DefaultGrace is the time between SIGTERM and SIGKILL, the same as torchrun's: enough to write a
	// checkpoint.
	DefaultGrace = 30 * time.Second
	// outputLimit is how long this node waits for the last output of a failed rank.
	outputLimit = 700 * time.Millisecond
	// drainLimit is how long the console may block at the end without any progress. A slow console may take longer in
	// total.
	drainLimit = 5 * time.Second
	// pollInterval is how often the ranks' states are checked.
	pollInterval = 500 * time.Millisecond
	// suspectLimit is the time after which a stopped rank is reported to the  If other ranks fail after that,
	// the stopped rank is the cause.
	suspectLimit = 2 * time.Second
)

// Spec describes the ranks that this node runs.
type Spec struct {
	Config
	Environ    []string // base of the ranks' environment
	Role       string   // torchrun's role name of the ranks
	Threads    int      // per rank; 0 leaves the choice to the program
	Bind       cores.Bind
	Cores      []int             // to bind to
	Interface  string            // network interface for the ranks' libraries; "" leaves the choice to them
	MasterAddr string            // "" for the first node's address
	MasterPort int               // 0 for a free port
	RankSecret map[string]string // variables that hold the secret shared by the ranks
	Logs       Logs
	Stdout     io.Writer
	Stderr     io.Writer
	// Warn is called for irregularities that do not end the job.
	Warn func(text string)
	// Restarting is called before another round, with the verdict that ended the previous one.
	Restarting func(Verdict)
}

// Run takes part in the job until it ends on all nodes, or on this one. It returns the failure that ended
// the job, or nil if every rank on every node ended with code 0. An error means that the job never began, or
// that this node cannot continue.
func Run(ctx context.Context, agent *launch.Agent, spec Spec) (*Failure, error) {
	m, err := meet(ctx, spec.Config)
	if err != nil {
		return nil, err
	}
	defer m.leave()
	n := &node{spec: spec, agent: agent, member: m, console: &console{out: [2]io.Writer{spec.Stdout, spec.Stderr}}}
	for {
		if err := m.ready(); err != nil {
			return nil, err
		}
		round, verdict, err := n.awaitRound(ctx)
		if err != nil {
			return nil, err
		}
		if round != nil {
			verdict = n.run(ctx, round)
		}
		switch {
		case verdict == nil:
			return nil, nil
		case verdict.Restarts == 0:
			return &verdict.Failure, nil
		}
		spec.Restarting(*verdict)
	}
}

type node struct {
	spec    Spec
	agent   *launch.Agent
	member  *member
	console *console
	// sharedHosts is the last warning about hosts that run several nodes.
	sharedHosts string

	// State of the current round.
	attempt        int
	errorDir       string         // for the ranks' error files
	taps           map[int][]*tap // by rank
	pids           map[int]int
	stopped        map[int]time.Duration // how long a rank has been stopped
	exitedRanks    int                   // ranks that ended with code 0
	failed         *Failure              // first failure on this node
	begun          time.Time
	pause          connection.Pause // of this process
	pendingReports sync.WaitGroup
}

// awaitRound waits for the next round to begin. If another node gives up meanwhile, it returns the
// verdict instead.
func (n *node) awaitRound(ctx context.Context) (*Round, *Verdict, error) {
	for {
		select {
		case e := <-n.member.events:
			switch {
			case e.Start != nil:
				return e.Start, nil, nil
			case e.Stop != nil: // another node gave up between two rounds
				return nil, e.Stop, nil
			case e.Refused != "":
				return nil, nil, fmt.Errorf("joining: %s", e.Refused)
			case e.Lost != "":
				return nil, nil, fmt.Errorf("joining: the rendezvous was lost: %s", e.Lost)
			}
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// run runs one round on this node. On return none of its processes is left.
func (n *node) run(ctx context.Context, round *Round) *Verdict {
	n.attempt, n.pids, n.stopped, n.exitedRanks, n.failed = round.Attempt, map[int]int{}, map[int]time.Duration{}, 0, nil
	n.begun = time.Now()
	n.pause = connection.Pause{Limit: n.spec.Heartbeat, Waited: connection.OwnDelay}
	if twice := round.sharedHosts(); twice != "" && round.Node == 0 && twice != n.sharedHosts {
		n.sharedHosts = twice
		n.spec.Warn(twice + ": their ranks share its cores")
	}
	remove, err := n.makeErrorFiles(round.Attempt)
	defer remove()
	var l *launch.Launch
	if err == nil {
		l, err = n.start(ctx, round)
	}
	if err != nil {
		n.report(Failure{Rank: noRank, Code: 1,
			Cause: "could not start its ranks: " + launch.WithLimit(err).Error()})
	}
	verdict := n.watch(ctx, round, l)
	if l != nil {
		if verdict != nil {
			l.Stop(launch.StopRequest{Reason: verdict.Failure.String()})
		}
		l.Wait()
	}
	n.pendingReports.Wait() // a late report must not arrive in the next round
	drain(slices.Concat(slices.Collect(maps.Values(n.taps))...))
	return verdict
}

// start launches the ranks. The end of ctx does not stop the launch directly: an interrupt is first
// reported to the rendezvous, which ends the round on all nodes.
func (n *node) start(ctx context.Context, round *Round) (*launch.Launch, error) {
	procs, err := n.processes(round)
	if err != nil {
		n.taps = nil
		return nil, err
	}
	// The output is not limited here, so the agent does not limit it either.
	spec := launch.Spec{Procs: procs, Environ: n.spec.Environ, Grace: n.spec.Grace, LogLimit: 1 << 62,
		ForwardSignals: launch.UserSignals}
	if len(round.Hosts) > 1 {
		// The other nodes consider a silent node dead, so its ranks must end too. But they must not end before the
		// other nodes give this one up, because their end would then look like the cause. On a single node, a
		// stopped launcher only means that the user has pressed Ctrl-Z.
		spec.StoppedLimit = 2 * n.spec.Heartbeat
	}
	return n.agent.Launch(context.WithoutCancel(ctx), spec)
}

// watch handles the events of the ranks and of the group until one of them ends the round. It returns
// nil if the job finished on all nodes without a failure.
func (n *node) watch(ctx context.Context, round *Round, l *launch.Launch) *Verdict {
	var events <-chan launch.Event
	if l != nil {
		events = l.Events()
	}
	look := time.NewTicker(pollInterval)
	defer look.Stop()
	interrupted := ctx.Done()
	for {
		select {
		case e := <-n.member.events:
			switch {
			case e.Stop != nil:
				return e.Stop
			case e.Finished:
				return nil
			case e.Lost != "":
				return n.cutOff(round, round.Coordinator, "was lost: "+e.Lost)
			case e.Refused != "":
				return n.cutOff(round, round.Node, e.Refused)
			}
		case e, open := <-events:
			if !open {
				events = nil
				switch out, err := l.Wait(); {
				case err != nil:
					n.report(Failure{Rank: noRank, Cause: "lost its ranks: " + err.Error(), Code: 1})
				case out.Reason != "":
					n.report(Failure{Rank: noRank, Cause: "ended its ranks: " + out.Reason, Code: 1})
				}
				continue
			}
			n.handle(round, e)
		case <-look.C:
			n.pause.Tick(time.Since(n.begun))
			n.pollRanks()
		case <-interrupted:
			interrupted = nil
			n.report(Failure{Rank: noRank, PID: os.Getpid(), Cause: "was interrupted",
				Code: interruptedCode})
		}
	}
}

// cutOff returns the verdict of a node that has lost the rendezvous. It is the first failure on this node if that was
// abrupt, otherwise the given cause at the given node. If this launcher was stopped for longer than the heartbeat
// limit, the other nodes have given it up, so it blames itself.
func (n *node) cutOff(round *Round, at int, cause string) *Verdict {
	f := Failure{Node: at, Rank: noRank, Cause: cause, Code: 1}
	if pause := n.pause.Cause(time.Since(n.begun)); pause != "" {
		f = launcherPaused(os.Getpid(), pause)
		f.Node, f.Host = round.Node, round.Hosts[round.Node]
		return &Verdict{Failure: f}
	}
	if f.Node != round.Node {
		f.Note = fmt.Sprintf("node %d (host %s) has lost the rendezvous with it", round.Node, round.Hosts[round.Node])
	}
	switch own := n.failed; {
	case own == nil:
	case blame([]Failure{*own, f}, nil) == *own:
		f = *own
		f.Node, f.Output = round.Node, lastOutput(n.taps[f.Rank])
	default: // ranks that talk to the lost node end by themselves
		f.Note = strings.TrimPrefix(fmt.Sprintf("%s, rank %d %s", f.Note, own.Rank, own.Cause), ", ")
	}
	f.Host = round.Hosts[f.Node]
	return &Verdict{Failure: f}
}

// handle records what happened to a rank.
func (n *node) handle(round *Round, e launch.Event) {
	switch e := e.(type) {
	case launch.Started:
		n.pids[e.Rank] = e.PID
	case launch.Exit:
		delete(n.pids, e.Rank)
		switch {
		case e.Stopped: // by the agent, which gives the reason at the end
		case e.Failed():
			f := Failure{Rank: e.Rank, PID: e.PID, Signal: e.Signal, Code: e.Code,
				Cause: culprit.OwnLimits().AddTo("ended with " + e.How())}
			if recorded := n.recordedError(e.Rank); recorded != "" {
				f.Cause += ": " + recorded
			}
			if e.Signal != 0 {
				f.Code = 128 + int(e.Signal) // like a shell
			}
			n.report(f)
		default:
			if n.exitedRanks++; n.exitedRanks == n.spec.Procs {
				n.member.link.Send(message{Attempt: round.Attempt, Done: true})
			}
		}
	}
}

// report reports a failure to the rendezvous at once, because the order of failures matters, and then again with the
// rank's last output. The verdict waits for the second report.
func (n *node) report(f Failure) {
	if n.failed == nil {
		first := f
		n.failed = &first
	}
	attempt, taps := n.attempt, n.taps[f.Rank]
	send := func(f Failure) { n.member.link.Send(message{Attempt: attempt, Failed: &f}) }
	f.More = len(taps) > 0
	send(f)
	if !f.More {
		return
	}
	n.pendingReports.Go(func() {
		awaitStreams(taps, outputLimit)
		f.Output, f.More = lastOutput(taps), false
		if limit := culprit.OwnLimits().Explain(f.Output); !strings.Contains(f.Output, limit) {
			f.Note = limit
		}
		send(f)
	})
}

// awaitStreams waits for the end of the streams, for at most limit, because an unrelated process may hold one open or
// the console may block.
func awaitStreams(taps []*tap, limit time.Duration) {
	patience := time.After(limit)
	for _, t := range taps {
		select {
		case <-t.ended:
		case <-patience:
			return
		}
	}
}

// drain waits for output that has not reached the console and the logs yet, as long as there is progress. The time is
// counted in polls, so that a launcher that gets no CPU time does not give up.
func drain(taps []*tap) {
	const look = 100 * time.Millisecond
	seen := make([]int64, len(taps))
	for still := time.Duration(0); still < drainLimit; still += look {
		awaitStreams(taps, look)
		open := false
		for i, t := range taps {
			if lines := t.lineCount.Load(); lines != seen[i] {
				seen[i], still = lines, 0
			}
			select {
			case <-t.ended:
			default:
				open = true
			}
		}
		if !open {
			return
		}
	}
}

// lastOutput returns the last lines of a rank's stderr, or of its stdout if stderr is empty.
func lastOutput(taps []*tap) (text string) {
	for _, t := range taps {
		text = cmp.Or(t.quoted(), text)
	}
	return text
}

// pollRanks detects stopped ranks. The time is counted in polls, so that a launcher that was stopped itself does not
// blame its ranks.
func (n *node) pollRanks() {
	send := func(f Failure) { n.member.link.Send(message{Attempt: n.attempt, Stopped: &f}) }
	for rank, pid := range n.pids {
		suspect := min(suspectLimit, n.spec.Heartbeat/2)
		if !launch.IsStopped(pid) {
			if n.stopped[rank] > suspect {
				send(Failure{Rank: rank})
			}
			delete(n.stopped, rank)
			continue
		}
		switch n.stopped[rank] += pollInterval; {
		case n.stopped[rank] > n.spec.Heartbeat:
			delete(n.pids, rank)
			n.report(rankStopped(rank, pid, n.spec.Heartbeat))
		case n.stopped[rank] > suspect:
			send(rankStopped(rank, pid, n.stopped[rank]))
		}
	}
}

// processes describes this node's ranks of a round and opens the taps for their output.
func (n *node) processes(round *Round) ([]launch.Proc, error) {
	shares := cores.Share(n.spec.Cores, n.spec.Procs, n.spec.Threads, n.spec.Bind)
	procs := make([]launch.Proc, n.spec.Procs)
	n.taps = make(map[int][]*tap, n.spec.Procs)
	for local := range procs {
		vars := launch.RankVars{
			Rank: round.Node*n.spec.Procs + local, WorldSize: len(round.Hosts) * n.spec.Procs,
			LocalRank: local, LocalWorldSize: n.spec.Procs,
			MasterAddr: round.MasterAddr, MasterPort: round.MasterPort,
		}
		vars.MasterAddr = cmp.Or(n.spec.MasterAddr, vars.MasterAddr)
		if n.spec.MasterPort != 0 {
			vars.MasterPort = n.spec.MasterPort
		}
		_ = os.Remove(n.errorFile(vars.Rank)) // of an earlier job with the same --log-dir
		p := launch.Proc{Rank: vars.Rank, Argv: n.spec.Program, Env: n.variables(round, vars), Vars: &vars}
		if shares != nil {
			p.CPUs = shares[local]
		}
		for i, ext := range []string{"out", "err"} {
			log, stream := "", []Streams{Stdout, Stderr}[i]
			if n.spec.Logs.Dir != "" {
				log = filepath.Join(n.spec.Logs.Dir, fmt.Sprintf("attempt%d", round.Attempt),
					fmt.Sprintf("rank%d.%s", vars.Rank, ext))
			}
			t := &tap{rank: vars.Rank, stream: stream, tee: n.spec.Logs.Tee.Has(local, stream), warn: n.spec.Warn}
			if n.spec.Logs.shown(local, stream) {
				t.console = n.console
			}
			if err := t.open(log); err != nil {
				return nil, err
			}
			n.taps[vars.Rank] = append(n.taps[vars.Rank], t)
			p.Read[i] = t.run
		}
		procs[local] = p
	}
	return procs, nil
}

// variables returns the environment variables of a rank in addition to RankVars. torchrun sets the same variables, so
// that programs written for torchrun run unchanged.
func (n *node) variables(round *Round, rank launch.RankVars) map[string]*string {
	s, set := n.spec, map[string]*string{}
	put := func(name, value string) { set[name] = &value }
	preset := func(name, value string) { // unless the user has set it
		if !slices.ContainsFunc(s.Environ, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			put(name, value)
		}
	}
	for name, value := range s.RankSecret {
		put(name, value)
	}
	put(errorFileVar, n.errorFile(rank.Rank))
	put("GROUP_RANK", strconv.Itoa(round.Node))
	put("GROUP_WORLD_SIZE", strconv.Itoa(len(round.Hosts)))
	put("ROLE_NAME", s.Role)
	put("ROLE_RANK", strconv.Itoa(rank.Rank))
	put("ROLE_WORLD_SIZE", strconv.Itoa(rank.WorldSize))
	put("TORCHELASTIC_RUN_ID", s.ID)
	put("TORCHELASTIC_RESTART_COUNT", strconv.Itoa(round.Attempt))
	put("TORCHELASTIC_MAX_RESTARTS", strconv.Itoa(s.MaxRestarts))
	// torchrun --rdzv-backend static serves a TCPStore at the master's port and sets True. Here rank 0 serves it, because
	// with True all ranks would only connect to it, and time out.
	put("TORCHELASTIC_USE_AGENT_STORE", "False")
	preset("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
	preset("NCCL_ASYNC_ERROR_HANDLING", "1") // its name in versions of torch before 2.2
	switch {
	case s.Threads > 0:
		for _, name := range cores.ThreadVars {
			put(name, strconv.Itoa(s.Threads))
		}
	case s.Procs > 1:
		preset("OMP_NUM_THREADS", "1") // like torchrun: many ranks with a thread per core slow each other down
	}
	for name, value := range jobenv.SocketVars(s.Interface, s.Ports.String()) {
		put(name, value)
	}
	return set
}
