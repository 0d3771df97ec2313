package launch

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/process/culprit"
)

const (
	// settleTime is how long processes may outlive the last rank before they count as left behind: the reader at the
	// end of a shell pipeline ends a moment after the program that feeds it.
	settleTime = 100 * time.Millisecond
	// killLimit is how long killing is repeated. What is left then belongs to another user or hangs in the kernel.
	killLimit = 10 * time.Second
	// drainLimit is how long a stream may stay open, and nothing move, when no descendant is left to hold it.
	drainLimit = 5 * time.Second
	// recallLimit bounds the command that ends what launchers have elsewhere.
	recallLimit = 10 * time.Second
	// lookTime is how often the supervisor is looked at.
	lookTime = 500 * time.Millisecond
	// hungLooks is how often the ranks of a launch that has hung are looked at, and hungPause how long is between.
	hungLooks = 10
	hungPause = 50 * time.Millisecond
)

// stage is how far a launch has come; it only rises.
type stage int

const (
	running     stage = iota
	looking           // at what the ranks are at: the launch has hung
	settling          // every rank has exited, other descendants have not
	dumping           // the ranks were sent SIGQUIT
	terminating       // everything was sent SIGTERM
	killing           // everything is sent SIGKILL, again and again
)

// launchLoop is one launch at the agent, from its start to its end.
type launchLoop struct {
	*agent
	job       *launchRequest
	ranks     []*rank
	left      int // ranks that have not exited
	exits     chan rankEnding
	stage     stage
	deadline  <-chan time.Time
	killUntil time.Time
	pause     time.Duration // until the next round of killing
	oomBefore int64
	reason    string
	failed    *Exit            // the first that failed
	looks     int              // at the ranks
	stopped   time.Time        // when the ranks were first told to end
	leftovers map[process]bool // nil until every rank has exited by itself
}

type rankEnding struct {
	rank *rank
	ending
}

// runLaunch runs one launch to its end. On return none of its processes is left, or they are among the survivors.
func (a *agent) runLaunch(job *launchRequest, files []*os.File) {
	c := &launchLoop{agent: a, job: job, exits: make(chan rankEnding, len(job.Procs)), pause: time.Millisecond}
	begin := time.Now()
	err := c.start(files)
	if err != nil {
		c.enter(killing)
	}
	c.follow()
	outcome := Outcome{Reason: c.reason, Leftovers: len(c.leftovers), Survivors: a.survivors}
	for _, r := range c.ranks {
		exit := r.exit
		if exit == nil {
			continue // a survivor
		}
		exit.Stdout = r.stdout.finish(drainLimit)
		if r.stderr != nil {
			exit.Stderr = r.stderr.finish(drainLimit)
		}
		outcome.Exits = append(outcome.Exits, *exit)
	}
	outcome.Wall = time.Since(begin)
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
	a.tell(last)
}

// start opens everything before it starts anything, so that most mistakes cost no process.
func (c *launchLoop) start(files []*os.File) (err error) {
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if len(c.survivors) > 0 {
		return fmt.Errorf("processes %v of an earlier launch could not be killed; start a new agent", c.survivors)
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
			return errors.New("the agent was told to end")
		default:
		}
		if err := r.start(c.reaper, null, files, c.ended); err != nil {
			return err
		}
		c.ranks = append(c.ranks, r)
		c.left++
		seen := Started{Rank: r.Rank, PID: r.pid}
		if len(c.job.ReportEnv) > 0 {
			seen.Env = r.watched(c.job.ReportEnv)
		}
		started = append(started, seen)
	}
	c.tell(reply{Launched: started})
	return nil
}

// ended is called by the reaper, whose lock is held; there is room for every rank.
func (c *launchLoop) ended(r *rank, e ending) { c.exits <- rankEnding{r, e} }

// follow is the loop of a launch: it returns when there is no child any more, or none that can be killed.
func (c *launchLoop) follow() {
	gone := c.gone
	look := time.NewTicker(lookTime)
	defer look.Stop()
	still := time.Duration(0) // how long the supervisor has been seen stopped
	for {
		select {
		case <-look.C:
			if c.job.StoppedLimit == 0 || !IsStopped(os.Getppid()) {
				still = 0
			} else if still += lookTime; still > c.job.StoppedLimit {
				c.tell(reply{Ending: true})
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
				c.drainExits() // these ended by themselves
				c.stop(*r.Stop)
			case r.Signal != nil && r.Signal.ID == c.job.ID:
				c.signalRanks(r.Signal.Signal)
			}
		case <-gone:
			gone = nil
			c.abandon()
		case <-c.deadline:
			if c.stage == killing && time.Now().After(c.killUntil) {
				c.survivors = lists.Map(descendants(os.Getpid()), func(p process) int { return p.pid })
				return
			}
			c.enter(c.next())
		case <-c.reaper.idle():
			c.drainExits()
			return
		}
	}
}

// drainExits takes the ends that are known by now.
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

