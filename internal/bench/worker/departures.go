package worker

import (
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// departures knows whose connection ended first. A launcher that ends all ranks
// when one dies does so within a millisecond, and the goroutines that read from
// them wake in any order; the kernel's list of what is ready keeps the true one.
// (What launchers print is no help: Hydra names its first process, whichever
// it was.)
type departures struct {
	mu    sync.Mutex
	epoll int // -1 when there is none: then nobody is known to have gone first
	first int // -1 while all are there
}

func newDepartures() *departures {
	fd, _ := unix.EpollCreate1(unix.EPOLL_CLOEXEC) // -1 with an error, to which nothing can be added
	return &departures{epoll: fd, first: -1}
}

// expect has the end of a rank's connection noted.
func (d *departures) expect(conn net.Conn, rank int) {
	raw, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	event := unix.EpollEvent{Events: unix.EPOLLRDHUP, Fd: int32(rank)}
	control.Control(func(fd uintptr) { unix.EpollCtl(d.epoll, unix.EPOLL_CTL_ADD, int(fd), &event) })
}

// firstGone is the rank whose connection was the first to end, or -1.
func (d *departures) firstGone() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	var event [1]unix.EpollEvent
	for d.first < 0 {
		n, err := unix.EpollWait(d.epoll, event[:], 0)
		if n == 1 {
			d.first = int(event[0].Fd)
		}
		if err != unix.EINTR {
			break
		}
	}
	return d.first
}

func (d *departures) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.epoll >= 0 {
		unix.Close(d.epoll)
		d.epoll = -1
	}
}
