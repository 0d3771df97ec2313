// Package launch starts the processes of one launch on this host, watches them, keeps their output and makes sure
// that none of their descendants stays behind. It knows nothing of benches, journals or measuring: when a launch has
// hung, and what a failed rank means, is decided by the caller.
//
// Two processes share the work. The supervisor is the program that calls [Start]. The agent is the same binary, run
// again: it is the subreaper of everything it starts, so even a daemon that forked twice and changed its session is its
// child in the end, and "the kernel says I have no child" proves that nothing is left. The two talk over a socket pair,
// so there is nothing on disk and nothing to connect to.
//
//   - The supervisor dies: the agent reads end of file, kills its tree at once and exits. Launchers (mpirun, srun) it first
//     asks to end what they have elsewhere.
//   - The agent dies: the ranks get SIGKILL from the kernel, what else it had started is in its control group, or is
//     adopted by the supervisor, and killed there, and the launch ends with [ErrLost].
//   - The agent is stopped (SIGSTOP): the supervisor sees it and kills it. If the supervisor dies first, the kernel continues it.
//
// One agent runs a sequence of launches, one at a time. Every main that may call Start calls [MaybeAgent] first.
package launch

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/process/culprit"
)

// ErrAgentLost says that the agent ended before the launch did. Its processes are gone; a new agent can be started.
var ErrAgentLost = errors.New("the launch agent died")

const (
	// DefaultGrace is the time between asking a process to end and killing it. Nobody waits longer for a stack dump, or
	// once the supervisor has gone.
	DefaultGrace = 2 * time.Second
	// DefaultLogLimit is how many bytes of one stream are kept in its log file.
	DefaultLogLimit = 256 << 20
	// TailSize is how many of the last bytes of each stream are kept in memory.
	TailSize = 8 << 10
)

// Proc is one process of a launch.
type Proc struct {
	Rank int      // unique in the launch; names the process in events and exits
	Argv []string // Argv[0] without a slash is looked up in the PATH of Env
	// Env is the complete environment; only TagVar is added. See [Environ].
	Env        []string
	Dir        string     // working directory; empty is the supervisor's own
	ExtraFiles []*os.File // become descriptors 3, 4, ...; the caller keeps and closes its own copies
	// Stdout and Stderr are log files, created or appended to by the agent. Empty keeps only the tail. Equal paths give
	// the process one pipe for both, so the lines stay in the order in which they were written.
	Stdout, Stderr string
	CPUs           []int // CPU affinity; empty leaves the inherited one
}

// Spec describes one launch.
type Spec struct {
	Procs         []Proc        `json:"-"`
	ReportEnv     ByteStrings   // variables whose values are read back from each started process
	Grace         time.Duration // 0 is DefaultGrace
	LogLimit      int64         // bytes kept per stream; 0 is DefaultLogLimit
	StopOnFailure bool          // stop the others when one process fails
	// ForwardSignals are signals that the processes get when this one gets them, such as the one by which a batch system announces
	// the end of its job. Their descendants do not: the default of most signals is to kill.
	ForwardSignals []syscall.Signal
	// StoppedLimit, if not 0, is how long the supervisor may stand still (SIGSTOP) before the launch is stopped: others,
	// who depend on its answers, have given it up by then.
	StoppedLimit time.Duration
	// RemoteLauncher says that the processes have others on other hosts, which only they can end: they are asked to before they
	// are killed, even when the supervisor has gone. Recall is the command that ends those others when a launcher did not
	// within Grace, or was killed; it may be empty.
	RemoteLauncher bool
	RecallCommand  ByteStrings

	settle time.Duration // 0 is settleTime; tests need more on a loaded machine
}

// Event is a Started or an Exit.
type Event interface{ event() }

// Started says that a process runs its program.
type Started struct {
	Rank, PID int
	// Env holds, for each name of Spec.WatchEnv, the value in the process's own environment as the kernel shows it, nil
	// for a variable that is not there. The whole map is nil when the process had ended before it could be read.
	Env EnvOverrides
}

// Exit tells how a process ended. As an event it comes at once and without the streams, which are complete only in
// [Outcome], when no descendant holds them open any more.
type Exit struct {
	Rank, PID int
	Code      int            // exit code; -1 when ended by a signal
	Signal    syscall.Signal // 0 when it ended by itself
	Core      bool
	// a guess: killed, not by this package, while the kernel's count of out-of-memory kills rose
	OOM            bool
	Stopped        bool              // ended after the launch was told to stop
	Activity       *culprit.Activity // what the rank was at when the launch was stopped; nil when it had ended before
	Wall           time.Duration
	Stdout, Stderr Stream
}

// Stream is what is known of one output stream at the end. When both streams share a pipe, Stdout has it all.
type Stream struct {
	Bytes    int64  // written by the process and its descendants
	Dropped  int64  // of these, not in the log file, because of the limit or an error
	Tail     []byte // the last TailSize bytes
	LogError string // why the log file could not be written, if so
}

// Outcome is the end of a launch: every process has exited and no descendant is left, except for Survivors.
type Outcome struct {
	Exits     []Exit // in the order of Spec.Procs; those without a known end (ErrLost) are missing
	Reason    string // why the launch was stopped; empty when it ended by itself
	Leftovers int    // processes that outlived every rank and had to be killed
	Survivors []int  // could not be killed (another user's, or stuck in the kernel); the agent takes no launch after this
	Wall      time.Duration
}

func (Started) event() {}
func (Exit) event()    {}

// Failed reports a non-zero exit code or a signal.
func (e Exit) Failed() bool { return e.Code != 0 || e.Signal != 0 }

func (e Exit) String() string { return fmt.Sprintf("rank %d: %s", e.Rank, e.How()) }

// How says in words how the process ended.
func (e Exit) How() string {
	how := fmt.Sprintf("exit code %d", e.Code)
	if e.Signal != 0 {
		how = fmt.Sprintf("signal %d (%v)", int(e.Signal), e.Signal)
	}
	if e.Core {
		how += ", core dumped"
	}
	if e.OOM {
		how += ", probably out of memory"
	}
	if e.Stopped {
		how += ", after the launch was stopped"
	}
	return how
}

// Failed returns the first process in Spec order that failed without having been told to stop, or nil.
func (o Outcome) Failed() *Exit {
	for i := range o.Exits {
		if e := &o.Exits[i]; e.Failed() && !e.Stopped {
			return e
		}
	}
	return nil
}
