package cpu

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/shm"
)

// writer builds the program of one rank.
type writer struct {
	rank, ranks int
	moves       []move
	board, call int
	calls       [modelBoards]int
	sig         uint64
}

func (w *writer) add(v move) {
	v.board, v.call, v.sig = w.board, w.call, w.sig
	w.moves = append(w.moves, v)
	if v.kind == write || v.kind == read {
		v.half = true
		w.moves = append(w.moves, v)
	}
}

func (w *writer) begin(sig uint64, epochs int) {
	w.call, w.sig = w.calls[w.board], sig<<32
	w.calls[w.board]++
	w.add(move{kind: begin, epochs: epochs})
}

func (w *writer) awaitAll(epoch uint32) {
	for p := range w.ranks {
		if p != w.rank {
			w.add(move{kind: await, peer: p, epoch: epoch})
		}
	}
}

// of returns the value that this call writes for a piece. It is the same on all ranks and differs
// between calls.
func (w *writer) of(piece int) uint8 { return uint8(1 + w.call*8 + piece) }

// bug names an error to plant in a program.
type bug string

// oneStage mirrors oneStage.run.
func (w *writer) oneStage(pieces int, b bug) {
	w.begin(uint64(10+pieces), pieces)
	for p := range pieces {
		epoch, place := uint32(p+1), slotOf
		if b == "one slot" {
			place = slot0
		}
		w.add(move{kind: write, peer: w.rank, place: place, epoch: epoch, value: w.of(p)})
		w.add(move{kind: signal})
		w.awaitAll(epoch)
		for r := range w.ranks {
			if r != w.rank {
				w.add(move{kind: read, peer: r, place: place, epoch: epoch, value: w.of(p)})
			}
		}
	}
	w.add(move{kind: end})
}

// direct mirrors direct.run. The surrounding program fills the input before the call and reads the
// output after it.
func (w *writer) direct(b bug) {
	w.begin(20, 2)
	w.add(move{kind: write, peer: w.rank, place: input, value: w.of(0)})
	w.add(move{kind: write, peer: w.rank, place: slotOf, epoch: 1, value: w.of(1)})
	w.add(move{kind: signal})
	w.awaitAll(1)
	for r := range w.ranks {
		w.add(move{kind: read, peer: r, place: slotOf, epoch: 1, value: w.of(1)})
		w.add(move{kind: read, peer: r, place: input, value: w.of(0)})
	}
	for r := range w.ranks {
		w.add(move{kind: write, peer: r, place: output0 + w.rank, value: w.of(2)})
	}
	w.add(move{kind: signal})
	if b != "no last wait" {
		w.awaitAll(2)
	}
	for r := range w.ranks {
		w.add(move{kind: read, peer: w.rank, place: output0 + r, value: w.of(2)})
	}
	w.add(move{kind: end})
}

// staged mirrors staged.run.
func (w *writer) staged(pieces int, b bug) {
	o := &staged{pieces: pieces}
	slots := stagedSlots
	if b == "two slots" {
		slots = 2
	}
	w.begin(uint64(30+pieces), 2*pieces)
	give := func(c int) {
		w.add(move{kind: write, peer: w.rank, place: given0 + c%slots, value: w.of(c)})
		w.add(move{kind: signal})
	}
	fetch := func(c int) {
		for r := range w.ranks {
			if r != w.rank {
				w.add(move{kind: await, peer: r, epoch: o.sumEpoch(c)})
				w.add(move{kind: read, peer: r, place: sum0 + c%slots, value: w.of(c)})
			}
		}
	}
	give(0)
	for c := range pieces {
		if c >= 2 {
			fetch(c - 2)
		}
		if c+1 < pieces {
			give(c + 1)
		}
		if b != "sum before all have given" {
			w.awaitAll(o.inEpoch(c))
		}
		for r := range w.ranks {
			if r != w.rank {
				w.add(move{kind: read, peer: r, place: given0 + c%slots, value: w.of(c)})
			}
		}
		w.add(move{kind: write, peer: w.rank, place: sum0 + c%slots, value: w.of(c)})
		w.add(move{kind: signal})
	}
	for c := max(0, pieces-2); c < pieces; c++ {
		fetch(c)
	}
	w.add(move{kind: end})
}

