package connection

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/host/proc"
)

// SilentError means that no message, not even a heartbeat, arrived from a peer within the limit.
type SilentError struct {
	Limit time.Duration
	Cause string // the observed reason; "" if there was nothing to observe
}

func (e *SilentError) Error() string {
	if e.Cause == "" {
		return fmt.Sprintf("nothing was heard from it for %v (stopped, or the network is cut)", e.Limit)
	}
	return fmt.Sprintf("nothing was heard from it for %v: %s", e.Limit, e.Cause)
}

// Evidence is what this host can observe of a peer while no message arrives from it.
type Evidence struct {
	Local  bool          // the peer's process is on this host
	State  string        // of that process, as in /proc/PID/stat; "" if it has ended
	Waited time.Duration // for a processor, summed over the threads of that process since its start

	TCP         bool          // the connection uses TCP, so the kernel has the following counters
	LastAck     time.Duration // since the last acknowledgement arrived
	Unconfirmed int           // packets that the peer's host has not acknowledged
	Resent      int           // packets retransmitted since the connection was made
}

// Since returns e with its counters reduced to the time after an earlier observation.
func (e Evidence) Since(start Evidence) Evidence {
	e.Waited -= start.Waited
	e.Resent -= start.Resent
	return e
}

// Cause returns the most likely reason for a silence of the given length: a stopped process, one that gets no
// processor, a lossy network or an unreachable host. It returns "" if nothing was observed.
func (e Evidence) Cause(silent time.Duration) string {
	switch {
	// The network comes first: a launcher that is cut off from the network stops its processes before it ends them,
	// so a stopped process may be only a consequence.
	case e.NetworkCause(silent) != "":
		return e.NetworkCause(silent)
	case e.Local && (e.State == "T" || e.State == "t"):
		return "it is stopped by a signal (SIGSTOP, or a terminal's job control)"
	case e.Local && (e.State == "" || e.State == "Z" || e.State == "X"):
		return "its process has ended"
	case e.Local && e.Waited >= silent/2:
		return fmt.Sprintf("its process is alive, but its threads waited %.1f s for a processor", e.Waited.Seconds())
	case e.Local:
		return "its process is alive, but does not answer"
	case e.TCP:
		// Acknowledgements show only that packets from here arrive there. The other direction may be broken.
		return "its host acknowledges packets, so its process is stopped or gets no processor, or the network loses its " +
			"packets"
	}
	return ""
}

// Alive reports whether the peer's process is on this host, has not ended and is not stopped.
func (e Evidence) Alive() bool {
	return e.Local && !slices.Contains([]string{"", "Z", "X", "T", "t"}, e.State)
}

// NetworkCause returns how the network explains a silence of the given length, or "" if it does not.
func (e Evidence) NetworkCause(silent time.Duration) string {
	switch {
	case e.TCP && e.Unconfirmed > 0 && e.LastAck >= silent-2*HeartbeatInterval:
		return fmt.Sprintf("its host has not acknowledged a packet for %.1f s, so the host is down or the network is cut",
			e.LastAck.Seconds())
	case e.TCP && e.Resent >= minResent:
		return fmt.Sprintf("the network loses packets: %d had to be sent again in this time", e.Resent)
	}
	return ""
}

// minResent is the number of retransmissions from which a network counts as lossy. A single one proves nothing: TCP
// retransmits the last packet before a short pause by itself (tail loss probe).
const minResent = 2

// Observe returns what this host knows about the peer. pid is the peer's process on this host, or 0 if it runs on
// another host.
func (c *Conn) Observe(pid int) (e Evidence) {
	if pid > 0 {
		e.Local = true
		if p, ok := proc.Read(hostinfo.Root(), pid); ok {
			e.State = string(p.State)
		}
		_, e.Waited = proc.Delay(hostinfo.Root(), pid)
	}
	raw, ok := c.Conn.(syscall.Conn)
	if !ok {
		return e
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return e
	}
	control.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return // not TCP
		}
		e.TCP, e.LastAck = true, time.Duration(info.Last_ack_recv)*time.Millisecond
		e.Unconfirmed, e.Resent = int(info.Unacked), int(info.Total_retrans)
	})
	return e
}

// quietTicks is the silence, in ticks, after which a peer is observed for the first time. It is two heartbeat
// intervals, so at least one heartbeat is missing by then.
const quietTicks = int(2 * HeartbeatInterval / Tick)

// Pause detects that this process made no progress for longer than Limit, because it was stopped or got no processor.
// After such a pause, peers have considered this process dead and left, and it must not blame them for leaving. Pause
// reads no clock: its owner calls Tick every [Tick].
type Pause struct {
	Limit time.Duration
	// Waited returns how long the threads of this process have waited for a processor so far. It
	// may be nil.
	Waited func() time.Duration

	last    time.Duration // time of the last tick
	ticks   int           // number of calls of Tick
	waited  time.Duration // the result of the last regular call of Waited
	length  time.Duration // of the last pause
	starved bool          // the cause of the last pause was a lack of processors
	recent  int           // number of further ticks for which the last pause explains the loss of peers
}

// waitedInterval is the number of ticks between two calls of Waited.
const waitedInterval = 10

// Tick records that this process is making progress. at is the time since the start.
func (p *Pause) Tick(at time.Duration) {
	p.recent--
	p.detect(at)
	if p.ticks++; p.Waited != nil && p.ticks%waitedInterval == 0 {
		p.waited = p.Waited()
	}
	p.last = at
}

func (p *Pause) detect(at time.Duration) {
	length := at - p.last
	if p.Limit == 0 || length <= p.Limit {
		return
	}
	p.length, p.recent = length, int(p.Limit/Tick)
	p.starved = p.Waited != nil && p.Waited()-p.waited >= length/2
	p.last = at
}

// Cause describes a pause of this process that ended recently, such as "was stopped for 7s (SIGSTOP,
// or a terminal's job control)". It returns "" if there was none.
func (p *Pause) Cause(at time.Duration) string {
	p.detect(at)
	length := p.length.Round(time.Second)
	switch {
	case p.recent <= 0:
		return ""
	case p.starved:
		return fmt.Sprintf("got no processor for %v (starved of CPU)", length)
	}
	return fmt.Sprintf("was stopped for %v (SIGSTOP, or a terminal's job control)", length)
}

// space identifies the set of processes that this process can observe. They have the same kernel and the same PID and
// network namespaces. A container with a network namespace of its own therefore counts as another host. space returns
// "" if the namespaces are not known.
var space = sync.OnceValue(func() string {
	network, err := os.Readlink("/proc/self/ns/net")
	processes := proc.Space()
	if err != nil || processes == "" {
		return ""
	}
	return processes + " " + network
})

// OwnDelay returns how long the threads of this process have waited for a processor so far.
func OwnDelay() time.Duration {
	_, waited := proc.Delay(hostinfo.Root(), os.Getpid())
	return waited
}
