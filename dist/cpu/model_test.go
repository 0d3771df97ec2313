package cpu

import (
	"fmt"
	"hash/maphash"

	"github.com/kernbench/kernbench/internal/comm/shm"
)

// A model of the flag protocols, small enough to look at every interleaving.
// Ranks are lists of moves; a state is where each rank is and what the shared
// memory holds. Judge and the numbering of epochs are those of the
// implementation, the rest mirrors it move by move.

const (
	modelRanks  = 3
	modelBoards = 2
)

// The places of a rank's memory that others look at.
const (
	slot0 = iota // beside the flag, by parity of the epoch
	slot1
	given0 // pieces given out, three in turn
	given1
	given2
	sum0 // sums, three in turn
	sum1
	sum2
	input   // the program's own, on symmetric memory
	output0 // written by rank 0, 1, 2
	output1
	output2
	places
)

type kind uint8

const (
	begin  kind = iota
	write       // of a place, in two moves between which it holds nothing right
	read        // of a place, in two moves that must both see what belongs there
	signal      // the next epoch
	await       // a peer's epoch
	end         // of the call: the rank takes the result for right
)

// move is one step of a rank. Epochs count from the start of the call.
type move struct {
	kind   kind
	board  int
	call   int // the how manyth on this board
	sig    uint64
	epochs int
	peer   int // whose flag or place
	place  int // or slotOf(epoch)
	epoch  uint32
	value  uint8 // that belongs at the place
	half   bool  // the second of two moves
}

const slotOf = -1 // the place is the slot of the move's epoch

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

// machine is what does not change while states do.
type machine struct {
	programs [][]move
	judge    func(flag uint64, epoch, last uint32, sig uint64) shm.Verdict
	differ   bool // the programs are not the same: nobody may end the last call
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

// step does the next move of a rank. It gives false if the rank must wait, and
// an error if something is wrong.
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

// explore visits every state that can be reached, and gives the number of them
// and the first thing wrong.
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

// lead checks that no rank has begun a call that is two beyond one that another
// still makes.
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
