package schedule

import "fmt"

// Traffic is the amount of data that a schedule moves, in elements, and the length of its longest chain of
// hops. It is counted from the steps, so it is exact and not a formula that could differ from the code.
type Traffic struct {
	Sent    Load // elements sent in messages
	Read    Load // elements read from peers' memory
	Written Load // elements written to peers' memory
	Reduced Load // additions
	Loads   Load // elements read from any memory by the rank's own steps
	Stores  Load // elements written to any memory by the rank's own steps

	Messages Load
	Flags    Load

	// Rounds is the length of the longest chain of hops. In one round a rank can send one message and receive one.
	// Raising flags costs nothing, at any number of peers. Peers see a flag one round later.
	Rounds int
}

// Load is the maximum and the sum of a quantity over all ranks.
type Load struct{ Max, Total int }

// Cost counts the traffic of a schedule. It fails if the schedule deadlocks or has invalid steps, but it does not
// check the results.
func Cost(s Schedule) (Traffic, error) {
	m := &meter{start: make([]int, s.Ranks()), time: make([]int, s.Ranks()), tally: make([]tally, s.Ranks())}
	if err := execute(s, m); err != nil {
		return Traffic{}, fmt.Errorf("%s %s: %w", s.Collective(), s.Name(), err)
	}
	var t Traffic
	for rank, counts := range m.tally {
		for i, load := range []*Load{&t.Sent, &t.Read, &t.Written, &t.Reduced, &t.Loads, &t.Stores, &t.Messages, &t.Flags} {
			load.Max = max(load.Max, counts[i])
			load.Total += counts[i]
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

// meter is the observer that counts traffic. Its time is measured in rounds. Every message and flag carries the
// sender's time.
type meter struct {
	start []int // by rank: when its current step began
	time  []int // by rank: when its current step ends, as far as known
	tally []tally
}

// begin counts the elements that a step moves, loads, stores and adds.
func (m *meter) begin(ev *event) error {
	m.start[ev.rank] = m.time[ev.rank]
	counts := &m.tally[ev.rank]
	n := ev.Dst.Len
	if ev.Op.Sends() {
		counts[sent] += ev.Src.Len
		counts[loads] += ev.Src.Len
		counts[messages]++
	}
	if ev.Op.Accumulates() {
		counts[reduced] += n
		counts[loads] += n // the destination
	}
	if ev.Op != Send {
		counts[stores] += n // flags have empty ranges
	}
	switch ev.Op {
	case Copy, Reduce:
		counts[loads] += n
	case Get:
		counts[read] += n
		counts[loads] += n
	case Put:
		counts[written] += n
		counts[loads] += n
	case GetReduce:
		counts[read] += n * others(ev.From, ev.rank)
		counts[reduced] += n * (ev.From.N - 1)
		counts[loads] += n * ev.From.N
	case Signal:
		counts[flags] += others(ev.To, ev.rank)
	}
	return nil
}

// others returns the number of peers, not counting the rank itself.
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

// message adds a round, which begins when both ends are ready. The two halves of a sendrecv overlap, so the step
// ends with the later half.
func (m *meter) message(src, dst *event, sentAt int) error {
	m.time[src.rank] = max(m.time[src.rank], sentAt+1)
	m.time[dst.rank] = max(m.time[dst.rank], max(m.start[dst.rank], sentAt)+1)
	return nil
}

func (m *meter) wait(ev *event, from int, raised int) {
	m.time[ev.rank] = max(m.time[ev.rank], raised+1)
}

func (m *meter) local(*event) error { return nil }
func (m *meter) end(int, int) error { return nil }
