package collectives

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/dist/instrument"
)

// work is one rank's part of a point: its buffers and the prepared call.
type work struct {
	sh        shape
	rank      int
	inputs    *inputs
	in, out   dist.Buffer
	run       func() error
	op        *dist.Op  // nil where there are two
	plan      dist.Plan // of the call, or of the first of two
	refreshes int       // inputs made so far
}

func newWork(g *dist.Group, sh shape, seed uint64, algorithm string) (*work, error) {
	w := &work{sh: sh, rank: g.Rank(), inputs: newInputs(seed, sh)}
	if err := w.allocate(g); err != nil {
		return nil, err
	}
	if err := w.prepare(g, algorithm); err != nil {
		return nil, err
	}
	return w, nil
}

// allocate makes the buffers. All ranks allocate alike, whatever their part,
// because allocating symmetric memory is itself a collective.
func (w *work) allocate(g *dist.Group) error {
	var most struct{ in, out int }
	for rank := range w.sh.ranks {
		in, out := w.sh.counts(rank)
		most.in, most.out = max(most.in, in), max(most.out, out)
	}
	get := g.Alloc
	if w.sh.buffers == private {
		get = func(d dist.DType, count int) (dist.Buffer, error) { return dist.Make(d, count), nil }
	}
	in, out := w.sh.counts(w.rank)
	if !w.sh.inPlace {
		a, err := get(w.sh.dtype, most.in)
		if err != nil {
			return err
		}
		b, err := get(w.sh.dtype, most.out)
		if err != nil {
			return err
		}
		w.in, w.out = a.Slice(0, in), b.Slice(0, out)
		return nil
	}
	both, err := get(w.sh.dtype, max(most.in, most.out))
	if err != nil {
		return err
	}
	// One memory: where one of the two is the rank's block of the other, it is
	// where that block is. A rank that has only one of them has it at the start.
	w.in, w.out = both.Slice(0, in), both.Slice(0, out)
	off, _ := dist.Block(w.sh.count, w.sh.ranks, w.rank)
	switch {
	case in < out:
		w.in = both.Slice(min(off, out-in), in)
	case out < in:
		w.out = both.Slice(min(off, in-out), out)
	}
	return nil
}

// prepare makes the call ready to run.
func (w *work) prepare(g *dist.Group, algorithm string) error {
	if w.sh.op != sendRecv {
		op, err := g.Prepare(dist.Call{Op: dist.Collective(w.sh.op), In: w.in, Out: w.out, Reduction: w.sh.reduction,
			Root: root, Count: w.sh.count, Algorithm: algorithm})
		if err != nil {
			return err
		}
		w.op, w.run, w.plan = op, op.Run, op.Plan()
		return nil
	}
	send, err := g.Prepare(dist.Call{Op: dist.Send, In: w.in, Peer: (w.rank + 1) % w.sh.ranks})
	if err != nil {
		return err
	}
	recv, err := g.Prepare(dist.Call{Op: dist.Recv, Out: w.out, Peer: (w.rank + w.sh.ranks - 1) % w.sh.ranks})
	if err != nil {
		return err
	}
	w.plan = send.Plan()
	// Round the ring, even ranks send first and odd ones receive first: no
	// cycle of ranks waits, however little a backend buffers.
	first, second := send, recv
	if w.rank%2 == 1 {
		first, second = recv, send
	}
	w.run = func() error {
		if err := first.Run(); err != nil {
			return err
		}
		return second.Run()
	}
	return nil
}

// refresh spoils the output and makes inputs that no call has seen, so that what an
// earlier call left is never taken for the result of a later one.
func (w *work) refresh() error {
	w.refreshes++
	if err := poison(w.out); err != nil { // in place the input comes there
		return err
	}
	return w.inputs.fill(w.in, w.rank, w.sh.inputOffset(w.rank)+w.inputShift())
}

// inputShift is how far the inputs of now are from those at first.
func (w *work) inputShift() int { return w.refreshes * callShift }

func (w *work) verify() error { return w.inputs.check(w.out, w.sh, w.rank, w.inputShift()) }

// poison makes an output that nothing was written to wrong. The element types
// whose range the byte is in have many other values, so a stale output is
// still seen.
func poison(out dist.Buffer) error {
	return instrument.Overwrite(out, func(piece dist.Buffer, _ int) {
		bytes := piece.Bytes()
		if len(bytes) > 0 {
			bytes[0] = 0xa5
			for done := 1; done < len(bytes); done *= 2 {
				copy(bytes[done:], bytes[:done])
			}
		}
	})
}