// piped mirrors piped.run.
func (w *writer) piped(pieces int, b bug) {
	slots := pipedSlots
	if b == "two slots of a pipe" {
		slots = 2
	}
	w.begin(uint64(40+pieces), pieces+1)
	give := func(c int) {
		w.add(move{kind: write, peer: w.rank, place: given0 + c%slots, value: w.of(c)})
		w.add(move{kind: signal})
	}
	give(0)
	for c := range pieces {
		if b != "sum before all have given into the pipe" {
			w.awaitAll(uint32(c + 1))
		}
		if c+1 < pieces {
			give(c + 1)
		}
		for r := range w.ranks {
			if r != w.rank {
				w.add(move{kind: read, peer: r, place: given0 + c%slots, value: w.of(c)})
			}
		}
	}
	w.add(move{kind: signal})
	if b != "leaving a full pipe" {
		w.awaitAll(uint32(pieces + 1))
	}
	w.add(move{kind: end})
}

// programs returns one program per rank, all with the same calls.
func programs(ranks int, calls func(w *writer)) [][]move {
	var all [][]move
	for r := range ranks {
		w := &writer{rank: r, ranks: ranks}
		calls(w)
		all = append(all, w.moves)
	}
	return all
}

const nearWrap = 1<<32 - 3

func TestModel(t *testing.T) {
	for _, c := range []struct {
		name  string
		ranks int
		calls func(w *writer)
	}{
		{"one-stage lapping", 2, func(w *writer) {
			for range 5 {
				w.oneStage(1, "")
			}
		}},
		{"one-stage three ranks", 3, func(w *writer) { w.oneStage(1, ""); w.oneStage(1, ""); w.oneStage(1, "") }},
		{"one-stage in pieces", 2, func(w *writer) { w.oneStage(3, ""); w.oneStage(2, "") }},
		{"direct", 2, func(w *writer) { w.direct(""); w.direct(""); w.direct("") }},
		{"staged", 2, func(w *writer) { w.staged(5, ""); w.staged(4, "") }},
		{"staged short", 2, func(w *writer) { w.staged(1, ""); w.staged(2, ""); w.staged(1, "") }},
		{"piped", 2, func(w *writer) { w.piped(5, ""); w.piped(4, "") }},
		{"piped short", 2, func(w *writer) { w.piped(1, ""); w.piped(2, ""); w.piped(1, "") }},
		{"piped three ranks", 3, func(w *writer) { w.piped(2, ""); w.oneStage(1, "") }},
		{"piped and staged", 2, func(w *writer) { w.piped(2, ""); w.staged(2, ""); w.piped(2, "") }},
		{"all kinds", 2, func(w *writer) {
			w.oneStage(1, "")
			w.staged(3, "")
			w.direct("")
			w.oneStage(1, "")
			w.staged(1,
				"")
		}},
		{"direct three ranks", 3, func(w *writer) { w.direct(""); w.oneStage(1, "") }},
		{"staged three ranks", 3, func(w *writer) { w.staged(2, ""); w.oneStage(1, "") }},
		{"two groups", 2, func(w *writer) {
			w.oneStage(1, "")
			w.board = 1
			w.staged(2, "")
			w.oneStage(1, "")
			w.board = 0
			w.oneStage(1, "")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, epoch := range []uint32{0, nearWrap} {
				for _, deaths := range []uint8{0, 1} {
					m := machine{programs: programs(c.ranks, c.calls), judge: shm.Judge, deaths: deaths}
					n, err := m.explore(epoch)
					t.Logf("from epoch %d with %d deaths: %d states", epoch, deaths, n)
					if err != nil {
						t.Errorf("from epoch %d with %d deaths: %v", epoch, deaths, err)
					}
				}
			}
		})
	}
}