func (c *launchLoop) exited(e rankEnding) {
	exit := e.exit(e.rank.Rank)
	exit.Stopped = c.stage > settling && e.at.After(c.stopped)
	exit.Activity = culprit.Summarize(e.rank.looks)
	exit.OOM = !exit.Stopped && exit.Signal == syscall.SIGKILL && oomKills() > c.oomBefore
	e.rank.exit = &exit
	c.left--
	c.tell(reply{Exited: &exit})
	if exit.Failed() && c.failed == nil {
		c.failed = &exit
	}
	switch {
	case c.left == 0 && c.stage < settling:
		c.enter(settling)
	case c.left == 0 && c.stage == dumping:
		c.enter(terminating)
	}
}

// stop ends the launch for the reason, unless it is already ending.
func (c *launchLoop) stop(s StopRequest) {
	if c.stage != running {
		return
	}
	c.reason = s.Reason
	c.look()
	switch {
	case s.Hung:
		c.enter(looking)
	case s.Dump:
		c.enter(dumping)
	default:
		c.enter(terminating)
	}
}

// look looks at what the ranks are at.
func (c *launchLoop) look() {
	pids := make(map[int][]int, len(c.ranks)) // of each rank's family, by the number of its first
	for _, r := range c.ranks {
		pids[r.pid] = []int{r.pid}
	}
	parents := make(map[int]int)
	for _, p := range processes() {
		parents[p.pid] = p.parent
	}
	for pid := range parents {
		for up := parents[pid]; up != 0; up = parents[up] {
			if family, is := pids[up]; is {
				pids[up] = append(family, pid)
				break
			}
		}
	}
	for _, r := range c.ranks {
		if r.exit == nil {
			r.looks = append(r.looks, culprit.TakeSnapshot(pids[r.pid]))
		}
	}
	c.looks++
}

// abandon ends the launch when there is nobody left to work for: at once, unless only its processes can end others.
func (c *launchLoop) abandon() {
	if c.stage == running {
		c.reason = "the agent was told to end"
	}
	c.tell(reply{Ending: true})                  // before anybody sees what comes of it
	c.job.Grace = min(c.job.Grace, DefaultGrace) // nobody waits for what they would still do
	switch {
	case !c.job.RemoteLauncher:
		c.enter(killing)
	case c.stage < terminating:
		c.enter(terminating)
	}
}

func (c *launchLoop) next() stage {
	switch {
	case c.stage == looking && c.looks < hungLooks:
		return looking
	case c.stage == looking, c.stage == settling:
		return terminating
	}
	return min(c.stage+1, killing)
}

// enter begins a stage, or another round of killing, and sets the time at which the next one follows.
func (c *launchLoop) enter(s stage) {
	if s == terminating && c.stage == settling {
		c.leftovers = make(map[process]bool)
	}
	if s > settling && c.stage <= settling {
		c.stopped = time.Now()
	}
	wait := c.job.Grace
	switch s {
	case looking:
		if c.stage == looking {
			c.look()
		}
		wait = hungPause
	case settling:
		wait = c.job.Settle
	case dumping:
		wait = min(wait, DefaultGrace)
		c.signalRanks(unix.SIGQUIT)
	case terminating:
		tree := descendants(os.Getpid())
		c.countLeftovers(tree)
		for _, p := range tree {
			p.signal(unix.SIGTERM)
			p.signal(unix.SIGCONT) // what stands still hears nothing
		}
	case killing:
		if c.stage != killing {
			if c.left > 0 && len(c.job.RecallCommand) > 0 {
				c.recall()
			}
			c.killUntil = time.Now().Add(killLimit)
		}
		c.countLeftovers(killAll(func() []process { return descendants(os.Getpid()) }))
		wait = c.pause
		c.pause = min(2*c.pause, 100*time.Millisecond)
	}
	c.stage = s
	c.deadline = time.After(wait)
}

// signalRanks sends a signal to the processes of the launch, but not to their descendants.
func (c *launchLoop) signalRanks(sig syscall.Signal) {
	for _, r := range c.ranks {
		if p, ok := readProcess(r.pid); ok && p.parent == os.Getpid() && r.exit == nil {
			p.signal(sig)
		}
	}
}

// recall ends what launchers that are about to be killed have elsewhere. Here only the reaper may wait for a child.
func (c *launchLoop) recall() {
	ended := make(chan struct{})
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer null.Close()
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{null.Fd(), null.Fd(), null.Fd()}}
	_, err = c.reaper.start(func() (int, error) { return syscall.ForkExec(c.job.RecallCommand[0], c.job.RecallCommand, attr) },
		func(ending) { close(ended) })
	if err != nil {
		return
	}
	select {
	case <-ended:
	case <-time.After(recallLimit): // it is killed with the rest
	}
}

func (c *launchLoop) countLeftovers(procs []process) {
	if c.leftovers == nil {
		return
	}
	for _, p := range procs {
		c.leftovers[p.id()] = true
	}
}
