package launch

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"github.com/kernbench/kernbench/internal/process/connection"
	"golang.org/x/sys/unix"
)

// agentSocket is the descriptor on which the agent finds its end of the socket pair.
const agentSocket = 3

// MaybeAgent makes this process an agent when it was started as one, and then returns only when its work is over: the
// caller exits with the code. Every main that may launch calls it before anything else.
func MaybeAgent() (exitCode int, isAgent bool) {
	token, ok := os.LookupEnv(agentVar)
	if !ok {
		return 0, false
	}
	if err := serve(token); err != nil {
		fmt.Fprintln(os.Stderr, "kernbench agent:", err) // the supervisor reads it
		return 1, true
	}
	return 0, true
}

// agent is the process that starts the ranks and answers for their descendants.
type agent struct {
	conn      *connection.Conn // to the supervisor
	reaper    *reaper
	requests  chan request
	gone      chan struct{} // closed when there is nobody left to work for
	leave     func()        // closes gone
	survivors []int
}

// serve runs launches until the supervisor goes away, then makes sure that nothing is left.
func serve(token string) error {
	// A rank is killed by the kernel when the thread that started it ends (PR_SET_PDEATHSIG means the thread, not the
	// process), so all are started from one thread that lives as long as the agent. It also keeps to this thread the
	// CPU affinity that is set for a moment around each start.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming a subreaper: %w", err)
	}
	// Descriptors that the supervisor itself once inherited are of no concern to the ranks. Kernels before 5.11 do not
	// know the call; there they are passed on, as every program would.
	_ = unix.CloseRange(agentSocket, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	conn, err := connection.FromDescriptor(agentSocket)
	if err != nil {
		return fmt.Errorf("opening the launch socket: %w", err)
	}
	defer conn.Close()
	a := &agent{
		conn: conn, reaper: newReaper(), gone: make(chan struct{}),
		// While ranks are started and their output is read to its end some may wait here: who listens must see
		// that the supervisor has gone.
		requests: make(chan request, 16),
	}
	a.leave = sync.OnceFunc(func() { close(a.gone) })
	// Told to end by somebody else. Caught, not ignored: what is ignored would be ignored by the ranks too.
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() { <-quit; a.leave() }()
	CatchUserSignals()
	go a.reaper.run()
	a.tell(reply{Hello: &hello{Token: token}})
	go a.listen()
	for {
		select {
		case r := <-a.requests:
			if r.Launch != nil { // else its launch has ended
				a.runLaunch(r.Launch, r.files)
			}
		case <-a.gone:
			if len(a.survivors) > 0 {
				return fmt.Errorf("processes %v could not be killed", a.survivors)
			}
			leaveGroup()
			a.tell(reply{Bye: true})
			return nil
		}
	}
}

// listen takes the supervisor's requests until the socket ends, for whatever reason.
func (a *agent) listen() {
	defer a.leave()
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

// tell sends a reply. A supervisor that cannot be told anything is gone.
func (a *agent) tell(r reply) {
	if err := a.conn.Send(r); err != nil {
		a.leave()
	}
}
