package cpu

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// traffic moves the messages of one rank's step: one out, one in, or both at
// once.
type traffic struct {
	kernel vec.Kernel
	dtype  dist.DType
	doing  string
	dst    []byte
	srcs   [2][]byte
	store  func(off int, piece []byte) // made once: a closure a message would be garbage
	add    func(off int, piece []byte)
}

func newTraffic(d dist.DType, op vec.Op, doing string) *traffic {
	t := &traffic{kernel: vec.Lookup(d, op), dtype: d, doing: doing}
	t.store = func(off int, piece []byte) { copy(t.dst[off:], piece) }
	t.add = func(off int, piece []byte) {
		t.srcs = [2][]byte{t.dst[off : off+len(piece)], piece}
		t.kernel.Reduce(t.srcs[0], t.srcs[:])
	}
	return t
}

func (t *traffic) note(b []byte) shm.Note {
	return shm.Note{Type: uint64(t.dtype), Count: uint64(len(b) / t.dtype.Size()), Bytes: uint64(len(b))}
}

// move sends src to one channel and receives dst from another, either of which
// may be nil. With add, what comes is added to what is there.
func (t *traffic) move(to *shm.Channel, src []byte, from *shm.Channel, dst []byte, add bool) error {
	t.dst = dst
	take := t.store
	if add {
		take = t.add
	}
	var out, in shm.Transfer
	var w shm.Wait
	if to != nil {
		out, w = to.Begin(t.note(src)), to.NewWait(t.doing)
	}
	if from != nil {
		in, w = from.Begin(t.note(dst)), from.NewWait(t.doing)
	}
	for {
		moved := to != nil && out.Send(src)
		if from != nil {
			came, err := in.Recv(take)
			if err != nil {
				return err
			}
			moved = moved || came
		}
		receiving := from != nil && !in.Complete()
		sending := to != nil && !out.Complete()
		switch {
		case !receiving && !sending:
			return nil
		case moved:
			w.Moved()
		case receiving:
			if err := w.ForPiece(from); err != nil {
				return err
			}
		default:
			if err := w.ForSpace(to); err != nil {
				return err
			}
		}
	}
}

// message is a send or a receive of the program.
func (e *engine) message(p dist.Plan) func() error {
	t := newTraffic(p.DType, vec.Sum, p.String())
	var to, from *shm.Channel
	if p.Op == dist.Send {
		to = e.messagesTo[p.Peer]
	} else {
		from = e.messages[p.Peer]
	}
	in, out := p.In.Bytes(), p.Out.Bytes()
	return func() error {
		if err := e.member.Failure(); err != nil {
			return outward(err)
		}
		return outward(t.move(to, in, from, out, false))
	}
}
