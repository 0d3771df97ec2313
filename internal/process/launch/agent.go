package launch

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/host/proc"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/culprit"
)

// agentSocket is the descriptor of the agent's end of the socket pair.
const agentSocket = 3

// MaybeAgent runs this process as an agent if Start has started it as one. It then returns true when the agent's work
// is done, and the caller exits with exitCode. Every main function that may launch processes must call it before
// anything else.
func MaybeAgent() (exitCode int, isAgent bool) {
	if _, ok := os.LookupEnv(agentVar); !ok {
		return 0, false
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "kernbench agent:", err) // the supervisor reads it
		return 1, true
	}
	return 0, true
}

// agent is the process that starts the ranks and is responsible for their descendants.
type agent struct {
	conn      *connection.Conn // to the supervisor
	reaper    *reaper
	requests  chan request
	gone      chan struct{} // closed when the supervisor is gone or a signal has told the agent to end
	quit      func()        // closes gone
	endSignal atomic.Int32  // the signal that told the agent to end; 0 if there was none
	survivors []int         // PIDs that could not be killed
}

// serve runs launches until the supervisor is gone. No process of a launch is left when it returns nil.
func serve() error {
	// PR_SET_PDEATHSIG kills a rank when the thread that started it ends, and not only when the process does. All
	// ranks are therefore started from this thread, which lives as long as the agent. Locking it also keeps other
	// goroutines from running with the CPU affinity that is set temporarily for each start.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming a subreaper: %w", err)
	}
	// Ranks must not inherit descriptors that the supervisor itself has inherited. Before Linux 5.11 the flag is
	// missing and ranks inherit them.
	_ = unix.CloseRange(agentSocket, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	conn, err := connection.FromDescriptor(agentSocket)
	if err != nil {
		return fmt.Errorf("opening the launch socket: %w", err)
	}
	defer conn.Close()
	a := &agent{
		conn: conn, reaper: newReaper(), gone: make(chan struct{}),
		// The buffer allows receiveRequests to continue, and so to notice the end of the supervisor, while the
		// main loop starts ranks or reads the rest of their output.
		requests: make(chan request, 16),
	}
	a.quit = sync.OnceFunc(func() { close(a.gone) })
	// A user or a batch system may ask the agent to end. The signals are caught and not ignored, because ranks
	// would inherit an ignored signal.
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		a.endSignal.Store(int32((<-quit).(syscall.Signal)))
		a.quit()
	}()
	CatchUserSignals()
	go a.reaper.run()
	a.send(reply{Hello: true})
	go a.receiveRequests()
	for {
		select {
		case r := <-a.requests:
			if r.Launch != nil { // other requests are for a launch that has ended
				a.runLaunch(r.Launch, r.files)
			}
		case <-a.gone:
			if len(a.survivors) > 0 {
				return fmt.Errorf("processes %v could not be killed", a.survivors)
			}
			leaveGroup()
			a.send(reply{Bye: true})
			return nil
		}
	}
}

// receiveRequests receives the supervisor's requests until the socket ends.
func (a *agent) receiveRequests() {
	defer a.quit()
	var files []*os.File
	for {
		var r request
		if err := a.conn.Receive(&r); err != nil {
			return
		}
		more, err := a.conn.Files(r.Files)
		if err != nil {
			return
		}
		if files = append(files, more...); r.Launch != nil {
			r.files, files = files, nil
		}
		select {
		case a.requests <- r:
		case <-a.gone:
			return
		}
	}
}

// send sends a reply. If that fails, the supervisor is gone.
func (a *agent) send(r reply) {
	if err := a.conn.Send(r); err != nil {
		a.quit()
	}
}

const (
	// settleTime is how long processes may outlive the last rank before they count as leftovers. For example, the
	// reader at the end of a shell pipeline ends shortly after its writer.
	settleTime = 100 * time.Millisecond
	// killLimit is how long the agent keeps trying to kill. Processes that are left after that belong to another
	// user or hang in the kernel.
	killLimit = 10 * time.Second
	// drainLimit is how long a stream may stay open without data after the last descendant has ended.
	drainLimit = 5 * time.Second
	// recallLimit is the time limit of RecallCommand.
	recallLimit = 10 * time.Second
	// pollInterval is how often the supervisor's state is checked.
	pollInterval = 500 * time.Millisecond
	// The ranks of a hung launch are observed hungSnapshots times, at intervals of snapshotPause.
	hungSnapshots = 10
	snapshotPause = 50 * time.Millisecond
)

// stage is the progress of a launch. It only increases.
type stage int

const (
	running     stage = iota
	observing         // the launch has hung: find out what the ranks are doing
	settling          // every rank has exited, other descendants have not
	dumping           // the ranks were sent SIGQUIT
	terminating       // everything was sent SIGTERM
	killing           // everything is sent SIGKILL, in rounds
)

