package tcp

import (
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Link is a data connection to one rank for one use.
type Link struct {
	Peer int
	Out  Sender
	In   Receiver
	fd   int
}

// bufferBytes is the size of the kernel's send buffer. It must keep a link with a high bandwidth-delay product busy
// while the rank computes.
const bufferBytes = 4 << 20

// NewLink takes over a connection. It fails if a send is not acknowledged within the limit.
func NewLink(conn *net.TCPConn, peer int, limit time.Duration) (*Link, error) {
	defer conn.Close()
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	l := &Link{Peer: peer, fd: -1}
	// Use a descriptor of our own, because this package polls it itself and the poller of the Go runtime must not.
	if e := raw.Control(func(fd uintptr) { l.fd, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); e != nil {
		err = e
	}
	if err == nil {
		err = unix.SetNonblock(l.fd, true)
	}
	if err == nil {
		err = unix.SetsockoptInt(l.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err == nil {
		err = unix.SetsockoptInt(l.fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("making a link of a connection: %w", err)
	}
	l.enlarge()
	l.Out.fd, l.In.fd = l.fd, l.fd
	return l, nil
}

// enlarge sets a large send buffer if the system allows one. Otherwise it sets none, because any explicit size disables
// the kernel's automatic tuning. The receive buffer is always tuned automatically: if the receiver keeps up, the buffer
// stays small enough for a CPU cache.
func (l *Link) enlarge() {
	_ = unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, bufferBytes)
}

// Close ends both directions. Data that was sent still arrives. Data that has arrived is read and discarded first,
// because the kernel would otherwise send a reset.
func (l *Link) Close() {
	if l.fd < 0 {
		return
	}
	unix.Shutdown(l.fd, unix.SHUT_WR)
	var rest [4096]byte
	for range 1024 {
		if n, _, err := unix.Recvfrom(l.fd, rest[:], unix.MSG_DONTWAIT); n <= 0 || err != nil {
			break
		}
	}
	unix.Close(l.fd)
	l.fd = -1
}

// Progress moves as much as possible in both directions.
func (l *Link) Progress() (moved bool, err error) {
	if moved, err = l.Out.Progress(); err != nil {
		// Receive even if sending failed: the last data from the peer may explain the error.
		if _, inErr := l.In.Progress(); inErr != nil {
			err = inErr
		}
		return moved, err
	}
	in, err := l.In.Progress()
	return moved || in, err
}

// Idle reports whether nothing is posted in either direction.
func (l *Link) Idle() bool { return !l.Out.Pending() && !l.In.Pending() }

// Sleeper waits until a link can send or receive. It reuses its memory, so sleeping allocates nothing.
type Sleeper struct{ fds []unix.PollFd }

// Sleep sleeps until one of the links can make progress with data that is posted on it, for at most the limit, in whole
// milliseconds. If nothing is posted, it sleeps for the limit.
func (s *Sleeper) Sleep(limit time.Duration, links ...*Link) {
	s.fds = s.fds[:0]
	for _, l := range links {
		var events int16
		if l.In.Pending() {
			events |= unix.POLLIN
		}
		if l.Out.Pending() {
			events |= unix.POLLOUT
		}
		s.add(l, events)
	}
	s.poll(limit)
}

// SleepOn sleeps until link out can send or link in can receive, for at most the limit. Either may be nil. Meanwhile,
// other goroutines may receive from out and send to in.
func (s *Sleeper) SleepOn(limit time.Duration, out, in *Link) {
	s.fds = s.fds[:0]
	if out != nil {
		s.add(out, unix.POLLOUT)
	}
	if in != nil {
		s.add(in, unix.POLLIN)
	}
	s.poll(limit)
}

func (s *Sleeper) add(l *Link, events int16) {
	if events != 0 {
		s.fds = append(s.fds, unix.PollFd{Fd: int32(l.fd), Events: events})
	}
}

func (s *Sleeper) poll(limit time.Duration) {
	_, _ = unix.Poll(s.fds, int(max(1, limit.Milliseconds()))) // an interrupt only ends the sleep early
}
