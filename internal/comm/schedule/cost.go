package schedule

import "fmt"

// Traffic is what a schedule moves, in elements, and how long its longest
// chain of hops is. It is exact: it is counted from the steps.
type Traffic struct {
	Sent    Load // elements sent in messages
	Read    Load // elements read from peers' memory
	Written Load // elements written to peers' memory
	Reduced Load // additions
	Loads   Load // elements read from any memory by the rank's own steps
	Stores  Load // elements written to any memory by the rank's own steps

	Messages Load
	Flags    Load

	// Rounds is the longest chain of hops. A message takes its sender and
	// its receiver one round, in which a rank may send one and receive one.
	// Flags can be raised at all peers at once, free of charge, and are seen
	// one round later.
	Rounds int
}

// Load is a quantity of every rank: the largest and the sum.
type Load struct{ Max, Total int }

// Cost counts the traffic of a schedule. It needs only that the schedule comes
// to an end; whether it is right is for Check to say.
func Cost(s Schedule) (Traffic, error) {
	m := &meter{start: make([]int, s.Ranks()), time: make([]int, s.Ranks()), tally: make([]tally, s.Ranks())}
	if err := execute(s, m); err != nil {
		return Traffic{}, fmt.Errorf("%s %s: %w", s.Collective(), s.Name(), err)
	}
	var t Traffic
	for rank, y := range m.tally {
		for i, load := range []*Load{&t.Sent, &t.Read, &t.Written, &t.Reduced, &t.Loads, &t.Stores, &t.Messages, &t.Flags} {
			load.Max = max(load.Max, y[i])
			load.Total += y[i]
		}
		t.Rounds = max(t.Rounds, m.time[rank])
	}
	return t, nil
}

// tally is one rank's counts, in the order of Traffic's fields.
type tally [8]int

const (
	sent = iota
	read
	written
	reduced
	loads
	stores
	messages
	flags
)

// meter is the observer that counts. What a message carries is the round in
// which it is sent.
type meter struct {
	start []int // when each rank's current step began
	time  []int // when each rank is through with it, as far as known
	tally []tally
}

func (m *meter) begin(at *event) error {
	m.start[at.rank] = m.time[at.rank]
	y := &m.tally[at.rank]
	n := at.Dst.Len
	if at.Op.Sends() {
		y[sent] += at.Src.Len
		y[loads] += at.Src.Len
		y[messages]++
	}
	if at.Op.Accumulates() {
		y[reduced] += n
		y[loads] += n // what is added to
	}
	if at.Op != Send {
		y[stores] += n // nothing for flags, whose ranges are empty
	}
	switch at.Op {
	case Copy, Reduce:
		y[loads] += n
	case Get:
		y[read] += n
		y[loads] += n
	case Put:
		y[written] += n
		y[loads] += n
	case GetReduce:
		y[read] += n * others(at.From, at.rank)
		y[reduced] += n * (at.From.N - 1)
		y[loads] += n * at.From.N
	case Signal:
		y[flags] += others(at.To, at.rank)
	}
	return nil
}

// others counts the peers that are not the rank itself.
func others(peers Peers, rank int) int {
	n := peers.N
	for i := range peers.N {
		if peers.At(i) == rank {
			n--
		}
	}
	return n
}

func (m *meter) stamp(rank, _ int) int { return m.time[rank] }

// message ends one round after both were ready. A sendrecv is through when
// both halves are, and they take their round at the same time.
func (m *meter) message(src, dst *event, sentAt int) error {
	m.time[src.rank] = max(m.time[src.rank], sentAt+1)
	m.time[dst.rank] = max(m.time[dst.rank], max(m.start[dst.rank], sentAt)+1)
	return nil
}

func (m *meter) wait(at *event, from int, raised int) {
	m.time[at.rank] = max(m.time[at.rank], raised+1)
}

func (m *meter) local(*event) error { return nil }
func (m *meter) end(int, int) error { return nil }
