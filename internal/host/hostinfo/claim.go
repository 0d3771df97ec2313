package hostinfo

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// ClaimName is the address of the socket that a measuring kernbench listens on. It is an abstract
// address: it exists in the network namespace and not on disk, so that nothing is left
// behind if the process is killed. Containers with their own network do not see each other's
// claims.
const ClaimName = "@kernbench-measuring"

// TakenError is the error if another process holds the claim.
type TakenError struct {
	PID int // 0 if the process is not visible from here
	// Gone is closed when the process releases the claim, after which Claim may be called again. That call fails if a
	// third process was faster. Gone is nil if the release cannot be observed.
	Gone <-chan struct{}
}

func (e *TakenError) Error() string {
	if e.PID == 0 {
		return "another kernbench is measuring on this host"
	}
	return fmt.Sprintf("another kernbench (process %d) is measuring on this host", e.PID)
}

// Measuring is a claim that this process holds.
type Measuring struct {
	listener *net.UnixListener
	done     chan struct{} // closed when answer has returned

	mu      sync.Mutex             // guards others and callers
	others  []int                  // processes that tried to claim the host, in order
	callers map[*net.UnixConn]bool // processes that wait for the end of the claim; nil after Close
}

const (
	// maxCallers limits the number of open connections, because any process on this host may
	// connect.
	maxCallers = 64

	// claimTries limits the attempts if other processes take and release the claim meanwhile. The address may be in use
	// when we bind, but the holder may be gone, or not yet listening, when we connect.
	claimTries = 50
	claimPause = time.Millisecond

	// answerTime is how long we wait until the holder has recorded us. A stopped holder does not
	// answer, but still holds the claim.
	answerTime = time.Second
)

// Claim declares that this process is measuring on this host. The name is ClaimName except in
// tests. If another process holds the claim, the error is a *TakenError with its process
// ID, and that process records ours.
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
	return nil, &TakenError{} // the address is in use, but nobody accepts connections
}

// callHolder connects to the holder, which then records this process. It returns nil if there is no holder.
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
	// The holder sends a byte when it has recorded us, and closes the connection when it releases
	// the claim. It holds the claim whether or not it answers in time.
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

// answer records the processes that connect, until the claim is released.
func (m *Measuring) answer() {
	defer close(m.done)
	for {
		conn, err := m.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(claimPause) // perhaps out of file descriptors; the claim is still held
			continue
		}
		// The kernel stored the caller's process ID when it connected, so this works even if the
		// caller has ended.
		if peer, err := Peer(conn); err == nil {
			m.record(int(peer.Pid))
		}
		m.keep(conn)
	}
}

// keep answers a caller and keeps the connection until either side closes it.
func (m *Measuring) keep(conn *net.UnixConn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.callers == nil || len(m.callers) == maxCallers {
		conn.Close()
		return
	}
	m.callers[conn] = true
	go func() {
		conn.Write([]byte{1}) // never blocks: it fits into the buffer of the socket
		conn.Read(make([]byte, 1))
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.callers, conn)
		conn.Close()
	}()
}

func (m *Measuring) record(pid int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(m.others, pid) {
		m.others = append(m.others, pid)
	}
}

// Others returns the processes that tried to claim the host since this process did, in order.
func (m *Measuring) Others() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.others)
}

// Close releases the claim. Others may be called afterwards.
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

// Peer returns the process and the user at the other end of a connection, as known to the kernel.
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
		return nil, fmt.Errorf("reading the credentials of the peer: %w", err)
	}
	return peer, nil
}
