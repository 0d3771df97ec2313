package ccl

import (
	"fmt"
	"iter"
	"slices"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// Schedule is LRAB as steps: rank = SIP * cubes + cube. It says what the kernel
// does in the language in which all collectives are proved.
func (s Shape) Schedule() schedule.Schedule { return lrabSchedule{s} }

// message is one transfer of a rank, outgoing or incoming.
type message struct {
	out  bool
	peer int
	n    int
}

// Prove shows that LRAB is an all-reduce over the shape on a machine: its
// schedule is proved, and the kernel sends and receives what the schedule says,
// in the same order.
func (s Shape) Prove(m *topo.Topology) error {
	if err := schedule.Check(s.Schedule()); err != nil {
		return err
	}
	kernel, err := Kernel(LRAB, s, func(id topo.PEID) tl.Ptr {
		a, _ := m.Address(topo.Location{PEID: id, Space: topo.HBMSpace})
		return tl.Ptr(a)
	})
	if err != nil {
		return err
	}
	return s.follows(m, kernel)
}

// follows compares the transfers of a kernel with those of the schedule.
func (s Shape) follows(m *topo.Topology, kernel tl.Kernel) error {
	proved := s.Schedule()
	for rank := range proved.Ranks() {
		id := topo.PEID{SIP: rank / s.Cubes.Count(), Cube: rank % s.Cubes.Count()}
		prog, err := tl.Record(program.Env{Topo: m, ID: id, PEs: 1, Cubes: s.Cubes.Count(), SlotBytes: 4096}, kernel)
		if err != nil {
			return err
		}
		if want, got := planned(proved.Steps(rank)), recorded(prog.Ops, m.PEs()); !slices.Equal(want, got) {
			return fmt.Errorf("rank %d: the kernel transfers %+v, the schedule %+v", rank, got, want)
		}
	}
	return nil
}

// planned lists the transfers of a schedule's steps.
func planned(steps iter.Seq[schedule.Step]) (list []message) {
	for step := range steps {
		if step.Op.Sends() {
			list = append(list, message{true, step.To.First, step.Src.Len})
		}
		if step.Op.Receives() {
			list = append(list, message{false, step.From.First, step.Dst.Len})
		}
	}
	return list
}

// recorded lists the transfers of a kernel's operations, by cubes of so many PEs.
func recorded(ops []program.Op, pes int) (list []message) {
	for _, op := range ops {
		switch op.Kind {
		case program.Send:
			list = append(list, message{true, int(op.Port.To) / pes, op.N})
		case program.Recv:
			list = append(list, message{false, int(op.Port.From) / pes, op.N})
		}
	}
	return list
}

type lrabSchedule struct{ Shape }

func (s lrabSchedule) Name() string       { return LRAB }
func (s lrabSchedule) Collective() string { return schedule.AllReduce }
func (s lrabSchedule) Ranks() int         { return s.SIPs.Count * s.Cubes.Count() }
func (s lrabSchedule) Count() int         { return s.N }
func (s lrabSchedule) Params() schedule.Params {
	return schedule.Params{Ranks: s.Ranks(), Count: s.N}
}

// Len says that a ring needs room for the tile that comes and the one that goes.
func (s lrabSchedule) Len(buf schedule.Buffer, rank int) int {
	if buf == schedule.Scratch {
		return 2 * s.N
	}
	return s.N
}

func (s lrabSchedule) Steps(rank int) iter.Seq[schedule.Step] {
	return func(yield func(schedule.Step) bool) {
		e := &steps{Shape: s.Shape, rank: rank, yield: yield}
		if s.N > 0 {
			e.all()
		}
	}
}

// steps emits one rank's steps. The tag of a message is its phase and its
// number within the phase, which both ends count the same way.
type steps struct {
	Shape
	rank  int
	yield func(schedule.Step) bool
	done  bool
}

func (e *steps) emit(s schedule.Step) {
	if !e.done && !e.yield(s) {
		e.done = true
	}
}

func (e *steps) all() {
	cubes := e.Cubes.Count()
	sip, cube := e.rank/cubes, e.rank%cubes
	row, col := e.coords(cube)
	rootRow, rootCol := e.RootCube()
	e.emit(schedule.Step{Op: schedule.Copy, Src: e.in(), Dst: e.out()})
	inRow := track{col, rootCol, e.Cubes.W, e.rank - col, 1}
	inColumn := track{row, rootRow, e.Cubes.H, e.rank - row*e.Cubes.W, e.Cubes.W}
	e.reduce(1, inRow)
	if col == rootCol {
		e.reduce(2, inColumn)
		if row == rootRow {
			e.exchange(sip, cube)
		}
		e.broadcast(4, inColumn)
	}
	e.broadcast(5, inRow)
}

// track is a line of ranks: first, first+stride, ...
type track struct{ at, root, n, first, stride int }

func (t track) rank(i int) int { return t.first + i*t.stride }

func (e *steps) in() schedule.Range  { return schedule.Range{Buf: schedule.Input, Len: e.N} }
func (e *steps) out() schedule.Range { return schedule.Range{Buf: schedule.Output, Len: e.N} }
func (e *steps) spare(i int) schedule.Range {
	return schedule.Range{Buf: schedule.Scratch, Off: i * e.N, Len: e.N}
}

func (e *steps) send(phase, to int) {
	e.emit(schedule.Step{Op: schedule.Send, Tag: phase, To: schedule.One(to), Src: e.out()})
}

func (e *steps) recv(op schedule.Op, phase, from int) {
	e.emit(schedule.Step{Op: op, Tag: phase, From: schedule.One(from), Dst: e.out()})
}

func (e *steps) reduce(phase int, t track) {
	if t.at <= t.root && t.at > 0 {
		e.recv(schedule.RecvReduce, phase, t.rank(t.at-1))
	}
	if t.at >= t.root && t.at < t.n-1 {
		e.recv(schedule.RecvReduce, phase, t.rank(t.at+1))
	}
	switch {
	case t.at < t.root:
		e.send(phase, t.rank(t.at+1))
	case t.at > t.root:
		e.send(phase, t.rank(t.at-1))
	}
}

func (e *steps) broadcast(phase int, t track) {
	switch {
	case t.at < t.root:
		e.recv(schedule.Recv, phase, t.rank(t.at+1))
	case t.at > t.root:
		e.recv(schedule.Recv, phase, t.rank(t.at-1))
	}
	if t.at <= t.root && t.at > 0 {
		e.send(phase, t.rank(t.at-1))
	}
	if t.at >= t.root && t.at < t.n-1 {
		e.send(phase, t.rank(t.at+1))
	}
}

func (e *steps) exchange(sip, cube int) {
	cubes, grid := e.Cubes.Count(), e.SIPs.Grid
	row, col := sip/grid.W, sip%grid.W
	inRow := track{col, 0, grid.W, row*grid.W*cubes + cube, cubes}
	inColumn := track{row, 0, grid.H, col*cubes + cube, grid.W * cubes}
	if e.SIPs.Kind == topo.Mesh {
		for i, t := range []track{inRow, inColumn} {
			e.reduce(30+2*i, t)
			e.broadcast(31+2*i, t)
		}
		return
	}
	e.ring(30, inRow)
	e.ring(30+grid.W, inColumn)
}

func (e *steps) ring(phase int, t track) {
	passing := e.out()
	for k := range t.n - 1 {
		coming := e.spare(k % 2)
		e.emit(schedule.Step{Op: schedule.SendRecv, Tag: phase + k, To: schedule.One(t.rank((t.at + 1) % t.n)), Src: passing,
			From: schedule.One(t.rank((t.at + t.n - 1) % t.n)), Dst: coming})
		e.emit(schedule.Step{Op: schedule.Reduce, Src: coming, Dst: e.out()})
		passing = coming
	}
}
