package cpu

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/comm/tcp"
)

// spanning is one rank's end of a group over several hosts. The ranks of this
// host have the shared memory of an ordinary engine, on a board that has room
// for all ranks, under their numbers in the whole group: so a failure that one
// of them notices or hears of is there for all of them, and names the right ranks.
// The others are reached over TCP.
type spanning struct {
	*engine
	*family
	rank   int
	world  []int    // the ranks' numbers in the first group
	places []place  // by rank
	hosts  [][]int  // ranks by host, in order of their first ranks
	host   int      // this rank's
	locals []int    // hosts[host]
	place  int      // this rank's in it
	tag    [16]byte // names the group to the lobbies

	links    []*tcp.Link    // for collectives, by rank; nil for ranks of this host
	leaders  []*tcp.Link    // those to the first ranks of the other hosts, if this is the first of its own
	chats    []*tcp.Link    // for the program's messages
	controls []*tcp.Control // nil for this rank alone

	crowded bool
	shared  bool // other ranks are goroutines of this process
	group   int  // for hierarchical schedules: so many neighbouring ranks are always on one host
	caps    dist.Capabilities

	calls  atomic.Uint64 // begun
	labels [2]atomic.Pointer[shm.Label]
	splits int

	alive  sync.RWMutex // of the segment, which control connections outlive
	closed bool
	told   atomic.Bool // the others know that the group has failed

	memory map[unsafe.Pointer]dist.Buffer // that Alloc gave
	sleeps tcp.Sleeper                    // of collectives
}

// newSpanning works out who is where; it opens nothing.
func newSpanning(f *family, rank int, world []int, id string) *spanning {
	s := &spanning{family: f, rank: rank, world: world, memory: map[unsafe.Pointer]dist.Buffer{},
		links: make([]*tcp.Link, len(world)), chats: make([]*tcp.Link, len(world)), controls: make([]*tcp.Control, len(world))}
	sum := sha256.Sum256([]byte(id))
	s.tag = [16]byte(sum[:])
	at := map[string]int{}
	for r, w := range world {
		p := f.places[w]
		s.places = append(s.places, p)
		if _, known := at[p.Host]; !known {
			at[p.Host] = len(s.hosts)
			s.hosts = append(s.hosts, nil)
		}
		s.hosts[at[p.Host]] = append(s.hosts[at[p.Host]], r)
	}
	me := s.places[rank]
	s.host = at[me.Host]
	s.locals = s.hosts[s.host]
	s.place = slices.Index(s.locals, rank)
	s.group = groupSize(s.places)
	s.caps = acrossHosts(capabilities())

	// Ranks that count as on other hosts may be on this machine all the same.
	cpus, ranks, together := map[int]bool{}, 0, 0
	for r, p := range s.places {
		if p.Machine == me.Machine {
			ranks++
			for _, cpu := range p.CPUs {
				cpus[cpu] = true
			}
			if p.PID == me.PID {
				together++
				s.shared = s.shared || r != rank
			}
		}
	}
	s.crowded = ranks > len(cpus) || together > me.Threads
	return s
}

// groupSize is the largest number of neighbouring ranks, from a multiple of it
// on, that are always on one host.
func groupSize(places []place) int {
	for size := len(places); size > 1; size-- {
		if len(places)%size != 0 {
			continue
		}
		fits := true
		for r, p := range places {
			fits = fits && p.Host == places[r-r%size].Host
		}
		if fits {
			return size
		}
	}
	return 1
}

// acrossHosts leaves what works without reaching into a peer's memory, and puts
// what is right without a table first.
func acrossHosts(c dist.Capabilities) dist.Capabilities {
	c.Symmetric = false
	c.Algorithms = maps.Clone(c.Algorithms)
	for op := range c.Algorithms {
		var names []string
		for _, info := range schedule.Algorithms(string(op)) {
			switch {
			case info.Name == hierarchical:
				names = slices.Insert(names, 0, info.Name)
			case !info.Direct:
				names = append(names, info.Name)
			}
		}
		c.Algorithms[op] = names
	}
	return c
}

const hierarchical = "hierarchical"

func (s *spanning) Rank() int                       { return s.rank }
func (s *spanning) Size() int                       { return len(s.world) }
func (s *spanning) Capabilities() dist.Capabilities { return s.caps }

// local tells whether a rank is on this host.
func (s *spanning) local(peer int) bool { return s.places[peer].Host == s.places[s.rank].Host }