// launchLoop is the agent's state of one launch.
type launchLoop struct {
	*agent
	job       *launchRequest
	ranks     []*rank
	running   int // ranks that have not exited
	exits     chan rankExit
	stage     stage
	deadline  <-chan time.Time
	killUntil time.Time
	pause     time.Duration // until the next round of killing
	oomBefore int64         // oomKills at the start
	reason    string
	failed    *Exit            // first rank that failed
	snapshots int              // taken of each rank
	stopped   time.Time        // when the ranks were first told to end
	leftovers map[proc.ID]bool // nil until every rank has exited by itself
}

type rankExit struct {
	rank *rank
	childExit
}

// runLaunch runs one launch to its end. When it returns, no process of the launch is left, except for survivors.
func (a *agent) runLaunch(job *launchRequest, files []*os.File) {
	c := &launchLoop{agent: a, job: job, exits: make(chan rankExit, len(job.Procs)), pause: time.Millisecond}
	begin := time.Now()
	err := c.start(files)
	if err != nil {
		c.enter(killing)
	}
	c.run()
	outcome := c.outcome(begin)
	var last reply
	if err != nil {
		last.Refused = err.Error()
	} else {
		last.Done = &outcome
	}
	select {
	case <-a.gone:
		last.Leaving = true
	default:
	}
	a.send(last)
}

