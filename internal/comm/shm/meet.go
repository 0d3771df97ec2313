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
	"slices"
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

// processors are the processors that a rank may use.
type processors struct {
	CPUs    []int
	Threads int // threads that run Go code in its process (GOMAXPROCS)
}

// Meet waits until all ranks of the group have arrived. Rank 0 creates the segment with newFile and passes it to the
// others, and every rank maps and claims it. Processes of other users and processes without the secret are refused.
func Meet(ctx context.Context, id Identity, newFile func() (*os.File, error)) (*Meeting, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, id.Timeout, fmt.Errorf("%v have passed", id.Timeout))
	defer cancel()
	m := new(Meeting)
	give := func() ([]*os.File, error) { return nil, nil }
	if id.Rank == 0 {
		if err := m.listen(id); err != nil {
			return nil, err
		}
		give = func() ([]*os.File, error) {
			f, err := newFile()
			if err != nil {
				return nil, err
			}
			return []*os.File{f}, nil
		}
	}
	all, err := exchange(ctx, id, m.listener, processors{CPUs: cores.Allowed(), Threads: runtime.GOMAXPROCS(0)}, give)
	if err == nil {
		defer closeParcels(all)
		m.count(all)
		if m.Segment, err = Map(all[0].files[0]); err == nil {
			if err = m.Segment.Claim(id.Claim); err != nil {
				m.Segment.Close()
			}
		}
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// listen opens the socket of rank 0.
func (m *Meeting) listen(id Identity) (err error) {
	if id.Size == 1 {
		return nil
	}
	m.listener, err = connection.ListenLocal(id.address())
	if errors.Is(err, syscall.EADDRINUSE) {
		return errors.New("duplicate rank 0: another process already is rank 0 of a group with this ID")
	}
	return err
}

// count records the processes of the ranks, and whether there are fewer processors or threads than ranks.
func (m *Meeting) count(all []parcel[processors]) {
	cpus, ranksInProcess := map[int]bool{}, map[int]int{}
	for _, p := range all {
		m.PIDs = append(m.PIDs, p.PID)
		ranksInProcess[p.PID]++
		m.Crowded = m.Crowded || ranksInProcess[p.PID] > p.Value.Threads
		for _, cpu := range p.Value.CPUs {
			cpus[cpu] = true
		}
	}
	m.Crowded = len(all) > 1 && (m.Crowded || len(cpus) < len(all))
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
	return connection.Service{Banner: "kernbench shm 3\n", Secret: []byte(id.Secret)}
}

func (id Identity) join() connection.Join {
	return connection.Join{Rank: id.Rank, Size: id.Size, PID: os.Getpid()}
}

// parcel is what a rank gives to all ranks of its host: a value, and open files.
type parcel[T any] struct {
	Value T
	PID   int // as the kernel knows it
	Count int // of the files
	files []*os.File
}

func closeParcels[T any](all []parcel[T]) {
	for _, p := range all {
		for _, f := range p.files {
			f.Close()
		}
	}
}

// exchange returns what every rank gives, in rank order. Rank 0 collects the parcels of the ranks, which connect to its
// listener, and sends all of them to every rank. give returns the files of this rank; rank 0 calls it when all ranks
// have come. On an error, all files are closed.
func exchange[T any](ctx context.Context, id Identity, l net.Listener, mine T,
	give func() ([]*os.File, error)) (all []parcel[T], err error) {
	switch {
	case id.Rank > 0:
		all, err = contribute(ctx, id, mine, give)
	case id.Size > 1:
		all, err = collect(ctx, id, l, mine, give)
	default:
		all = []parcel[T]{{Value: mine, PID: os.Getpid()}}
		all[0].files, err = give()
	}
	if err != nil {
		closeParcels(all)
		return nil, err
	}
	return all, nil
}

// collect is rank 0's part of exchange.
func collect[T any](ctx context.Context, id Identity, l net.Listener, mine T,
	give func() ([]*os.File, error)) (all []parcel[T], err error) {
	g := &connection.Group{Noun: "rank", Size: id.Size}
	arrivals := connection.Arrivals[parcel[T]](l, id.service())
	defer func() { go connection.RefuseLatecomers(arrivals, g) }()
	g.Admit(connection.SelfPeer, id.join())
	ranks, err := connection.Collect(ctx, arrivals, g)
	if err != nil {
		return nil, err
	}
	own, err := give()
	all, flat := []parcel[T]{{mine, os.Getpid(), len(own), own}}, own
	for _, r := range ranks[1:] {
		p := r.Payload
		theirs, failed := r.Files(p.Count)
		p.PID, p.files, err = r.Join.PID, theirs, errors.Join(err, failed)
		all, flat = append(all, p), slices.Concat(flat, theirs)
	}
	var faults []error
	for _, r := range ranks[1:] {
		if err != nil {
			r.Refuse(err.Error())
		} else if err := connection.Welcome(r, all, flat...); err != nil {
			faults = append(faults, fmt.Errorf("answering rank %d (pid %d): %w", r.Join.Rank, r.Join.PID, err))
		}
	}
	return all, errors.Join(append(faults, err)...)
}

// contribute is the other ranks' part of exchange. It retries until rank 0 listens, because rank 0 may start later.
func contribute[T any](ctx context.Context, id Identity, mine T,
	give func() ([]*os.File, error)) (all []parcel[T], err error) {
	c, err := id.service().DialAny(ctx, "unix", "@"+id.address())
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for rank 0: %w", err)
	}
	defer c.Close()
	own, err := give()
	if err != nil {
		return nil, err
	}
	all, err = connection.JoinOnce[[]parcel[T]](ctx, c, id.join(), parcel[T]{Value: mine, Count: len(own)}, own...)
	for r := range all {
		if err == nil {
			all[r].files, err = c.Files(all[r].Count)
		}
	}
	if err != nil {
		return all, fmt.Errorf("joining rank 0: %w", err)
	}
	for i, copied := range all[id.Rank].files {
		copied.Close()
		all[id.Rank].files[i] = own[i]
	}
	return all, nil
}
