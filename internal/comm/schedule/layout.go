package schedule

import "fmt"

// layout is where every rank's buffers lie: which memory, from which element
// on, how long. In place, Input and Output are both in memory 0.
type layout struct {
	ranks   int
	inPlace bool
	len     [][3]int // by rank and buffer
	shift   [][3]int
}

func newLayout(s Schedule) layout {
	p := s.Params()
	l := layout{ranks: s.Ranks(), inPlace: p.InPlace, len: make([][3]int, s.Ranks()), shift: make([][3]int, s.Ranks())}
	for rank := range l.ranks {
		for _, buf := range []Buffer{Input, Output} {
			// Not the schedule's word: the collective decides.
			l.len[rank][buf] = dataLen(s.Collective(), p, buf, rank)
			if p.InPlace {
				l.shift[rank][buf] = inPlaceShift(s.Collective(), p, buf, rank)
			}
		}
		l.len[rank][Scratch] = s.Len(Scratch, rank)
	}
	return l
}

// memory and offset of a rank's range.
func (l layout) locate(rank int, r Range) (memory, off int) {
	memory = int(r.Buf)
	if l.inPlace && r.Buf == Output {
		memory = int(Input)
	}
	return memory, r.Off + l.shift[rank][r.Buf]
}

// extent is the length of one of a rank's memories.
func (l layout) extent(rank, memory int) int {
	n := l.len[rank][memory] + l.shift[rank][memory]
	if l.inPlace {
		switch Buffer(memory) {
		case Input:
			n = max(n, l.len[rank][Output]+l.shift[rank][Output])
		case Output:
			return 0
		}
	}
	return n
}

// validate checks what can be said of a step by itself: that its peers exist
// and its ranges are inside buffers, equally long and not on top of each other.
func (l layout) validate(at event) error {
	if at.Op > Wait {
		return fmt.Errorf("no such operation")
	}
	addresses := at.Op.Sends() || at.Op == Put || at.Op == Signal
	listens := at.Op.Receives() || at.Op == Get || at.Op == GetReduce || at.Op == Wait
	if addresses {
		if err := l.validatePeers(at, at.To); err != nil {
			return err
		}
	}
	if listens {
		if err := l.validatePeers(at, at.From); err != nil {
			return err
		}
	}
	if at.Op == Signal || at.Op == Wait {
		return nil
	}
	if at.Op.Sends() || !at.Op.Receives() {
		owners := One(at.rank)
		if at.Op == Get || at.Op == GetReduce {
			owners = at.From
		}
		if err := l.validateRange(owners, at.Src); err != nil {
			return err
		}
	}
	if at.Op != Send {
		owner := One(at.rank)
		if at.Op == Put {
			owner = at.To
		}
		if err := l.validateRange(owner, at.Dst); err != nil {
			return err
		}
		if at.Dst.Buf == Input {
			return fmt.Errorf("writes the input, which is the caller's")
		}
	}
	if !at.Op.Sends() && !at.Op.Receives() && at.Src.Len != at.Dst.Len {
		return fmt.Errorf("%d elements do not go into %d", at.Src.Len, at.Dst.Len)
	}
	return l.validateOverlap(at)
}

func (l layout) validatePeers(at event, peers Peers) error {
	many := at.Op == GetReduce || at.Op == Signal || at.Op == Wait
	switch {
	case peers.N < 1 || peers.Stride < 1:
		return fmt.Errorf("names no peer")
	case peers.First < 0 || peers.At(peers.N-1) >= l.ranks:
		return fmt.Errorf("no such peer: %v, ranks are 0 to %d", peers, l.ranks-1)
	case !many && peers.N != 1:
		return fmt.Errorf("takes one peer, not %d", peers.N)
	case peers.N == 1 && peers.First == at.rank:
		return fmt.Errorf("the peer is the rank itself")
	}
	return nil
}

func (l layout) validateRange(owners Peers, r Range) error {
	if r.Buf > Scratch {
		return fmt.Errorf("%v: no such buffer", r)
	}
	if r.Len < 1 {
		return fmt.Errorf("%v is empty", r)
	}
	for i := range owners.N {
		if size := l.len[owners.At(i)][r.Buf]; r.Off < 0 || r.Off+r.Len > size {
			return fmt.Errorf("%v is outside the %s of rank %d, which has %d elements", r, r.Buf, owners.At(i), size)
		}
	}
	return nil
}

// validateOverlap refuses a step that writes what it reads at the same time.
// Only a get-reduce may overwrite exactly what it reads, element by element.
func (l layout) validateOverlap(at event) error {
	bothOwn := at.Op == SendRecv || at.Op == SendRecvReduce || at.Op == Copy || at.Op == Reduce
	if at.Op == GetReduce {
		for i := range at.From.N {
			bothOwn = bothOwn || at.From.At(i) == at.rank
		}
	}
	if !bothOwn {
		return nil
	}
	srcMemory, src := l.locate(at.rank, at.Src)
	dstMemory, dst := l.locate(at.rank, at.Dst)
	if srcMemory != dstMemory || src+at.Src.Len <= dst || dst+at.Dst.Len <= src || at.Op == GetReduce && src == dst {
		return nil
	}
	return fmt.Errorf("%v and %v are the same memory in part", at.Src, at.Dst)
}
