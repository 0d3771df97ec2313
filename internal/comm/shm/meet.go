package shm

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Party is a rank looking for the others of its group on this host.
type Party struct {
	ID      string
	Secret  string
	Rank    int
	Size    int
	Timeout time.Duration
	CPUs    []int // that this rank may use
	Threads int   // that run Go code in its process
}

// Meeting is what a rank knows once all have met.
type Meeting struct {
	File    *os.File // of the segment
	PIDs    []int
	Crowded bool // more ranks than cores they may use
	door    *net.UnixListener
}

// hello is what a rank says to rank 0, and welcome the answer.
type hello struct {
	Rank, Size int
	Proof      string
	CPUs       []int
	Threads    int
}

type welcome struct {
	Refusal string `json:",omitempty"`
	PIDs    []int  `json:",omitempty"`
	Crowded bool   `json:",omitempty"`
	Proof   string
}

const (
	retryEvery = 2 * time.Millisecond
	maxMessage = 1 << 20
)

// Meet finds the other ranks. Rank 0 makes the segment's file and hands it over a
// socket that has no place in the file system; ends of other users, or without the
// secret, are turned away.
func Meet(ctx context.Context, p Party, newFile func() (*os.File, error)) (*Meeting, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	if p.Rank == 0 {
		return p.host(ctx, newFile)
	}
	return p.visit(ctx)
}

// Close stops turning away those who come too late.
func (m *Meeting) Close() {
	if m.door != nil {
		m.door.Close()
	}
}

func (p Party) address() *net.UnixAddr {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s", os.Getuid(), p.ID))
	return &net.UnixAddr{Net: "unixpacket", Name: "@kernbench-dist-" + hex.EncodeToString(sum[:12])}
}

// proof shows that an end knows the secret, without showing the secret.
func (p Party) proof(side string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s", side, p.ID, p.Secret))
	return hex.EncodeToString(sum[:])
}

// guest is a rank that has come.
type guest struct {
	conn *net.UnixConn
	pid  int
	hello
}

// host is the part of rank 0.
func (p Party) host(ctx context.Context, newFile func() (*os.File, error)) (*Meeting, error) {
	file, err := newFile()
	if err != nil {
		return nil, err
	}
	m := &Meeting{File: file, PIDs: make([]int, p.Size)}
	m.PIDs[0] = os.Getpid()
	if p.Size == 1 {
		return m, nil
	}
	m.door, err = net.ListenUnix("unixpacket", p.address())
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("rank 0 twice: another process already is rank 0 of a group with this ID; each process needs a rank of its own")
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	guests := make([]*guest, p.Size)
	guests[0] = &guest{pid: os.Getpid(), hello: hello{Size: p.Size, CPUs: p.CPUs, Threads: p.Threads}}
	err = p.receive(ctx, m.door, guests)
	if err == nil {
		err = p.admit(m, guests)
	}
	for _, g := range guests {
		if g != nil && g.conn != nil {
			if err != nil {
				answer(g.conn, welcome{Refusal: err.Error()}, nil)
			}
			g.conn.Close()
		}
	}
	if err != nil {
		m.door.Close()
		file.Close()
		return nil, err
	}
	go p.turnAway(m.door)
	return m, nil
}

// receive lets ranks in until all are there. A rank that does not fit is an error for all.
func (p Party) receive(ctx context.Context, door *net.UnixListener, guests []*guest) error {
	deadline, _ := ctx.Deadline()
	defer context.AfterFunc(ctx, func() { door.SetDeadline(time.Now()) })()
	var strangers []error
	for missing := p.Size - 1; missing > 0; {
		conn, err := door.AcceptUnix()
		if err != nil {
			return errors.Join(append([]error{p.absent(ctx, guests)}, strangers...)...)
		}
		conn.SetDeadline(deadline)
		g, err := p.greet(conn)
		if err != nil {
			answer(conn, welcome{Refusal: err.Error()}, nil)
			conn.Close()
			strangers = append(strangers, err)
			continue
		}
		var fault error
		switch {
		case g.Size != p.Size:
			fault = fmt.Errorf("rank %d (pid %d) believes in %d ranks, rank 0 (pid %d) in %d", g.Rank, g.pid, g.Size, os.Getpid(), p.Size)
		case g.Rank < 0 || g.Rank >= p.Size:
			fault = fmt.Errorf("pid %d wants to be rank %d, want 0 to %d", g.pid, g.Rank, p.Size-1)
		case guests[g.Rank] != nil:
			fault = fmt.Errorf("rank %d twice: processes %d and %d both say that they are it; each needs a rank of its own", g.Rank, guests[g.Rank].pid, g.pid)
		}
		if fault != nil {
			answer(conn, welcome{Refusal: fault.Error()}, nil)
			conn.Close()
			return fault
		}
		guests[g.Rank] = g
		missing--
	}
	return nil
}

// absent says who did not come.
func (p Party) absent(ctx context.Context, guests []*guest) error {
	var missing []int
	for r, g := range guests {
		if g == nil {
			missing = append(missing, r)
		}
	}
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("ranks %v of %d have not come within %v", missing, p.Size, p.Timeout)
	}
	return fmt.Errorf("waiting for ranks %v of %d: %w", missing, p.Size, cause)
}

