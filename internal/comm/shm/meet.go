package shm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// Identity is what a rank must know to find the other ranks of its group on this host.
type Identity struct {
	ID      string // of the group
	Secret  string
	Rank    int
	Size    int
	Claim   int           // the number under which the rank claims the segment
	Timeout time.Duration // of Meet, and of each wait in the group
}

// Meeting is the result of [Meet].
type Meeting struct {
	Segment  *Segment // already claimed by this rank
	PIDs     []int
	Crowded  bool         // more ranks than cores they may use
	listener net.Listener // of rank 0
}

// processors tells rank 0 which processors a rank may use. The answer is a welcome, together with the file of the
// segment.
type processors struct {
	CPUs    []int // the CPUs that the rank may use
	Threads int   // threads that run Go code in its process (GOMAXPROCS)
}

type welcome struct {
	PIDs    []int
	Crowded bool
}

// Meet waits until all ranks of the group have arrived. Rank 0 creates the segment with newFile and passes it to the
// others, and every rank maps and claims it. Processes of other users and processes without the secret are refused.
func Meet(ctx context.Context, id Identity, newFile func() (*os.File, error)) (*Meeting, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, id.Timeout, fmt.Errorf("%v have passed", id.Timeout))
	defer cancel()
	m := new(Meeting)
	var file *os.File
	var err error
	if id.Rank == 0 {
		file, err = id.hostMeeting(ctx, m, newFile)
	} else {
		file, err = id.joinMeeting(ctx, m)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if m.Segment, err = Map(file); err == nil {
		if err = m.Segment.Claim(id.Claim); err != nil {
			m.Segment.Close()
		}
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Close stops refusing processes that arrive too late. Until then, they get an error that says so.
func (m *Meeting) Close() {
	if m.listener != nil {
		m.listener.Close()
	}
}

// address returns the name of a socket in the abstract namespace of Linux, which leaves no file behind.
func (id Identity) address() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s", os.Getuid(), id.ID))
	return "kernbench-shm-" + hex.EncodeToString(sum[:12])
}

func (id Identity) service() connection.Service {
	return connection.Service{Banner: "kernbench shm 2\n", Secret: []byte(id.Secret)}
}

func (id Identity) join() connection.Join {
	return connection.Join{Rank: id.Rank, Size: id.Size, PID: os.Getpid()}
}

func (id Identity) processors() processors {
	return processors{CPUs: cores.Allowed(), Threads: runtime.GOMAXPROCS(0)}
}

// hostMeeting is rank 0's part of Meet.
func (id Identity) hostMeeting(ctx context.Context, m *Meeting,
	newFile func() (*os.File, error)) (file *os.File, err error) {
	if id.Size == 1 {
		m.PIDs = []int{os.Getpid()}
		return newFile()
	}
	m.listener, err = connection.ListenLocal(id.address())
	if errors.Is(err, syscall.EADDRINUSE) {
		err = errors.New("duplicate rank 0: another process already is rank 0 of a group with this ID")
	}
	if err != nil {
		return nil, err
	}
	g := &connection.Group{Noun: "rank", Size: id.Size}
	arrivals := connection.Arrivals[processors](m.listener, id.service())
	defer func() { go connection.RefuseLatecomers(arrivals, g) }()
	g.Admit(connection.SelfPeer, id.join())
	ranks, err := connection.Collect(ctx, arrivals, g)
	if err == nil {
		if file, err = newFile(); err == nil {
			err = id.admit(m, file, ranks)
		} else {
			for _, r := range ranks[1:] {
				r.Refuse(err.Error())
			}
		}
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return file, nil
}

// admit computes whether the host is crowded and sends the file to every rank.
func (id Identity) admit(m *Meeting, file *os.File, ranks []*connection.Arrival[processors]) error {
	ranks[0] = &connection.Arrival[processors]{Join: id.join(), Payload: id.processors()}
	cpus, ranksInProcess := map[int]bool{}, map[int]int{}
	for _, r := range ranks {
		pid := r.Join.PID
		m.PIDs = append(m.PIDs, pid)
		ranksInProcess[pid]++
		m.Crowded = m.Crowded || ranksInProcess[pid] > r.Payload.Threads
		for _, cpu := range r.Payload.CPUs {
			cpus[cpu] = true
		}
	}
	m.Crowded = m.Crowded || len(cpus) < id.Size
	var failed error
	for r, a := range ranks[1:] {
		if err := connection.Welcome(a, welcome{m.PIDs, m.Crowded}, file); err != nil {
			failed = errors.Join(failed, fmt.Errorf("giving the shared memory to rank %d (pid %d): %w", r+1, m.PIDs[r+1], err))
		}
	}
	if failed != nil {
		file.Close()
	}
	return failed
}

// joinMeeting is the other ranks' part of Meet. It retries until rank 0 listens, because rank 0 may start later.
func (id Identity) joinMeeting(ctx context.Context, m *Meeting) (*os.File, error) {
	c, err := id.service().DialAny(ctx, "unix", "@"+id.address())
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for rank 0: %w", err)
	}
	defer c.Close()
	w, err := connection.JoinOnce[welcome](ctx, c, id.join(), id.processors())
	if err != nil {
		return nil, fmt.Errorf("joining rank 0: %w", err)
	}
	files, err := c.Files(1)
	if err != nil {
		return nil, fmt.Errorf("joining rank 0: %w", err)
	}
	m.PIDs, m.Crowded = w.PIDs, w.Crowded
	return files[0], nil
}
