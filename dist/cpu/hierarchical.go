package cpu

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

const (
	// hierarchyPiece is the default size of a piece in bytes. It is small enough that the pieces of two ranks stay in
	// their caches, and large enough to amortize a system call. Below hierarchyMinPiece, system calls dominate.
	hierarchyPiece    = 1 << 20
	hierarchyMinPiece = 64 << 10
	// inSlots and sumSlots are the numbers of pieces, of at most hierarchyMaxPiece bytes, that the
	// stage of a rank holds for the others of its host. The order of epochs below explains the
	// numbers.
	inSlots, sumSlots = 2, 4
	hierarchyMaxPiece = shm.StageBytes / (inSlots + sumSlots) &^ (cacheLine - 1)
	// lookahead is the number of pieces that are sent to the other hosts before the first sum is awaited.
	lookahead = 2
	// Up to these sizes of a part, in bytes, hosts send each other the whole part, and every host adds all parts. This
	// takes one network latency instead of two. Between two hosts it causes no additional traffic, only more additions,
	// so the limit is higher.
	wholeFor2    = 256 << 10
	wholeForMany = 8 << 10
)

// hierarchy is the all-reduce between hosts. Each rank of a host adds one part over the ranks of the host. The ranks
// with the same local number on all hosts (a column) add these sums over TCP. Then the ranks of a host fetch the sums
// from each other. There are as many columns as the smallest host has ranks.
//
// The vector is sent in pieces. Between hosts, a piece's part is divided again: each host adds one share of it. "in" is
// the data that the host receives for its share, and "sum" the result that it returns. The order on every connection is
// as follows, with a header only before the first:
//
//	in 0, in 1, sum 0, in 2, sum 1, ... in n-1, sum n-2, sum n-1
//
// Within the host the epochs of a call are, in the order of the signals:
//
//	in 0, in 1, in 2, sum 0, in 3, sum 1, ... in n-1, sum n-3, sum n-2, sum n-1
//
// because iteration c signals in c+1, then sum c-1, and fetches sum c-2 last. Slots are reused safely. Before a rank
// writes in c+2 to the slot of in c, it has waited for in c+1 of all ranks, which they signal after they have added in
// c. Before it writes sum c+4 to the slot of sum c, it has waited for in c+4 of all ranks, which they signal after they
// have fetched sum c.
type hierarchy struct {
	allReduce
	h *hosts
	e *engine

	columns int
	column  int         // column of this rank; -1: none
	peers   []*tcp.Link // links of the column, by host; nil for this host
	links   []*tcp.Link // peers without the nil
	whole   bool
	piece   int // bytes per piece
	pieces  int

	inboxes   [lookahead][][]byte // by slot and host: data received for this host's share; nil: received into the output
	sums      [sumSlots][]byte    // this rank's part of a piece; nil when it is alone on its host
	stages    [inSlots][][]byte   // by slot and local rank
	shared    [sumSlots][][]byte  // by slot and column
	inMark    [lookahead][]uint64 // by slot and host: stream position where in c ends
	sent      [sumSlots][]uint64  // by slot and host: stream position at which the slot has been sent
	arrivedAt [sumSlots][]uint64  // by slot and host: stream position where sum c ends
}

func (h *hosts) hierarchical(p dist.Plan) func() error {
	e, hosts := h.engine, len(h.byHost)
	o := &hierarchy{allReduce: e.allReduce(p, ""), h: h, e: e, columns: len(h.locals), column: -1,
		peers: make([]*tcp.Link, hosts)}
	for _, ranks := range h.byHost {
		o.columns = min(o.columns, len(ranks))
	}
	if h.localRank < o.columns {
		o.column = h.localRank
		for i, ranks := range h.byHost {
			if i != h.host {
				o.peers[i] = e.links[ranks[h.localRank]].tcp
				o.links = append(o.links, o.peers[i])
			}
		}
	}
	o.cut(p.Chunk * p.DType.Size())
	o.reserve(len(h.locals) == 1 && !p.InPlace)
	return o.run
}

// cut chooses the pieces, the same on all ranks.
func (o *hierarchy) cut(chunk int) {
	bytes, limit := len(o.in), wholeForMany
	if len(o.peers) == 2 {
		limit = wholeFor2
	}
	o.piece = hierarchyPiece
	if chunk > 0 {
		o.piece = max(chunk, hierarchyMinPiece)
	}
	if o.e.Size() > len(o.h.byHost) { // the ranks of some host pass pieces through their stages
		o.piece = min(o.piece, hierarchyMaxPiece)
	}
	o.piece &^= cacheLine - 1
	if o.whole = bytes <= limit*o.columns && bytes <= o.piece; o.whole {
		o.piece = max(cacheLine, (bytes+cacheLine-1)&^(cacheLine-1))
	}
	o.pieces = (bytes + o.piece - 1) / o.piece
}

