package ccl

import (
	"fmt"
	"iter"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// Prove verifies that the LRAB kernel is an all-reduce over the shape on a machine. It records the kernel
// for every rank and checks the recorded operations as a schedule (schedule.Check).
func (s Shape) Prove(m *topo.Topology) error {
	kernel, err := Kernel(LRAB, s, func(id topo.PEID) tl.Ptr {
		a, _ := m.Address(topo.Location{PEID: id, Space: topo.HBMSpace})
		return tl.Ptr{Addr: a}
	})
	if err != nil {
		return err
	}
	recorded, err := s.record(m, kernel)
	if err != nil {
		return err
	}
	return schedule.Check(recorded)
}

// recording is a kernel as a schedule: rank = SIP * cubes + cube. Value v of a program is the range
// [(v-1)*N, v*N) of the rank's scratch buffer.
type recording struct {
	Shape
	pes      int // per cube
	programs []*program.Program
}

// record records a kernel for all ranks. The kernel may use only operations that Steps can translate.
func (s Shape) record(m *topo.Topology, kernel tl.Kernel) (schedule.Schedule, error) {
	r := recording{Shape: s, pes: m.PEs()}
	for rank := range r.Ranks() {
		id := topo.PEID{SIP: rank / s.Cubes.Count(), Cube: rank % s.Cubes.Count()}
		p, err := tl.Record(program.Env{Topo: m, ID: id, PEs: 1, Cubes: s.Cubes.Count(), SlotBytes: 4096}, kernel)
		if err != nil {
			return nil, err
		}
		for i, op := range p.Ops {
			switch {
			case op.N != s.N, op.Kind == program.Math && (op.Fn != program.Add || op.Forms != nil),
				op.Kind > program.Recv || op.Any, op.Kind == program.Dot || op.Kind == program.Composite:
				return nil, fmt.Errorf("rank %d: call %d (%v) cannot be proved", rank, i, op.Kind)
			}
		}
		r.programs = append(r.programs, p)
	}
	return r, nil
}

func (r recording) Name() string            { return LRAB }
func (r recording) Collective() string      { return schedule.AllReduce }
func (r recording) Ranks() int              { return r.SIPs.Count * r.Cubes.Count() }
func (r recording) Count() int              { return r.N }
func (r recording) Params() schedule.Params { return schedule.Params{Ranks: r.Ranks(), Count: r.N} }

func (r recording) Len(buf schedule.Buffer, rank int) int {
	if buf == schedule.Scratch {
		return r.N * r.programs[rank].Values
	}
	return r.N
}

// Steps translates the operations of a rank into steps. The tag of a message is the input of its receiver. A send that
// is directly followed by a receive with the same tag, as in a ring, becomes a single sendrecv step. The kernel does
// not wait for its sends, but a schedule does, so two separate steps would deadlock.
func (r recording) Steps(rank int) iter.Seq[schedule.Step] {
	value := func(v int32) schedule.Range {
		return schedule.Range{Buf: schedule.Scratch, Off: int(v-1) * r.N, Len: r.N}
	}
	peer := func(pe int32) schedule.Peers { return schedule.One(int(pe) / r.pes) }
	in, out := schedule.Range{Buf: schedule.Input, Len: r.N}, schedule.Range{Buf: schedule.Output, Len: r.N}
	return func(yield func(schedule.Step) bool) {
		ops := r.programs[rank].Ops
		for i := 0; i < len(ops); i++ {
			op := &ops[i]
			step := schedule.Step{Op: schedule.Copy, Src: value(op.A), Dst: value(op.Out)}
			switch op.Kind {
			case program.Load:
				step.Src = in
			case program.Store:
				step.Dst = out
			case program.Math: // out = a + b
				if op.Out != op.A && !yield(step) {
					return
				}
				step.Op, step.Src = schedule.Reduce, value(op.B)
			case program.Send:
				step = schedule.Step{Op: schedule.Send, Tag: int(op.Port.Input), To: peer(op.Port.To), Src: value(op.A)}
				if i+1 < len(ops) && ops[i+1].Kind == program.Recv && ops[i+1].Port.Input == op.Port.Input {
					i++
					step.Op, step.From, step.Dst = schedule.SendRecv, peer(ops[i].Port.From), value(ops[i].Out)
				}
			case program.Recv:
				step = schedule.Step{Op: schedule.Recv, Tag: int(op.Port.Input), From: peer(op.Port.From), Dst: value(op.Out)}
			}
			if !yield(step) {
				return
			}
		}
	}
}
