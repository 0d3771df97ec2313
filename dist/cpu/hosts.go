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
// Their board has a cell for every rank of the group, so ranks keep their numbers: a failure that one rank of the host
// detects or receives reaches the others and names the right rank. Ranks on other hosts are reached over TCP.
type hosts struct {
	*cluster
	engine    *engine
	rank      int
	world     []int      // ranks in the first group, by rank in this one
	ranks     []rankInfo // by rank
	byHost    [][]int    // ranks by host, in order of their first ranks
	host      int        // index of this rank's host
	locals    []int      // byHost[host]
	localRank int        // index of this rank in locals
	tag       [16]byte   // identifies the group on a connection

	leaders  []*tcp.Link    // links to the first ranks of the other hosts; nil unless this rank is the first of its host
	controls []*tcp.Control // nil for this rank

	crowded bool
	group   int // result of groupSize, for hierarchical schedules

	calls  atomic.Uint64 // number of calls begun
	labels [2]atomic.Pointer[shm.Label]

	segmentMu sync.RWMutex // guards the segment, because control connections may outlive it
	closed    bool
	reported  atomic.Bool // this rank has reported the failure of the group to the other hosts

	memory map[unsafe.Pointer]bool // buffers that Alloc has returned and Free has not released
	sleeps tcp.Sleeper             // for waits of collectives
}

// newHosts computes which ranks are on which host. It opens nothing.
func newHosts(c *cluster, rank int, world []int, id string) *hosts {
	h := &hosts{cluster: c, rank: rank, world: world,
		memory: map[unsafe.Pointer]bool{}, controls: make([]*tcp.Control, len(world))}
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

	// Count the ranks with another Config.Host too: they may be on this machine and compete for its cores.
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

// hostsEngine is the engine of a group whose ranks are on several hosts. Ranks reach each other's
// memory only within a host, so it has ordinary memory and no fast all-reduce, and it reports a failed
// call to the other hosts.
type hostsEngine struct{ *engine }

// Alloc returns ordinary memory: no memory is shared between hosts.
func (e hostsEngine) Alloc(d dist.DType, count int) (dist.Buffer, error) {
	if _, err := e.gather(allocLabel(d, count), words{}); err != nil {
		return dist.Buffer{}, e.report(err)
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
func (e hostsEngine) Prepare(p dist.Plan) (run, release func() error, err error) {
	switch {
	case hasFastPath(p, e.Size()) && p.Codec == nil && p.Algorithm == hierarchical:
		run = e.hosts.hierarchical(p)
	case p.Op == dist.Barrier && !p.Steps:
		l := label(p, "")
		run = func() error { return e.agree(l, words{}, nil) }
	default:
		if run, err = e.prepare(p); err != nil {
			return nil, nil, err
		}
	}
	made := run
	return func() error { return e.report(made()) }, nil, nil
}

// Split implements dist.Engine.
func (e hostsEngine) Split(color, key int) (dist.Engine, error) {
	child, err := e.engine.Split(color, key)
	return child, e.report(err)
}

// Refuse implements dist.Engine.
func (e hostsEngine) Refuse(reason error) (first bool) {
	defer e.hosts.reportFailure()
	return e.engine.Refuse(reason)
}

// Close implements dist.Engine.
func (e hostsEngine) Close() error {
	e.hosts.close()
	return e.engine.Close()
}

// report reports an error of this rank to the other hosts, and returns it.
func (e hostsEngine) report(err error) error {
	if err != nil {
		e.hosts.reportFailure()
	}
	return err
}

// splitOff connects the ranks of a group that is split off.
func (h *hosts) splitOff(joined shm.Membership, color int) (dist.Engine, error) {
	part := h.engine.origin.part(color)
	child := newHosts(h.cluster, joined.Rank, joined.World, part.id)
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

// close announces to the other ranks that this rank leaves, so that they do not consider it dead.
func (h *hosts) close() {
	h.segmentMu.Lock()
	h.closed = true
	h.segmentMu.Unlock()
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

// countCall counts a call that this rank begins. It stores the label before it increments the counter, so a reader that
// sees the new count finds the label.
func (h *hosts) countCall(l *shm.Label) {
	n := h.calls.Load() + 1
	h.labels[n&1].Store(l)
	h.calls.Store(n)
}

// callText returns how many calls have begun, and the text of the n-th if it is one of the last two.
func (h *hosts) callText(n uint64) (calls uint64, text string) {
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