// reserve allocates the memory through which pieces pass. If the output is not used until the sum is stored there, the
// share of one host is received directly into it, which saves space in the cache.
func (o *hierarchy) reserve(outputFree bool) {
	locals, hosts := o.h.locals, len(o.peers)
	for slot := range lookahead {
		o.inMark[slot] = make([]uint64, hosts)
		o.inboxes[slot] = make([][]byte, hosts)
		free := outputFree
		for h, l := range o.peers {
			switch _, from, to := o.share(0, o.h.host); {
			case l == nil:
			case free:
				free = false
			default:
				o.inboxes[slot][h] = make([]byte, to-from)
			}
		}
	}
	for slot := range sumSlots {
		o.sent[slot], o.arrivedAt[slot] = make([]uint64, hosts), make([]uint64, hosts)
	}
	if len(locals) == 1 {
		return
	}
	for slot := range inSlots {
		for _, r := range locals {
			o.stages[slot] = append(o.stages[slot], o.m.Stage(r)[slot*hierarchyMaxPiece:][:o.piece])
		}
	}
	for slot := range sumSlots {
		for _, r := range locals[:o.columns] {
			o.shared[slot] = append(o.shared[slot], o.m.Stage(r)[(inSlots+slot)*hierarchyMaxPiece:][:o.piece])
		}
		if o.column >= 0 {
			o.sums[slot] = o.shared[slot][o.column]
		}
	}
}

// part returns a column's part of piece c, relative to the start of the piece.
func (o *hierarchy) part(c, column int) (off, from, to int) {
	off = c * o.piece
	from, to = part(min(o.piece, len(o.in)-off), o.columns, column)
	return off, from, to
}

// share returns a host's share of this rank's part of piece c.
func (o *hierarchy) share(c, host int) (off, from, to int) {
	off, from, to = o.part(c, max(o.column, 0))
	if o.whole {
		return off, from, to
	}
	a, b := part(to-from, len(o.peers), host)
	return off, from + a, from + b
}

// inEpoch and sumEpoch return epochs, counted from the first epoch of the call, 1.
func (o *hierarchy) inEpoch(c int) uint32  { return uint32(c + 1 + max(0, c-2)) }
func (o *hierarchy) sumEpoch(c int) uint32 { return uint32(min(o.pieces, c+3) + c + 1) }

func (o *hierarchy) run() error {
	if err := o.e.begin(o.label, 2*o.pieces); err != nil {
		return err
	}
	base := o.m.Next() - 1
	header := o.h.header(o.label, len(o.in))
	for _, l := range o.links {
		l.Out.PostHeader(header)
		l.In.ExpectHeader(header)
	}
	if err := o.publish(0, base); err != nil {
		return err
	}
	for c := range o.pieces + 1 {
		if c+1 < o.pieces {
			if err := o.publish(c+1, base); err != nil {
				return err
			}
		}
		if c < o.pieces {
			if err := o.reduce(c); err != nil {
				return err
			}
		}
		if c >= 1 {
			if err := o.complete(c - 1); err != nil {
				return err
			}
		}
		if c >= 2 {
			if err := o.fetch(c-2, base); err != nil {
				return err
			}
		}
	}
	if err := o.fetch(o.pieces-1, base); err != nil {
		return err
	}
	if err := o.h.flush(o.links); err != nil {
		return err
	}
	o.finish.Apply(o.out, 0)
	return nil
}

// publish makes piece c available to the other ranks of this host, adds this rank's part of their pieces, and sends the
// shares of this sum to the other hosts.
func (o *hierarchy) publish(c int, base uint32) error {
	slot := c % sumSlots
	if len(o.h.locals) > 1 {
		if err := o.flushed(slot); err != nil {
			return err
		}
		for column := range o.columns {
			if off, from, to := o.part(c, column); column != o.column {
				vec.Copy(o.stages[c%inSlots][o.h.localRank][from:to], o.in[off+from:off+to])
			}
		}
		o.m.Signal()
		if err := o.h.awaitLocals(base+o.inEpoch(c), o.links); err != nil {
			return err
		}
		o.addLocals(c)
	}
	for h, l := range o.peers {
		if l == nil {
			continue
		}
		l.Out.Post(o.ownShare(c, h))
		o.sent[slot][h] = l.Out.Posted()
		l.In.Expect(o.inbox(c, h))
		o.inMark[c%lookahead][h] = l.In.Posted()
	}
	_, err := o.h.progress(o.links)
	return err
}

