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

// hosts is the part of an engine for groups over several hosts. The ranks of this host share memory as in any group.
// Their board has room for all ranks, under their numbers in the whole group, so a failure that one of them notices or
// is told of reaches all of them and names the right ranks. Other ranks are reached over TCP.
type hosts struct {
	*cluster
	engine    *engine
	rank      int
	world     []int      // ranks in the first group
	ranks     []rankInfo // by rank
	byHost    [][]int    // ranks by host, in order of their first ranks
	host      int        // this rank's
	locals    []int      // byHost[host]
	localRank int        // index of this rank in locals
	tag       [16]byte   // identifies the group on a connection

	leaders  []*tcp.Link    // links to the first ranks of the other hosts, if this rank is the first of its host
	controls []*tcp.Control // nil for this rank

	crowded bool
	group   int // see groupSize; for hierarchical schedules

	calls  atomic.Uint64 // begun
	labels [2]atomic.Pointer[shm.Label]

	alive  sync.RWMutex // guards the segment: control connections outlive it
	closed bool
	told   atomic.Bool // the other hosts know that the group has failed

	noted sync.Mutex
	notes [][]byte // last text that each rank has published

	memory map[unsafe.Pointer]bool // allocations
	sleeps tcp.Sleeper             // for collectives
}

// newHosts computes which ranks are on which host. It opens nothing.
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

	// Ranks that count as being on other hosts may still be on this machine.
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

// pids returns the process IDs of the ranks.
func (h *hosts) pids() []int { return lists.Map(h.ranks, func(p rankInfo) int { return p.PID }) }

// groupSize returns the largest n such that ranks k*n to k*n+n-1 are on one host for every k.
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

// acrossHosts removes the algorithms that reach into the memory of a peer, and puts hierarchical first, as the default.
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

// local reports whether a rank is on this host.
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

// close tells the others that this rank leaves, so that they do not consider it dead.
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

// said returns how many calls have begun, and the text of the n-th if it is one of the last two.
func (h *hosts) said(n uint64) (calls uint64, text string) {
	calls = h.calls.Load()
	if l := h.labels[n&1].Load(); l != nil && n <= calls && n+2 > calls {
		text = l.Text()
	}
	return calls, text
}

// header returns the header of a message of the current call.
func (h *hosts) header(l *shm.Label, bytes int) tcp.Header {
	return tcp.Header{Call: h.calls.Load(), Sign: l.Signature(), Bytes: uint64(bytes)}
}

// note returns the last text that a rank has published.
func (h *hosts) note(rank int) []byte {
	h.noted.Lock()
	defer h.noted.Unlock()
	return h.notes[rank]
}