// named is how errors name a rank.
func (s *spanning) named(peer int) string {
	return fmt.Sprintf("rank %d (pid %d, host %s)", peer, s.places[peer].PID, s.places[peer].Name)
}

// Alloc gives ordinary memory: there is none that ranks of several hosts reach.
// All ranks agree on it nevertheless, as everywhere.
func (s *spanning) Alloc(d dist.DType, count int) (dist.Buffer, error) {
	if _, err := s.gather(shm.NewLabel(fmt.Sprintf("alloc of %d %v", count, d)), words{}); err != nil {
		return dist.Buffer{}, s.outward(err)
	}
	if count == 0 {
		return dist.NewBuffer(d, 0, nil, nil), nil
	}
	mem := make([]uint64, (count*d.Size()+7)/8) // aligned for every type
	b := dist.NewBuffer(d, count, unsafe.Pointer(&mem[0]), nil)
	s.memory[unsafe.Pointer(&mem[0])] = b
	return b, nil
}

func (s *spanning) Free(b dist.Buffer) error {
	if b.Count() == 0 {
		return nil
	}
	at := unsafe.Pointer(&b.Bytes()[0])
	if _, known := s.memory[at]; !known {
		return fmt.Errorf("freeing %v: not memory that this group allocated", b)
	}
	delete(s.memory, at)
	return nil
}

// Split makes groups of one host ordinary ones.
func (s *spanning) Split(color, key int) (dist.Engine, error) {
	e, err := s.split(color, key)
	if err != nil {
		return nil, s.outward(err)
	}
	return e, nil
}

func (s *spanning) split(color, key int) (dist.Engine, error) {
	label := shm.NewLabel("split")
	all, err := s.gather(label, words{uint64(color), uint64(key)})
	if err != nil {
		return nil, err
	}
	s.splits++
	var ranks []int
	for r, w := range all {
		if int(w[0]) == color {
			ranks = append(ranks, r)
		}
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(int(all[a][1]), int(all[b][1])) })
	// The first rank of a new group on each host makes the board there.
	const none = ^uint64(0)
	maker := ranks[slices.IndexFunc(ranks, s.local)]
	board, failed := none, error(nil)
	if color >= 0 && maker == s.rank {
		off, err := s.heap.Alloc(shm.BoardBytes(len(ranks)))
		if failed = err; err == nil {
			board = uint64(off)
		}
	}
	if all, err = s.gather(label, words{board}); err != nil || color < 0 {
		return nil, err
	}
	if board = all[maker][0]; board == none {
		return nil, fmt.Errorf("splitting: %w", cmp.Or(failed, fmt.Errorf("rank %d has no memory left", maker)))
	}
	joined := shm.Membership{Segment: s.segment, Board: shm.BoardAt(s.segment, int(board), len(ranks)),
		Rank: slices.Index(ranks, s.rank), Crowded: s.crowded, Timeout: s.timeout}
	world := make([]int, len(ranks))
	for i, r := range ranks {
		world[i] = s.world[r]
		joined.PIDs = append(joined.PIDs, s.places[r].PID)
	}
	joined.World = world
	s.segment.Keep()
	e := newEngine(s.segment, s.heap, joined)
	if !slices.ContainsFunc(ranks, func(r int) bool { return !s.local(r) }) {
		return e, nil
	}
	return s.branch(e, world, fmt.Sprintf("%x/%d/%d", s.tag, s.splits, color))
}

// branch connects the ranks of a new group.
func (s *spanning) branch(e *engine, world []int, id string) (dist.Engine, error) {
	child := newSpanning(s.family, e.Rank(), world, id)
	child.engine = e
	s.lobby.Keep()
	ctx, cancel := timed(s.timeout)
	defer cancel()
	if err := child.connect(ctx); err != nil {
		child.Close()
		return nil, s.member.Fail(shm.Failure{Kind: shm.Refusal, Text: fmt.Sprintf("splitting: %v", err)})
	}
	return child, nil
}

func (s *spanning) Refuse(reason error) {
	s.engine.Refuse(reason)
	s.spread()
}

// Close says goodbye, so that the others can tell it from death.
func (s *spanning) Close() error {
	s.alive.Lock()
	s.closed = true
	s.alive.Unlock()
	var bye sync.WaitGroup
	for _, c := range s.controls {
		if c != nil {
			bye.Go(c.Close)
		}
	}
	bye.Wait()
	for _, l := range slices.Concat(s.links, s.chats) {
		if l != nil {
			l.Close()
		}
	}
	s.lobby.Close()
	return s.engine.Close()
}