// addLocals computes the host's sum of this rank's part of piece c.
func (o *hierarchy) addLocals(c int) {
	if o.column < 0 {
		return
	}
	off, from, to := o.part(c, o.column)
	for ; from < to; from += block {
		end := min(from+block, to)
		o.srcs = o.srcs[:0]
		for _, stage := range o.stages[c%inSlots] {
			o.srcs = append(o.srcs, stage[from:end])
		}
		o.srcs[o.h.localRank] = o.in[off+from : off+end]
		o.kernel.Reduce(o.sums[c%sumSlots][from:end], o.srcs)
	}
}

// ownShare returns this host's data for another host's share of piece c, which is sent to that host. For this host
// itself, it returns the data that stays here.
func (o *hierarchy) ownShare(c, host int) []byte { return o.shareOf(o.in, c, host) }

// sumRange returns where the sum of a host's share of piece c is stored.
func (o *hierarchy) sumRange(c, host int) []byte { return o.shareOf(o.out, c, host) }

// shareOf returns a host's share of piece c. If the rank is alone on its host, the share lies in the
// vector itself.
func (o *hierarchy) shareOf(vector []byte, c, host int) []byte {
	off, from, to := o.share(c, host)
	if len(o.h.locals) > 1 {
		return o.sums[c%sumSlots][from:to]
	}
	return vector[off+from : off+to]
}

// inbox returns the memory into which another host's data for this host's share of piece c is received.
func (o *hierarchy) inbox(c, host int) []byte {
	total := o.sumRange(c, o.h.host)
	if buffer := o.inboxes[c%lookahead][host]; buffer != nil {
		return buffer[:len(total)]
	}
	return total
}

// reduce waits until all hosts have sent their data for this host's share of piece c, adds it, and sends the sum to all
// hosts.
func (o *hierarchy) reduce(c int) error {
	if o.column < 0 {
		return nil
	}
	if err := o.received(o.inMark[c%lookahead]); err != nil {
		return err
	}
	if o.whole { // in place: the data that is still being sent would be overwritten
		if err := o.flushed(c % sumSlots); err != nil {
			return err
		}
	}
	mine, total := o.ownShare(c, o.h.host), o.sumRange(c, o.h.host)
	for from := 0; from < len(total); from += block {
		end := min(from+block, len(total))
		o.srcs = o.srcs[:0]
		for h := range o.peers {
			src := mine
			if h != o.h.host {
				src = o.inbox(c, h)
			}
			o.srcs = append(o.srcs, src[from:end])
		}
		o.kernel.Reduce(total[from:end], o.srcs)
	}
	if o.whole {
		return nil
	}
	for h, l := range o.peers {
		if l == nil {
			continue
		}
		l.Out.Post(total)
		o.sent[c%sumSlots][h] = l.Out.Posted()
		l.In.Expect(o.sumRange(c, h))
		o.arrivedAt[c%sumSlots][h] = l.In.Posted()
	}
	_, err := o.h.progress(o.links)
	return err
}

// complete waits for the sums of piece c from the other hosts and makes the part available to the ranks of this host.
func (o *hierarchy) complete(c int) error {
	if len(o.h.locals) == 1 {
		return nil // the sums are received directly into the output
	}
	if o.column >= 0 && !o.whole {
		if err := o.received(o.arrivedAt[c%sumSlots]); err != nil {
			return err
		}
	}
	o.m.Signal()
	return nil
}

// fetch copies the parts of piece c to the output.
func (o *hierarchy) fetch(c int, base uint32) error {
	if len(o.h.locals) == 1 || c < 0 {
		return nil
	}
	for column, r := range o.h.locals[:o.columns] {
		if r != o.h.rank {
			if err := o.h.awaitLocal(r, base+o.sumEpoch(c), o.links); err != nil {
				return err
			}
		}
		off, from, to := o.part(c, column)
		vec.Copy(o.out[off+from:off+to], o.shared[c%sumSlots][column][from:to])
	}
	return nil
}

// received waits until the links have received up to the given stream positions.
func (o *hierarchy) received(marks []uint64) error {
	return o.waitUntil(func(h int, l *tcp.Link) bool { return l.In.Done() >= marks[h] })
}

// flushed waits until the data in a slot has been sent.
func (o *hierarchy) flushed(slot int) error {
	return o.waitUntil(func(h int, l *tcp.Link) bool { return l.Out.Done() >= o.sent[slot][h] })
}

func (o *hierarchy) waitUntil(done func(h int, l *tcp.Link) bool) error {
	for h, l := range o.peers {
		if l == nil {
			continue
		}
		if err := o.h.waitUntil(l.Peer, o.links, false, func() (bool, error) { return done(h, l), nil }); err != nil {
			return err
		}
	}
	return nil
}
