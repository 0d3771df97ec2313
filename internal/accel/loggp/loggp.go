// Package loggp simulates collectives, messages and computation on a network: LogGP (Alexandrov et al.,
// 1995) with contention on links. Only time is simulated, no data moves, and the same input gives the same
// time to the picosecond.
//
// # Messages
//
// A message of k bytes occupies its sender for the overhead o. Then its bytes leave over the first link of its path,
// after the bytes of the sender's earlier messages. When the last byte has arrived and the receiver has reached its
// receive, the receiver is occupied for o too. A send is complete when its bytes have left. Both halves of an exchange
// run at the same time. Flags are empty messages.
//
// To read a peer's memory, a rank sends an empty request to the peer's network interface, which sends the data without
// involving the peer. A write to a peer's memory is a message that needs no receive. An interface sends messages in the
// order in which it learns of them: when its rank begins to send, or when the first byte of a request arrives.
// Reductions and copies have their own rates. If ranks share a memory (Load is not 0), reads and writes need
// no messages: a rank loads what it reads and stores what it writes, and fetches data that a peer has written
// during the call from the peer's caches. Flags travel between caches as they do over a network. Before the first
// step of a collective a rank needs the launch time.
//
// # Links
//
// A link has a bandwidth B, a latency L and a gap g. It serves messages in the order in which their first
// bytes arrive. Each message reserves the link for k/B + g, from when its first byte arrives or from the end
// of the previous reservation. Its bytes pass at the slower of B and the rate at which they arrive. The last
// byte passes at the end of k/B, or when it arrives if that is later. Every byte reaches the other end after
// L, and passes on to the next link of the path at once (cut-through). So a message without contention takes
// 2o, the latencies of its links and k/B of the slowest one.
//
// On a flat network every rank has one link to a switch that is never congested, with the latency L of the
// network, and one link from it with latency 0.
//
// # Many operations at once
//
// A Machine runs any number of collectives, messages and computations. Operations of one rank run side by
// side: they share the rank's links, but not its processor. Events of the same picosecond happen in this
// order: first starts, by rank and by the order in which the operations were added; then all other events, by
// the rank that caused them, its own progress before its messages, and its messages in the order of sending.
//
// The model has no finite buffers, flow control, packet headers, or handshakes before large messages.
package loggp

import (
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// Result is the outcome of a simulation.
type Result struct {
	Time     event.Time // until the last operation has ended
	Messages int64      // including flags, and requests and answers of reads
	Bytes    int64      // sent by ranks; a message counts once, however many links its path has
	// MemoryBytes counts the bytes read and written by copies, reductions, and messages at both ends; Ops the
	// additions of reductions.
	MemoryBytes, Ops int64
}

// Run simulates one schedule with elements of elem bytes, whose ranks all start at time 0. The schedule must
// have been proved: Run reports a deadlock, but no other fault.
func Run(s schedule.Schedule, elem int, n Network) (Result, error) {
	m, err := NewMachine(n, s.Ranks())
	if err != nil {
		return Result{}, err
	}
	m.totals = nil // nobody can read them, because the machine is not returned
	return m.RunAlone(s, elem)
}

// RunAlone runs one schedule on all ranks of a new machine. The ranks start at time 0 or at their start offsets.
func (m *Machine) RunAlone(s schedule.Schedule, elem int) (Result, error) {
	// Nothing else uses the first link of a message, unless peers read the memory of its rank, or ranks forward.
	info, _ := schedule.Lookup(s.Collective(), s.Name())
	m.ahead = !m.strict && m.routes == nil && (!info.Direct || m.network.Load > 0) && len(m.broken.offsets) == 0
	id := m.add(operation{schedule: s, elem: int64(elem)})
	if len(m.broken.offsets) > 0 {
		for i := range s.Ranks() {
			m.Start(ID(id), i, 0)
		}
	} else {
		m.open(m.operations[id])
		for i := range s.Ranks() {
			m.begin(id, int32(i), 0)
		}
	}
	err := m.Run(nil)
	return m.result, err
}
