package shm

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Agreement is how the ranks of a host make sure that they make the same calls, and
// tell each other when they cannot, for backends whose data goes another way.
type Agreement struct {
	*Member
	Meeting *Meeting

	identity Identity
	passed   int // exchanges of files so far
	splits   int // so far
}

// MeetToAgree finds the other ranks of the group on this host, and returns once all
// have come.
func MeetToAgree(ctx context.Context, id Identity) (*Agreement, error) {
	id.Claim = id.Rank
	met, err := Meet(ctx, id, func() (*os.File, error) { return NewFile(BoardBytes(id.Size)) })
	if err != nil {
		return nil, err
	}
	a := &Agreement{Meeting: met, identity: id, Member: Join(Membership{
		Segment: met.Segment, Board: BoardAt(met.Segment, 0, id.Size), Rank: id.Rank, PIDs: met.PIDs,
		World: lists.Range[int](id.Size), Crowded: met.Crowded, Timeout: id.Timeout,
	})}
	// Nobody goes on before all have made their claims: from here on a rank
	// without one is dead.
	if err := a.Agree(NewLabel("init")); err != nil {
		a.Close()
		return nil, err
	}
	a.CountFromHere()
	return a, nil
}

// Agree returns once all ranks are known to make this call.
func (a *Agreement) Agree(l *Label) error {
	if err := a.Tell(l); err != nil {
		return err
	}
	return a.Hear()
}

// Tell is the half of Agree that waits for nobody, and Hear the other one.
func (a *Agreement) Tell(l *Label) error {
	if err := a.Begin(l, 1); err != nil {
		return err
	}
	a.Signal()
	return nil
}

// Hear waits until all have told the same.
func (a *Agreement) Hear() error { return a.AwaitAll(a.Next() - 1) }

// Exchange gives every rank what all ranks gave. It is two agreements: nobody reads
// before all have written, and nobody writes again before all have read.
func (a *Agreement) Exchange(what string, mine []byte) ([][]byte, error) {
	if len(mine) > StageBytes-8 {
		return nil, fmt.Errorf("exchanging %d bytes: at most %d", len(mine), StageBytes-8)
	}
	stage := a.Stage(a.Rank())
	binary.LittleEndian.PutUint64(stage, uint64(len(mine)))
	copy(stage[8:], mine)
	if err := a.Agree(NewLabel(what)); err != nil {
		return nil, err
	}
	all := make([][]byte, a.Size())
	for rank := range all {
		stage := a.Stage(rank)
		all[rank] = slices.Clone(stage[8:][:binary.LittleEndian.Uint64(stage)])
	}
	return all, a.Agree(NewLabel(what + " (read)"))
}

// Split makes groups of the ranks of each color, in the order of their keys, and of their ranks where these are
// equal. They meet anew; ranks are the numbers that they have here. Where the color is negative there is no part.
func (a *Agreement) Split(color, key int) (part *Agreement, ranks []int, err error) {
	mine := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(color)), uint64(key))
	all, err := a.Exchange("split", mine)
	if err != nil {
		return nil, nil, err
	}
	a.splits++
	if color < 0 {
		return nil, nil, nil
	}
	said := func(rank, i int) int { return int(binary.LittleEndian.Uint64(all[rank][8*i:])) }
	for rank := range all {
		if said(rank, 0) == color {
			ranks = append(ranks, rank)
		}
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(said(a, 1), said(b, 1)) })
	id := a.identity
	id.ID = fmt.Sprintf("%s/%d.%d", id.ID, a.splits, color)
	id.Rank, id.Size = slices.Index(ranks, id.Rank), len(ranks)
	part, err = MeetToAgree(context.Background(), id)
	return part, ranks, err
}

// whoDied is how long an error of a library waits for the news that a rank has died.
const whoDied = 300 * time.Millisecond

// Explained tells whether an error of a library, or of a driver, follows from the end of the
// group or of a rank, which may become known a moment later.
func (a *Agreement) Explained(doing string) bool {
	for begin := time.Now(); time.Since(begin) < whoDied; time.Sleep(time.Millisecond) {
		if a.Bereft(doing) {
			return true
		}
	}
	return false
}

// Bereft tells whether the group has failed: also because a rank has left or died, of which it then tells
// the others too.
func (a *Agreement) Bereft(doing string) bool {
	if a.Failed() {
		return true
	}
	for rank := range a.Size() {
		if why, dead := a.Gone(rank); rank != a.Rank() && why != "" {
			_ = a.Lost(rank, dead, why, doing)
			return true
		}
	}
	return false
}

// Alone tells whether all other ranks have left or died, but for those of this process,
// which share what it has.
func (a *Agreement) Alone() bool {
	for rank, pid := range a.Meeting.PIDs {
		if why, _ := a.Gone(rank); rank != a.Rank() && why == "" && pid != os.Getpid() {
			return false
		}
	}
	return true
}

// Close leaves the group.
func (a *Agreement) Close() {
	a.Leave()
	a.Meeting.Close()
	a.Meeting.Segment.Close()
}

// A place is where a rank has written a note: its rank, the offset and the length, and
// never 0.
const (
	placeBits = 21
	placeMask = 1<<placeBits - 1
)

// note writes a note and gives its place.
func (m *Member) note(text []byte) (place uint64, err error) {
	if m.noted+len(text) > noteBytes {
		return 0, fmt.Errorf("rank %d has no room left to publish %d bytes", m.rank, len(text))
	}
	off := m.noted
	m.noted += copy(m.mine.notes[off:], text)
	return uint64(m.rank+1)<<(2*placeBits) | uint64(off)<<placeBits | uint64(len(text)), nil
}

// noteAt reads a note.
func (m *Member) noteAt(place uint64) []byte {
	if place == 0 {
		return nil
	}
	notes := &m.board.cells[place>>(2*placeBits)-1].notes
	return notes[place>>placeBits&placeMask:][:place&placeMask]
}

// Publish lets the other ranks of this host read a text, instead of that before. It
// also works in a group that has failed.
func (m *Member) Publish(text []byte) error {
	place, err := m.note(text)
	if err == nil {
		m.mine.published.Store(place)
	}
	return err
}

// Published is what a rank has published last, nil if it has not.
func (m *Member) Published(rank int) []byte { return m.noteAt(m.board.cells[rank].published.Load()) }

// First makes a text the answer to question n, unless a rank of this host has given one,
// and returns the one that counts.
func (m *Member) First(n int, text []byte) ([]byte, error) {
	if n >= maxFirsts {
		return nil, fmt.Errorf("question %d: there are at most %d", n, maxFirsts)
	}
	place, err := m.note(text)
	if err != nil {
		return nil, err
	}
	first := &m.board.header.firsts[n]
	first.CompareAndSwap(0, place)
	return m.noteAt(first.Load()), nil
}