// start starts the ranks. It opens all files first, so that most errors are found before any rank runs.
func (c *launchLoop) start(files []*os.File) (err error) {
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if len(c.survivors) > 0 {
		return fmt.Errorf("processes %v of an earlier launch could not be killed; end them by hand", c.survivors)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	var ready []*rank
	defer func() {
		for _, r := range ready[len(c.ranks):] {
			r.abandon()
		}
	}()
	for _, p := range c.job.Procs {
		r, err := openRank(p, c.job.LogLimit)
		if err != nil {
			return err
		}
		ready = append(ready, r)
	}
	c.oomBefore = oomKills()
	started := make([]Started, 0, len(ready))
	for _, r := range ready {
		select {
		case <-c.gone:
			return errors.New(c.endReason())
		default:
		}
		if err := r.start(c.reaper, null, files, c.ended); err != nil {
			return err
		}
		c.ranks = append(c.ranks, r)
		c.running++
		seen := Started{Rank: r.Rank, PID: r.pid}
		if len(c.job.ReportEnv) > 0 {
			seen.Env = r.readBackEnv(c.job.ReportEnv)
		}
		started = append(started, seen)
	}
	c.send(reply{Launched: started})
	return nil
}

// ended records the end of a rank. The reaper calls it with its lock held, so it must not block: exits has room for
// every rank.
func (c *launchLoop) ended(r *rank, e childExit) { c.exits <- rankExit{r, e} }

// run is the event loop of a launch. It returns when no child is left, or only children that cannot be killed.
func (c *launchLoop) run() {
	gone := c.gone
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	stoppedFor := time.Duration(0) // how long the supervisor has been stopped
	for {
		select {
		case <-ticker.C:
			if c.job.StoppedLimit == 0 || !IsStopped(os.Getppid()) {
				stoppedFor = 0
			} else if stoppedFor += pollInterval; stoppedFor > c.job.StoppedLimit {
				c.send(reply{Ending: true})
				c.stop(StopRequest{Reason: fmt.Sprintf("its supervisor has been stopped for %v", c.job.StoppedLimit)})
			}
		case e := <-c.exits:
			c.exited(e)
			if c.failed != nil && c.job.StopOnFailure {
				c.stop(StopRequest{Reason: c.failed.String()})
			}
		case r := <-c.requests:
			switch {
			case r.Stop != nil && r.Stop.ID == c.job.ID:
				c.drainExits() // ranks that ended before this request were not ended by it
				c.stop(*r.Stop)
			case r.Signal != nil && r.Signal.ID == c.job.ID:
				c.signalRanks(r.Signal.Signal)
			}
		case <-gone:
			gone = nil
			c.supervisorGone()
		case <-c.deadline:
			if c.stage == killing && time.Now().After(c.killUntil) {
				c.survivors = lists.Map(descendants(os.Getpid()), func(p proc.Process) int { return p.PID })
				return
			}
			c.enter(c.nextStage())
		case <-c.reaper.idle():
			c.drainExits()
			return
		}
	}
}

// drainExits handles the exits that have been reported so far.
func (c *launchLoop) drainExits() {
	for {
		select {
		case e := <-c.exits:
			c.exited(e)
		default:
			return
		}
	}
}

func (c *launchLoop) exited(e rankExit) {
	exit := e.toExit(e.rank.Rank)
	exit.Stopped = c.stage > settling && e.noticedAt.After(c.stopped)
	exit.Activity = culprit.Summarize(e.rank.snapshots)
	exit.OOM = !exit.Stopped && exit.Signal == syscall.SIGKILL && oomKills() > c.oomBefore
	e.rank.exit = &exit
	c.running--
	c.send(reply{Exited: &exit})
	if exit.Failed() && c.failed == nil {
		c.failed = &exit
	}
	switch {
	case c.running == 0 && c.stage < settling:
		c.enter(settling)
	case c.running == 0 && c.stage == dumping:
		c.enter(terminating)
	}
}

// stop ends the launch, unless it is already ending.
func (c *launchLoop) stop(s StopRequest) {
	if c.stage != running {
		return
	}
	c.reason = s.Reason
	c.takeSnapshots()
	switch {
	case s.Hung:
		c.enter(observing)
	case s.Dump:
		c.enter(dumping)
	default:
		c.enter(terminating)
	}
}

// takeSnapshots observes every rank with all its descendants.
func (c *launchLoop) takeSnapshots() {
	pids := make(map[int][]int, len(c.ranks)) // by the PID of a rank: the PIDs of it and its descendants
	for _, r := range c.ranks {
		pids[r.pid] = []int{r.pid}
	}
	parents := make(map[int]int)
	for _, p := range proc.All(hostinfo.Root()) {
		parents[p.PID] = p.Parent
	}
	for pid := range parents {
		for ancestor := parents[pid]; ancestor != 0; ancestor = parents[ancestor] {
			if family, is := pids[ancestor]; is {
				pids[ancestor] = append(family, pid)
				break
			}
		}
	}
	for _, r := range c.ranks {
		if r.exit == nil {
			r.snapshots = append(r.snapshots, culprit.TakeSnapshot(pids[r.pid]))
		}
	}
	c.snapshots++
}

// supervisorGone ends the launch after the supervisor has ended. It kills at once, unless the processes are launchers
// that must end remote processes first.
func (c *launchLoop) supervisorGone() {
	if c.stage == running {
		c.reason = c.endReason()
	}
	c.send(reply{Ending: true})                  // before ranks fail as a consequence
	c.job.Grace = min(c.job.Grace, DefaultGrace) // nobody waits for a longer cleanup
	switch {
	case !c.job.RemoteLauncher:
		c.enter(killing)
	case c.stage < terminating:
		c.enter(terminating)
	}
}

func (c *launchLoop) nextStage() stage {
	switch {
	case c.stage == observing && c.snapshots < hungSnapshots:
		return observing
	case c.stage == observing, c.stage == settling:
		return terminating
	}
	return min(c.stage+1, killing)
}

// enter begins a stage, or another round of observing or killing, and sets the deadline at which nextStage begins.
func (c *launchLoop) enter(s stage) {
	if s == terminating && c.stage == settling {
		c.leftovers = make(map[proc.ID]bool)
	}
	if s > settling && c.stage <= settling {
		c.stopped = time.Now()
	}
	wait := c.job.Grace
	switch s {
	case observing:
		if c.stage == observing {
			c.takeSnapshots()
		}
		wait = snapshotPause
	case settling:
		wait = c.job.Settle
	case dumping:
		wait = min(wait, DefaultGrace)
		c.signalRanks(unix.SIGQUIT)
	case terminating:
		tree := descendants(os.Getpid())
		c.countLeftovers(tree)
		for _, p := range tree {
			p.Signal(unix.SIGTERM)
			p.Signal(unix.SIGCONT) // a stopped process would not handle SIGTERM
		}
	case killing:
		if c.stage != killing {
			if c.running > 0 && len(c.job.RecallCommand) > 0 {
				c.recall()
			}
			c.killUntil = time.Now().Add(killLimit)
		}
		c.countLeftovers(killAll(func() []proc.Process { return descendants(os.Getpid()) }))
		wait = c.pause
		c.pause = min(2*c.pause, 100*time.Millisecond)
	}
	c.stage = s
	c.deadline = time.After(wait)
}

// signalRanks sends a signal to the processes of the launch, but not to their descendants.
func (c *launchLoop) signalRanks(sig syscall.Signal) {
	for _, r := range c.ranks {
		if p, ok := proc.Read(hostinfo.Root(), r.pid); ok && p.Parent == os.Getpid() && r.exit == nil {
			p.Signal(sig)
		}
	}
}

// recall runs RecallCommand for launchers that are about to be killed. It does not use os/exec,
// because in the agent only the reaper may wait for children.
func (c *launchLoop) recall() {
	ended := make(chan struct{})
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer null.Close()
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{null.Fd(), null.Fd(), null.Fd()}}
	_, err = c.reaper.start(func() (int, error) {
		return syscall.ForkExec(c.job.RecallCommand[0], c.job.RecallCommand, attr)
	},
		func(childExit) { close(ended) })
	if err != nil {
		return
	}
	select {
	case <-ended:
	case <-time.After(recallLimit): // the command is killed with the other processes
	}
}

func (c *launchLoop) countLeftovers(procs []proc.Process) {
	if c.leftovers == nil {
		return
	}
	for _, p := range procs {
		c.leftovers[p.ID] = true
	}
}
