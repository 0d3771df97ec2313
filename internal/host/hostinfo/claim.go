package hostinfo

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// ClaimName is the socket that means "a kernbench is measuring here". It is
// an abstract one: it lives in the network namespace, not on disk, so nothing is
// left behind however the holder ends. Containers with a network of their own
// do not see each other's.
const ClaimName = "@kernbench-measuring"

// TakenError says that another process holds the claim.
type TakenError struct {
	PID int // 0 when it is not visible from here
	// Gone is closed when it does not any more; nil where that cannot be told. Who then claims
	// at once never measures without the others' knowing.
	Gone <-chan struct{}
}

func (e *TakenError) Error() string {
	if e.PID == 0 {
		return "another kernbench is measuring on this host"
	}
	return fmt.Sprintf("another kernbench (process %d) is measuring on this host", e.PID)
}

// Measuring is a held claim.
type Measuring struct {
	listener *net.UnixListener
	done     chan struct{} // closed when no more callers are answered

	mu      sync.Mutex
	others  []int
	callers map[*net.UnixConn]bool // who wait for the end of the claim
}

const (
	// mostCallers bounds the connections that are kept: anybody on this host may call.
	mostCallers = 64

	// claimTries bounds the attempts when the claim changes hands while we
	// look: taken when we bind, gone (or not yet listening) when we ask.
	claimTries = 50
	claimPause = time.Millisecond

	// answerTime is how long we wait for the holder to have noted us. A
	// holder that is stopped does not answer, and holds the claim all the same.
	answerTime = time.Second
)

// Claim declares that this process measures on this host, under the given
// name (ClaimName, except in tests). If another does already it is told of us,
// and the error is a *TakenError with its process id.
func Claim(name string) (*Measuring, error) {
	address := &net.UnixAddr{Name: name, Net: "unix"}
	for range claimTries {
		listener, err := net.ListenUnix("unix", address)
		if err == nil {
			m := &Measuring{listener: listener, done: make(chan struct{}), callers: map[*net.UnixConn]bool{}}
			go m.answer()
			return m, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("claiming this host for measuring: %w", err)
		}
		if taken := callHolder(address); taken != nil {
			return nil, taken
		}
		time.Sleep(claimPause)
	}
	return nil, &TakenError{} // always bound, but it does not answer
}

// callHolder connects to the holder, which is how it learns of us; nil if there is none.
func callHolder(address *net.UnixAddr) *TakenError {
	conn, err := net.DialUnix("unix", nil, address)
	if err != nil {
		return nil
	}
	peer, err := Peer(conn)
	if err != nil {
		conn.Close()
		return nil
	}
	// The holder answers once it has noted us, and hangs up when it gives the claim back. Whether it
	// answered in time makes no difference to who holds the claim.
	conn.SetReadDeadline(time.Now().Add(answerTime))
	taken := &TakenError{PID: int(peer.Pid)}
	if n, _ := conn.Read(make([]byte, 1)); n == 0 {
		conn.Close()
		return taken
	}
	conn.SetReadDeadline(time.Time{})
	gone := make(chan struct{})
	taken.Gone = gone
	go func() {
		defer close(gone)
		conn.Read(make([]byte, 1))
		conn.Close()
	}()
	return taken
}

// answer notes who calls, until the claim is released.
func (m *Measuring) answer() {
	defer close(m.done)
	for {
		conn, err := m.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(claimPause) // out of file descriptors, perhaps; the claim stays held
			continue
		}
		// The kernel noted the caller's id when it connected, so this works
		// even if it is gone by now.
		if peer, err := Peer(conn); err == nil {
			m.note(int(peer.Pid))
		}
		m.keep(conn)
	}
}

// keep answers a caller, and hangs up when either ends.
func (m *Measuring) keep(conn *net.UnixConn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.callers == nil || len(m.callers) == mostCallers {
		conn.Close()
		return
	}
	m.callers[conn] = true
	go func() {
		conn.Write([]byte{1}) // fits the socket's buffer
		conn.Read(make([]byte, 1))
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.callers, conn)
		conn.Close()
	}()
}

func (m *Measuring) note(pid int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(m.others, pid) {
		m.others = append(m.others, pid)
	}
}

// Others lists the processes that tried to measure here since the claim was
// made, in the order they came.
func (m *Measuring) Others() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.others)
}

// Close releases the claim. Others stays readable.
func (m *Measuring) Close() error {
	err := m.listener.Close()
	<-m.done
	m.mu.Lock()
	defer m.mu.Unlock()
	for conn := range m.callers {
		conn.Close()
	}
	m.callers = nil
	return err
}

var _ io.Closer = (*Measuring)(nil)

// Peer asks the kernel for the process at the other end, and its user.
func Peer(conn *net.UnixConn) (*syscall.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var peer *syscall.Ucred
	var optErr error
	err = raw.Control(func(fd uintptr) {
		peer, optErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, optErr); err != nil {
		return nil, fmt.Errorf("asking who is at the other end: %w", err)
	}
	return peer, nil
}
