package schedule

import "fmt"

// Traffic is the amount of data that a schedule moves, in elements, and the length of its longest chain of
// hops. It is exact because it is counted from the steps.
type Traffic struct {
	Sent    Load // elements sent in messages
	Read    Load // elements read from peers' memory
	Written Load // elements written to peers' memory
	Reduced Load // additions
	Loads   Load // elements read from any memory by the rank's own steps
	Stores  Load // elements written to any memory by the rank's own steps

	Messages Load
	Flags    Load

	// Rounds is the longest chain of hops. In a round a rank may send one message and receive one. Flags can
	// be raised at all peers at once without cost, and are seen one round later.
	Rounds int
}

// Load is the maximum and the sum of a quantity over all ranks.
type Load struct{ Max, Total int }

// Cost counts the traffic of a schedule. The schedule must terminate; Cost does not check its results.
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

// tally holds the counts of one rank, in the order of Traffic's fields.
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

// meter is the observer that counts. Messages and flags carry the round in which they are sent.
type meter struct {
	start []int // when each rank's current step began
	time  []int // when it ends, as far as known
	tally []tally
}

// begin counts the elements that a step moves, loads, stores and adds.
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
		y[loads] += n // the destination
	}
	if at.Op != Send {
		y[stores] += n // flags have empty ranges
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

// others returns the number of peers without the rank itself.
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

// message takes one round after both ends are ready. The two halves of a sendrecv take their rounds at the
// same time; it ends with the later one.
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
