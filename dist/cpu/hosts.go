package cpu

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/comm/tcp"
)

// hosts is what an engine has in addition when its ranks are on several hosts.
// The ranks of this host have shared memory as in any group, on a board that has room for
// all ranks, under their numbers in the whole group: so a failure that one of them
// notices or hears of is there for all of them, and names the right ranks. The
// others are reached over TCP.
type hosts struct {
	*cluster
	engine    *engine
	rank      int
	world     []int      // the ranks' numbers in the first group
	ranks     []rankInfo // by rank
	byHost    [][]int    // ranks by host, in order of their first ranks
	host      int        // this rank's
	locals    []int      // byHost[host]
	localRank int        // this rank's index in it
	tag       [16]byte   // names the group to the listeners

	leaders  []*tcp.Link    // those to the first ranks of the other hosts, if this is the first of its own
	controls []*tcp.Control // nil for this rank alone

	crowded bool
	group   int // for hierarchical schedules: so many neighbouring ranks are always on one host

	calls  atomic.Uint64 // begun
	labels [2]atomic.Pointer[shm.Label]

	alive  sync.RWMutex // of the segment, which control connections outlive
	closed bool
	told   atomic.Bool // the others know that the group has failed

	noted sync.Mutex
	notes [][]byte // what the others have published last, by rank

	memory map[unsafe.Pointer]bool // that alloc gave
	sleeps tcp.Sleeper             // of collectives
}

// newHosts works out who is where; it opens nothing.
func newHosts(c *cluster, rank int, world []int, id string) *hosts {
	h := &hosts{cluster: c, rank: rank, world: world,
		memory: map[unsafe.Pointer]bool{}, controls: make([]*tcp.Control, len(world)), notes: make([][]byte, len(world))}
	sum := sha256.Sum256([]byte(id))
	h.tag = [16]byte(sum[:])
	at := map[string]int{}
	for r, w := range world {
		p := c.all[w]
		h.ranks = append(h.ranks, p)
		if _, known := at[p.Host]; !known {
			at[p.Host] = len(h.byHost)
			h.byHost = append(h.byHost, nil)
		}
		h.byHost[at[p.Host]] = append(h.byHost[at[p.Host]], r)
	}
	me := h.ranks[rank]
	h.host = at[me.Host]
	h.locals = h.byHost[h.host]
	h.localRank = slices.Index(h.locals, rank)
	h.group = groupSize(h.ranks)

	// Ranks that count as on other hosts may be on this machine all the same.
	cpus, ranks, together := map[int]bool{}, 0, 0
	for _, p := range h.ranks {
		if p.Machine == me.Machine {
			ranks++
			for _, cpu := range p.CPUs {
				cpus[cpu] = true
			}
			if p.PID == me.PID {
				together++
			}
		}
	}
	h.crowded = ranks > len(cpus) || together > me.Threads
	return h
}

// pids are the processes of the ranks.
func (h *hosts) pids() []int { return lists.Map(h.ranks, func(p rankInfo) int { return p.PID }) }

