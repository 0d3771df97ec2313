package connection

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// SilentError means that no message arrived from a peer within the limit.
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
	Waited time.Duration // of its threads for a processor, added up

	TCP         bool // the connection has the following counters
	LastAck     time.Duration
	Unconfirmed int // packets that the peer's host has not acknowledged
	Resent      int // packets sent again
}

// Since returns the evidence of the time after an earlier observation.
func (e Evidence) Since(earlier Evidence) Evidence {
	e.Waited -= earlier.Waited
	e.Resent -= earlier.Resent
	return e
}

// Cause tells a stopped process, a starved one, a lossy network and an unreachable host apart after
// a silence of the given length. It returns "" if nothing was observed.
func (e Evidence) Cause(silent time.Duration) string {
	switch {
	// First, because a launcher that is cut off stops its processes before it ends them.
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
		// Acknowledgements show only that this side's packets arrive there.
		return "its host acknowledges packets, so its process is stopped or gets no processor, or the network loses its " +
			"packets"
	}
	return ""
}

// NetworkCause says how the network explains a silence of the given length, or returns "" if it does not.
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

// minResent is the number of packets sent again from which a network counts as lossy. TCP sends the
// last packet before a short pause again by itself (tail loss probe).
const minResent = 2

// Observe reads what this host knows about the peer. pid is its process on this host, 0 for a process
// of another host.
func (c *Conn) Observe(pid int) (e Evidence) {
	if pid > 0 {
		e.Local, e.State = true, hostinfo.ProcessState(hostinfo.Root(), pid)
		_, waited := hostinfo.ThreadDelay(hostinfo.Root(), pid)
		e.Waited = time.Duration(waited)
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

// quietTicks is the silence after which a peer is observed for the first time. Heartbeats are half as
// far apart.
const quietTicks = int(2 * HeartbeatInterval / Tick)

// Pause notices that this process made no progress for longer than Limit, because it was stopped or
// got no processor. Its peers then consider it dead and leave, and it must not blame them. Pause has
// no clock: its owner calls Tick every [Tick].
type Pause struct {
	Limit time.Duration
	// Waited returns how long the threads of this process have waited for a processor so far. It
	// may be nil.
	Waited func() time.Duration

	last    time.Duration // time of the last tick
	ticks   int           // so far
	waited  time.Duration // at the last look
	length  time.Duration // of the last pause
	starved bool          // the last pause was a lack of processors
	recent  int           // remaining ticks for which the last pause explains losses
}

// waitedLook is the number of ticks between two calls of Waited.
const waitedLook = 10

// Tick notes the progress of this process.
func (p *Pause) Tick(at time.Duration) {
	p.recent--
	p.look(at)
	if p.ticks++; p.Waited != nil && p.ticks%waitedLook == 0 {
		p.waited = p.Waited()
	}
	p.last = at
}

func (p *Pause) look(at time.Duration) {
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
	p.look(at)
	length := p.length.Round(time.Second)
	switch {
	case p.recent <= 0:
		return ""
	case p.starved:
		return fmt.Sprintf("got no processor for %v (starved of CPU)", length)
	}
	return fmt.Sprintf("was stopped for %v (SIGSTOP, or a terminal's job control)", length)
}

// space identifies the processes that this process can observe: they run on the same kernel, in the
// same namespaces. A network namespace of its own makes a container another host. It is "" if that is unknown.
var space = sync.OnceValue(func() string {
	network, err := os.Readlink("/proc/self/ns/net")
	processes := hostinfo.ProcessSpace()
	if err != nil || processes == "" {
		return ""
	}
	return processes + " " + network
})

// OwnDelay returns how long the threads of this process have waited for a processor so far.
func OwnDelay() time.Duration {
	_, waited := hostinfo.ThreadDelay(hostinfo.Root(), os.Getpid())
	return time.Duration(waited)
}