// greet reads who has come, and that it may.
func (p Party) greet(conn *net.UnixConn) (*guest, error) {
	uid, pid, err := credentials(conn)
	if err != nil {
		return nil, err
	}
	if uid != os.Getuid() {
		return nil, fmt.Errorf("pid %d of user %d turned away: the group belongs to user %d", pid, uid, os.Getuid())
	}
	g := &guest{conn: conn, pid: pid}
	buf := make([]byte, maxMessage)
	n, err := conn.Read(buf)
	if err == nil {
		err = json.Unmarshal(buf[:n], &g.hello)
	}
	if err != nil {
		return nil, fmt.Errorf("pid %d turned away: %w", pid, err)
	}
	if !hmac.Equal([]byte(g.Proof), []byte(p.proof("guest"))) {
		return nil, fmt.Errorf("pid %d turned away as rank %d: wrong secret", pid, g.Rank)
	}
	return g, nil
}

// admit gives everyone the segment.
func (p Party) admit(m *Meeting, guests []*guest) error {
	cpus, together := map[int]bool{}, map[int]int{}
	for r, g := range guests {
		m.PIDs[r] = g.pid
		together[g.pid]++
		m.Crowded = m.Crowded || together[g.pid] > g.Threads
		for _, cpu := range g.CPUs {
			cpus[cpu] = true
		}
	}
	m.Crowded = m.Crowded || len(cpus) < p.Size
	for r, g := range guests[1:] {
		w := welcome{PIDs: m.PIDs, Crowded: m.Crowded, Proof: p.proof("host")}
		if err := answer(g.conn, w, unix.UnixRights(int(m.File.Fd()))); err != nil {
			return fmt.Errorf("handing the shared memory to rank %d (pid %d): %w", r+1, g.pid, err)
		}
	}
	return nil
}

func answer(conn *net.UnixConn, w welcome, rights []byte) error {
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	conn.SetWriteDeadline(time.Now().Add(time.Second)) // also when the time to wait is over
	_, _, err = conn.WriteMsgUnix(text, rights, nil)
	return err
}

// turnAway answers those who come when the group is complete.
func (p Party) turnAway(door *net.UnixListener) {
	for {
		conn, err := door.AcceptUnix()
		if err != nil {
			return
		}
		conn.SetDeadline(time.Now().Add(time.Second))
		if g, err := p.greet(conn); err != nil {
			answer(conn, welcome{Refusal: err.Error()}, nil)
		} else {
			answer(conn, welcome{Refusal: fmt.Sprintf("rank %d twice, or too many: the group of %d ranks is complete", g.Rank, p.Size)}, nil)
		}
		conn.Close()
	}
}

// visit is the part of the other ranks.
func (p Party) visit(ctx context.Context) (*Meeting, error) {
	conn, err := p.knock(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline.Add(time.Second)) // rank 0 knows better who is missing: let it say so
	defer context.AfterFunc(ctx, func() {
		if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			conn.SetDeadline(time.Now())
		}
	})()
	if uid, pid, err := credentials(conn); err != nil || uid != os.Getuid() {
		return nil, fmt.Errorf("pid %d of user %d answers for rank 0: this is user %d (%v)", pid, uid, os.Getuid(), err)
	}
	text, err := json.Marshal(hello{Rank: p.Rank, Size: p.Size, Proof: p.proof("guest"), CPUs: p.CPUs, Threads: p.Threads})
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(text); err != nil {
		return nil, fmt.Errorf("telling rank 0: %w", err)
	}
	buf, oob := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := conn.ReadMsgUnix(buf, oob)
	if err == nil && n == 0 {
		err = errors.New("it closed the connection")
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for rank 0 and the others: %w", errors.Join(err, context.Cause(ctx)))
	}
	return p.enter(buf[:n], oob[:oobn])
}

// knock connects to rank 0, which may come later.
func (p Party) knock(ctx context.Context) (*net.UnixConn, error) {
	for {
		conn, err := net.DialUnix("unixpacket", nil, p.address())
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
				return nil, fmt.Errorf("looking for rank 0: %w", cause)
			}
			return nil, fmt.Errorf("rank 0 has not come within %v: %w", p.Timeout, err)
		case <-time.After(retryEvery):
		}
	}
}

// enter reads rank 0's answer and the file that came with it.
func (p Party) enter(text, oob []byte) (*Meeting, error) {
	var w welcome
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, fmt.Errorf("reading the answer of rank 0: %w", err)
	}
	if w.Refusal != "" {
		return nil, fmt.Errorf("rank 0: %s", w.Refusal)
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("rank 0 sent no shared memory (%v)", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("rank 0 sent no shared memory (%v)", err)
	}
	unix.CloseOnExec(fds[0])
	file := os.NewFile(uintptr(fds[0]), "kernbench-dist")
	if !hmac.Equal([]byte(w.Proof), []byte(p.proof("host"))) {
		file.Close()
		return nil, errors.New("what answers for rank 0 does not know the secret")
	}
	return &Meeting{File: file, PIDs: w.PIDs, Crowded: w.Crowded}, nil
}

// credentials asks the kernel who is at the other end.
func credentials(conn *net.UnixConn) (uid, pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cred *unix.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) { cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, inner); err != nil {
		return 0, 0, fmt.Errorf("asking who is at the other end: %w", err)
	}
	return int(cred.Uid), int(cred.Pid), nil
}
