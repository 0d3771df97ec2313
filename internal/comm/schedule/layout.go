package schedule

import (
	"errors"
	"fmt"
	"slices"
)

// layout holds the lengths of every rank's buffers and their positions in memory. Each buffer has a memory of its own,
// with the same index. In place, however, Input and Output share memory 0.
type layout struct {
	ranks   int
	inPlace bool
	buffers []buffers // by rank; only one if all ranks have the same
}

// buffers holds, by Buffer, the lengths of a rank's buffers and the positions at which they begin in memory.
type buffers struct{ len, shift [3]int }

func newLayout(s Schedule) layout {
	p := s.Params()
	l := layout{ranks: s.Ranks(), inPlace: p.InPlace, buffers: make([]buffers, 1)}
	for rank := range l.ranks {
		var b buffers
		for _, buf := range []Buffer{Input, Output} {
			// The collective determines these lengths. Check must not trust the schedule under test for them.
			b.len[buf] = p.Len(s.Collective(), buf, rank)
			if p.InPlace {
				b.shift[buf] = p.Shift(s.Collective(), buf, rank)
			}
		}
		b.len[Scratch] = s.Len(Scratch, rank)
		switch {
		case rank == 0:
			l.buffers[0] = b
		case len(l.buffers) > 1:
			l.buffers[rank] = b
		case b != l.buffers[0]:
			l.buffers = slices.Repeat(l.buffers, l.ranks)
			l.buffers[rank] = b
		}
	}
	return l
}

// buffersOf returns the buffers of a rank.
func (l *layout) buffersOf(rank int) *buffers {
	if len(l.buffers) == 1 {
		return &l.buffers[0]
	}
	return &l.buffers[rank]
}

// locate returns the memory and offset of a rank's range.
func (l *layout) locate(rank int, r Range) (memory, off int) {
	memory = int(r.Buf)
	if l.inPlace && r.Buf == Output {
		memory = int(Input)
	}
	return memory, r.Off + l.buffersOf(rank).shift[r.Buf]
}

// extent returns the length of one of a rank's memories.
func (l *layout) extent(rank, memory int) int {
	b := l.buffersOf(rank)
	n := b.len[memory] + b.shift[memory]
	if l.inPlace {
		switch Buffer(memory) {
		case Input:
			n = max(n, b.len[Output]) // a shifted output is a part of the input
		case Output:
			return 0
		}
	}
	return n
}

// validate checks a step by itself: its peers exist, and its ranges are inside buffers, have equal lengths
// and do not overlap.
func (l *layout) validate(ev *event) error {
	op := ev.Op
	if op > Wait {
		return errors.New("unknown operation")
	}
	sends, receives := op.Sends(), op.Receives()
	if sends || op == Put || op == Signal {
		if err := l.validatePeers(ev, &ev.To); err != nil {
			return err
		}
	}
	if receives || op == Get || op == GetReduce || op == Wait {
		if err := l.validatePeers(ev, &ev.From); err != nil {
			return err
		}
	}
	if op == Signal || op == Wait {
		return nil
	}
	if sends || !receives {
		owners := One(ev.rank)
		if op == Get || op == GetReduce {
			owners = ev.From
		}
		if err := l.validateRange(&owners, &ev.Src); err != nil {
			return err
		}
	}
	if op != Send {
		owner := One(ev.rank)
		if op == Put {
			owner = ev.To
		}
		if err := l.validateRange(&owner, &ev.Dst); err != nil {
			return err
		}
		if ev.Dst.Buf == Input {
			return errors.New("writes to the input, which belongs to the caller")
		}
	}
	if !sends && !receives && ev.Src.Len != ev.Dst.Len {
		return fmt.Errorf("the source has %d elements, the destination %d", ev.Src.Len, ev.Dst.Len)
	}
	return l.validateOverlap(ev)
}

func (l *layout) validatePeers(ev *event, peers *Peers) error {
	if peers.N == 1 && peers.Stride == 1 && uint(peers.First) < uint(l.ranks) && peers.First != ev.rank {
		return nil // the usual case
	}
	many := ev.Op == GetReduce || ev.Op == Signal || ev.Op == Wait
	switch {
	case peers.N < 1 || peers.Stride < 1:
		return errors.New("names no peer")
	case peers.First < 0 || peers.At(peers.N-1) >= l.ranks:
		return fmt.Errorf("no such peer: %v, ranks are 0 to %d", *peers, l.ranks-1)
	case !many && peers.N != 1:
		return fmt.Errorf("takes one peer, not %d", peers.N)
	case peers.N == 1 && peers.First == ev.rank:
		return errors.New("the peer is the rank itself")
	}
	return nil
}

func (l *layout) validateRange(owners *Peers, r *Range) error {
	if r.Buf > Scratch {
		return fmt.Errorf("%v: no such buffer", *r)
	}
	if r.Len < 1 {
		return fmt.Errorf("%v is empty", *r)
	}
	if len(l.buffers) == 1 && r.Off >= 0 && r.Off+r.Len <= l.buffers[0].len[r.Buf] {
		return nil // the usual case: all ranks have the same buffers
	}
	for i := range owners.N {
		if size := l.buffersOf(owners.At(i)).len[r.Buf]; r.Off < 0 || r.Off+r.Len > size {
			return fmt.Errorf("%v is outside the %s of rank %d, which has %d elements", *r, r.Buf, owners.At(i), size)
		}
	}
	return nil
}

// validateOverlap rejects a step whose destination overlaps its source. Only a get-reduce may overwrite
// exactly the range that it reads, element by element.
func (l *layout) validateOverlap(ev *event) error {
	sameRank := ev.Op == SendRecv || ev.Op == SendRecvReduce || ev.Op == Copy || ev.Op == Reduce
	if ev.Op == GetReduce {
		for i := range ev.From.N {
			sameRank = sameRank || ev.From.At(i) == ev.rank
		}
	}
	if !sameRank || ev.Src.Buf != ev.Dst.Buf && !l.inPlace {
		return nil
	}
	srcMemory, src := l.locate(ev.rank, ev.Src)
	dstMemory, dst := l.locate(ev.rank, ev.Dst)
	if srcMemory != dstMemory || src+ev.Src.Len <= dst || dst+ev.Dst.Len <= src || ev.Op == GetReduce && src == dst {
		return nil
	}
	return fmt.Errorf("%v and %v overlap", ev.Src, ev.Dst)
}
