package cpu

import (
	"fmt"
	"hash/maphash"

	"github.com/kernbench/kernbench/internal/comm/shm"
)

// This file models the flag protocols and explores every interleaving of the ranks. A rank's program
// is a list of moves. A state is the position of every rank and the contents of the shared memory. The
// model calls the real Judge and numbers epochs as the implementation does; everything else mirrors
// the implementation move by move.

const (
	modelRanks  = 3
	modelBoards = 2
)

// Places are the parts of a rank's memory that other ranks read. A board is one set of them.
const (
	slot0 = iota // slots next to the flag, used by even and odd epochs
	slot1
	given0 // pieces of the input for other ranks, used in rotation
	given1
	given2
	sum0 // sums, used in rotation
	sum1
	sum2
	input   // the program's input, in symmetric memory
	output0 // parts of the program's output that ranks 0, 1 and 2 write
	output1
	output2
	places
)

type kind uint8

const (
	begin  kind = iota
	write       // write a place, in two moves; in between it holds a torn value
	read        // read a place, in two moves that must both see the right value
	signal      // announce the next epoch
	await       // wait for a peer's epoch
	end         // end of the call: the rank accepts the result
)

// move is one atomic step of a rank. Epochs count from the start of the call.
type move struct {
	kind   kind
	board  int
	call   int // number of the call on this board
	sig    uint64
	epochs int
	peer   int // the rank that owns the flag or place
	place  int // a place, or slotOf
	epoch  uint32
	value  uint8 // the right value of the place
	half   bool  // the second of two moves
}

const slotOf = -1 // stands for the slot of the move's epoch

type state struct {
	at       [modelRanks]uint16
	status   [modelRanks]uint8
	epoch    [modelRanks][modelBoards]uint32
	base     [modelRanks]uint32
	last     [modelRanks]uint32
	flags    [modelBoards][modelRanks][2]uint64
	memory   [modelBoards][modelRanks][places]uint8
	poisoned [modelBoards]bool
	deaths   uint8
}

const (
	running = iota
	failed
	dead
	finished
)

// machine holds the programs and settings of an exploration. It does not change while states do.
type machine struct {
	programs [][]move
	judge    func(flag uint64, epoch, last uint32, sig uint64) shm.Verdict
	differ   bool // the programs differ on purpose: no rank may reach the end of its last call
	deaths   uint8
}

func (m *machine) start(epoch uint32) state {
	var s state
	for b := range modelBoards {
		for r := range m.programs {
			s.epoch[r][b] = epoch
			s.flags[b][r][epoch&1] = uint64(epoch)
			s.flags[b][r][1-epoch&1] = uint64(epoch - 1)
		}
	}
	for r := len(m.programs); r < modelRanks; r++ {
		s.status[r] = finished
	}
	return s
}

const torn = 255

// step makes the next move of rank r. It returns false if the rank must wait, and an error if the
// protocol is violated.
func (m *machine) step(s *state, r int) (bool, error) {
	v := m.programs[r][s.at[r]]
	b := v.board
	place := v.place
	if place == slotOf {
		place = int((s.base[r] + v.epoch) & 1)
	}
	switch v.kind {
	case begin:
		if s.poisoned[b] {
			s.status[r] = failed
			return true, nil
		}
		s.base[r], s.last[r] = s.epoch[r][b], s.epoch[r][b]+uint32(v.epochs)
	case write:
		s.memory[b][v.peer][place] = v.value
		if !v.half {
			s.memory[b][v.peer][place] = torn
		}
	case read:
		if got := s.memory[b][v.peer][place]; got != v.value {
			return false, fmt.Errorf("rank %d reads place %d of rank %d in call %d: %d, want %d", r, place, v.peer, v.call, got,
				v.value)
		}
	case signal:
		s.epoch[r][b]++
		e := s.epoch[r][b]
		s.flags[b][r][e&1] = v.sig | uint64(e)
	case await:
		e := s.base[r] + v.epoch
		switch m.judge(s.flags[b][v.peer][e&1], e, s.last[r], v.sig) {
		case shm.Early:
			gone := s.status[v.peer] == dead || s.status[v.peer] == failed
			if !s.poisoned[b] && !gone {
				return false, nil
			}
			s.poisoned[b], s.status[r] = true, failed
			return true, nil
		case shm.Differs:
			s.poisoned[b], s.status[r] = true, failed
			return true, nil
		}
	case end:
		if m.differ && v.call == m.lastCall(r) {
			return false, fmt.Errorf("rank %d takes call %d for right, though others called something else", r, v.call)
		}
	}
	s.at[r]++
	if int(s.at[r]) == len(m.programs[r]) {
		s.status[r] = finished
	}
	return true, nil
}

func (m *machine) lastCall(r int) int { return m.programs[r][len(m.programs[r])-1].call }

// explore visits every reachable state, depth first. It returns the number of states and the first
// violation.
func (m *machine) explore(epoch uint32) (int, error) {
	seed := maphash.MakeSeed()
	seen := map[uint64]struct{}{}
	queue := []state{m.start(epoch)}
	for len(queue) > 0 {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		moved, waiting := false, false
		visit := func(next state) {
			moved = true
			key := maphash.Comparable(seed, next)
			if _, old := seen[key]; !old {
				seen[key] = struct{}{}
				queue = append(queue, next)
			}
		}
		for r := range m.programs {
			if s.status[r] != running {
				continue
			}
			waiting = true
			next := s
			ok, err := m.step(&next, r)
			if err != nil {
				return len(seen), err
			}
			if ok {
				if err := m.lead(&next); err != nil {
					return len(seen), err
				}
				visit(next)
			}
			if s.deaths < m.deaths {
				next := s
				next.status[r], next.deaths = dead, s.deaths+1
				visit(next)
			}
		}
		if waiting && !moved {
			return len(seen), fmt.Errorf("nobody can go on: %v", s.at)
		}
	}
	return len(seen), nil
}

// lead checks that no rank is more than one call ahead of another: the protocols rely on it when they
// reuse slots.
func (m *machine) lead(s *state) error {
	for a := range m.programs {
		for b := range m.programs {
			if s.status[a] != running || s.status[b] != running {
				continue
			}
			x, y := m.programs[a][s.at[a]], m.programs[b][s.at[b]]
			if x.board == y.board && x.kind != begin && x.call > y.call+1 {
				return fmt.Errorf("rank %d is in call %d while rank %d is in call %d", a, x.call, b, y.call)
			}
		}
	}
	return nil
}