// If ranks make different calls, none of them may accept a result.
func TestModelOfMistakes(t *testing.T) {
	calls := map[string]func(w *writer){
		"one-stage":            func(w *writer) { w.oneStage(1, "") },
		"one-stage two pieces": func(w *writer) { w.oneStage(2, "") },
		"direct":               func(w *writer) { w.direct("") },
		"staged":               func(w *writer) { w.staged(1, "") },
		"staged three pieces":  func(w *writer) { w.staged(3, "") },
		"piped":                func(w *writer) { w.piped(2, "") },
	}
	for a := range calls {
		for b := range calls {
			for _, ranks := range []int{2, 3} {
				if a == b {
					continue
				}
				all := make([][]move, ranks)
				for r := range all {
					w := &writer{rank: r, ranks: ranks}
					w.oneStage(1, "")
					calls[map[bool]string{false: a, true: b}[r == ranks-1]](w)
					all[r] = w.moves
				}
				m := machine{programs: all, judge: shm.Judge, differ: true}
				if _, err := m.explore(nearWrap); err != nil {
					t.Errorf("%s against %s on %d ranks: %v", a, b, ranks, err)
				}
			}
		}
	}
}

// The explorer must find planted bugs. Otherwise a pass would prove nothing.
func TestModelFindsPlantedBugs(t *testing.T) {
	type judge = func(flag uint64, epoch, last uint32, sig uint64) shm.Verdict
	exact := func(flag uint64, epoch, last uint32, sig uint64) shm.Verdict {
		if uint32(flag) != epoch {
			return shm.Early
		}
		return shm.Judge(flag, epoch, last, sig)
	}
	unsigned := func(flag uint64, epoch, last uint32, sig uint64) shm.Verdict {
		if uint32(flag) < epoch {
			return shm.Early
		}
		return shm.Reached
	}
	trusting := func(flag uint64, epoch, last uint32, _ uint64) shm.Verdict {
		return shm.Judge(flag, epoch, last, flag&^0xffffffff)
	}
	mixed := append(programs(2, func(w *writer) {
		w.oneStage(1, "")
	})[:1], programs(2, func(w *writer) { w.direct("") })[1])
	for _, c := range []struct {
		name     string
		programs [][]move
		judge    judge
		differ   bool
	}{
		{"one slot", programs(2, func(w *writer) { w.oneStage(1, "one slot"); w.oneStage(1, "one slot") }), shm.Judge, false},
		{"no last wait", programs(2, func(w *writer) { w.direct("no last wait"); w.direct("no last wait") }), shm.Judge,
			false},
		{"two slots", programs(2, func(w *writer) { w.staged(4, "two slots") }), shm.Judge, false},
		{"sum before all have given", programs(2, func(w *writer) {
			w.staged(2, "sum before all have given")
		}), shm.Judge, false},
		{"two slots of a pipe", programs(2, func(w *writer) { w.piped(4, "two slots of a pipe") }), shm.Judge, false},
		{"sum before all have given into the pipe", programs(2, func(w *writer) {
			w.piped(2, "sum before all have given into the pipe")
		}), shm.Judge, false},
		{"leaving a full pipe", programs(2, func(w *writer) { w.piped(2, "leaving a full pipe"); w.piped(2, "") }),
			shm.Judge, false},
		{"exact comparison", programs(2, func(w *writer) { w.staged(5, "") }), exact, false},
		{"unsigned comparison", programs(2, func(w *writer) { w.oneStage(1, ""); w.oneStage(1, ""); w.oneStage(1, "") }),
			unsigned, false},
		{"no look at signatures", mixed, trusting, true},
	} {
		m := machine{programs: c.programs, judge: c.judge, differ: c.differ}
		if n, err := m.explore(nearWrap); err == nil {
			t.Errorf("%s: nothing found in %d states", c.name, n)
		} else {
			t.Logf("%s: %v", c.name, err)
		}
	}
}

// TestStreamFrom checks that Config.StreamFrom makes a short call use the code for long ones, and that
// short calls do not use it otherwise.
func TestStreamFrom(t *testing.T) {
	for from, want := range map[int]int{0: streamFrom, 1: 1} {
		g := must.Get(backend{}.Join(t.Context(),
			dist.Config{ID: fmt.Sprint(t.Name(), "/", os.Getpid()), Size: 1, Timeout: time.Minute, StreamFrom: from}))(t)
		if got := g.(localEngine).streamFrom; got != want {
			t.Errorf("with StreamFrom %d, outputs of %d bytes and more are streamed, want %d", from, got, want)
		}
		g.Close()
	}
}