// groupSize is the largest number of neighbouring ranks, from a multiple of it
// on, that are always on one host.
func groupSize(ranks []rankInfo) int {
	for size := len(ranks); size > 1; size-- {
		if len(ranks)%size != 0 {
			continue
		}
		fits := true
		for r, p := range ranks {
			fits = fits && p.Host == ranks[r-r%size].Host
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
	c.Features = slices.DeleteFunc(slices.Clone(c.Features), func(f dist.Feature) bool {
		// hierarchical first adds within each host, so its order depends on where the ranks are.
		return f == dist.SymmetricMemory || f == dist.ScheduleOrder
	})
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

// local tells whether a rank is on this host.
func (h *hosts) local(peer int) bool { return h.ranks[peer].Host == h.ranks[h.rank].Host }

// hostsEngine is the engine of a group whose ranks are on several hosts. Ranks reach each other's memory only within a
// host, so it has ordinary memory and no fast all-reduce, and it tells the other hosts when a call fails.
type hostsEngine struct{ *engine }

// Alloc returns ordinary memory: no memory is shared between hosts.
func (e hostsEngine) Alloc(d dist.DType, count int) (dist.Buffer, error) {
	if _, err := e.gather(allocLabel(d, count), words{}); err != nil {
		return dist.Buffer{}, e.outward(err)
	}
	if count == 0 {
		return dist.NewBuffer(d, 0, nil, nil), nil
	}
	b := dist.Make(d, count)
	e.hosts.memory[unsafe.Pointer(&b.Bytes()[0])] = true
	return b, nil
}

func (e hostsEngine) Free(b dist.Buffer) error {
	if b.Count() == 0 {
		return nil
	}
	at := unsafe.Pointer(&b.Bytes()[0])
	if !e.hosts.memory[at] {
		return fmt.Errorf("freeing %v: not memory that this group allocated", b)
	}
	delete(e.hosts.memory, at)
	return nil
}

// Prepare implements dist.Engine.
func (e hostsEngine) Prepare(p dist.Plan) (func() error, error) {
	var run func() error
	switch {
	case ownCode(p, e.Size()) && p.Codec == nil && p.Algorithm == hierarchical:
		run = e.hosts.hierarchical(p)
	case p.Op == dist.Barrier && !p.Steps:
		l := label(p, "")
		run = func() error { return e.agree(l, words{}, nil) }
	default:
		var err error
		if run, err = e.prepare(p); err != nil {
			return nil, err
		}
	}
	return func() error { return e.outward(run()) }, nil
}

// Split implements dist.Engine.
func (e hostsEngine) Split(color, key int) (dist.Engine, error) {
	child, err := e.engine.Split(color, key)
	return child, e.outward(err)
}

// Refuse implements dist.Engine.
func (e hostsEngine) Refuse(reason error) {
	e.engine.Refuse(reason)
	e.hosts.spread()
}

// Close implements dist.Engine.
func (e hostsEngine) Close() error {
	e.hosts.close()
	return e.engine.Close()
}

// outward tells the other hosts of a failure.
func (e hostsEngine) outward(err error) error {
	if err != nil {
		e.hosts.spread()
	}
	return err
}

// branch connects the ranks of a group that is split off.
func (h *hosts) branch(joined shm.Membership, color int) (dist.Engine, error) {
	part := h.engine.origin.part(color)
	child := newHosts(h.cluster, joined.Rank, joined.World, part.config.ID)
	joined.Crowded = child.crowded
	e := hostsEngine{newEngine(h.engine.segment, h.engine.heap, joined, child)}
	e.origin = part
	h.mesh.Keep()
	ctx, cancel := context.WithTimeoutCause(context.Background(), h.timeout, fmt.Errorf("%v have passed", h.timeout))
	defer cancel()
	if err := child.connect(ctx); err != nil {
		e.Close()
		return nil, h.engine.member.Fail(shm.Failure{Kind: shm.Refusal, Text: fmt.Sprintf("splitting: %v", err)})
	}
	return e, nil
}

// close tells the others that this rank leaves, so that they do not take it for dead.
func (h *hosts) close() {
	h.alive.Lock()
	h.closed = true
	h.alive.Unlock()
	var bye sync.WaitGroup
	for _, c := range h.controls {
		if c != nil {
			bye.Go(c.Close)
		}
	}
	bye.Wait()
	for _, l := range slices.Concat(h.engine.links, h.engine.messages) {
		if l.tcp != nil {
			l.tcp.Close()
		}
	}
	h.mesh.Close()
}

// begun counts a call that this rank has begun.
func (h *hosts) begun(l *shm.Label) {
	n := h.calls.Load() + 1
	h.labels[n&1].Store(l)
	h.calls.Store(n)
}

// said tells how many calls have begun, and what the n-th says if it is one of the
// last two.
func (h *hosts) said(n uint64) (calls uint64, text string) {
	calls = h.calls.Load()
	if l := h.labels[n&1].Load(); l != nil && n <= calls && n+2 > calls {
		text = l.Text()
	}
	return calls, text
}

// header stands before a message of the present call.
func (h *hosts) header(l *shm.Label, bytes int) tcp.Header {
	return tcp.Header{Call: h.calls.Load(), Sign: l.Signature(), Bytes: uint64(bytes)}
}

// note is what a rank has published last.
func (h *hosts) note(rank int) []byte {
	h.noted.Lock()
	defer h.noted.Unlock()
	return h.notes[rank]
}
