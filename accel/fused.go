package accel

import (
	"fmt"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/ccl"
)

// FusedPart is one partition of C: so many rows and columns, of a product along the
// K of one SIP.
type FusedPart struct{ Rows, Cols int }

// Fused is C = sum over SIPs of A x B, where each SIP has its own A and B of depth K.
// C is cut into partitions, which are stored consecutively; each is multiplied and
// then added up over the SIPs.
type Fused struct {
	K     int
	Parts []FusedPart
	// A and B give the elements of a SIP's operands for a partition, by rows; nil
	// simulates the time alone.
	A, B func(sip, part int) []Float16
}

// FusedTimes is what it takes, from the common start to the last PE's end.
type FusedTimes struct {
	Gemm       Time // all partitions multiplied, nothing added up
	AllReduce  Time // all partitions added up, nothing multiplied
	Sequential Time // each multiplied, then added up, one after the other
	Overlapped Time // each added up while the next is multiplied
}

// GemmAllReduce simulates it on all PEs of all SIPs. Within a SIP each PE makes its
// block of every partition, from operands in its own memory; a block is then added
// up with those of the same PE of the other SIPs (ccl.Exchange). With operands, the
// result of the overlapped run is given too, by SIP and partition, by rows.
func GemmAllReduce(t *Topology, c *Config, f Fused) (FusedTimes, [][][]Float16, error) {
	var times FusedTimes
	var result [][][]Float16
	for _, run := range []struct {
		into              *Time
		multiply, add, by bool
	}{{&times.Gemm, true, false, false}, {&times.AllReduce, false, true, false},
		{&times.Sequential, true, true, false}, {&times.Overlapped, true, true, true}} {
		l, r, err := f.run(t, c, run.multiply, run.add, run.by)
		if err != nil {
			return times, nil, fmt.Errorf("gemm and all-reduce over %d SIPs: %w", t.SIPs.Count, err)
		}
		*run.into = r.Crit
		if run.by && f.A != nil {
			result = l.gather(f)
		}
	}
	return times, result, nil
}

// block is one PE's part of a partition.
type block struct {
	part       int
	row, col   int // in the partition
	rows, cols int
	a, b, c    Shard
}

// fusedLayout is where everything lies: for each PE its blocks.
type fusedLayout struct {
	system *System
	blocks map[PEID][]block
	on     []PEID
}

// run lays out the operands on a fresh machine and launches once.
func (f Fused) run(t *Topology, c *Config, multiply, add, overlap bool) (*fusedLayout, *Result, error) {
	l := &fusedLayout{system: New(t, c), blocks: map[PEID][]block{}}
	l.system.TimingOnly = f.A == nil
	for sip := range t.SIPs.Count {
		l.on = append(l.on, OnAll(l.system, sip)...)
		for part := range f.Parts {
			if err := l.allocate(f, sip, part); err != nil {
				return nil, nil, err
			}
		}
	}
	set := c.Settings()
	result, err := l.system.launch(f.kernel(l, set.SlotBytes/tl.ElemSize, multiply, add, overlap), l.on, set)
	return l, result, err
}

// grid chooses into how many rows and columns of blocks a partition is cut for so
// many PEs: such that the slowest has the fewest tiles, and reads the least.
func grid(p FusedPart, pes int, tile tl.TileSize) (rows, cols int) {
	fewest, least := 0, 0
	for r := 1; r <= pes; r++ {
		c := pes / r
		h, w := tl.Cdiv(p.Rows, r), tl.Cdiv(p.Cols, c)
		tiles, border := tl.Cdiv(h, tile.M)*tl.Cdiv(w, tile.N), h+w
		if rows == 0 || tiles < fewest || tiles == fewest && border < least {
			rows, cols, fewest, least = r, c, tiles, border
		}
	}
	return rows, cols
}

// allocate gives each PE of a SIP its block of a partition, with its operands.
func (l *fusedLayout) allocate(f Fused, sip, part int) error {
	p := f.Parts[part]
	if p.Rows == 0 || p.Cols == 0 {
		return nil
	}
	if f.K < 1 {
		return fmt.Errorf("a product of depth %d: want at least 1", f.K)
	}
	t := l.system.Topo
	pes := t.Cubes.Count() * t.PEs()
	rows, cols := grid(p, pes, TileSize(t))
	h, w := tl.Cdiv(p.Rows, rows), tl.Cdiv(p.Cols, cols)
	var a, b []Float16
	if f.A != nil {
		a, b = f.A(sip, part), f.B(sip, part)
	}
	for i := range rows * cols {
		k := block{part: part, row: i / cols * h, col: i % cols * w}
		k.rows, k.cols = min(h, p.Rows-k.row), min(w, p.Cols-k.col)
		if k.rows < 1 || k.cols < 1 {
			continue // rounding up has left it nothing
		}
		id := PEID{SIP: sip, Cube: i / t.PEs(), PE: i % t.PEs()}
		var err error
		for _, m := range []struct {
			into       *Shard
			rows, cols int
		}{{&k.a, k.rows, f.K}, {&k.b, f.K, k.cols}, {&k.c, k.rows, k.cols}} {
			m.into.Rows, m.into.Cols, m.into.At = m.rows, m.cols, id
			if m.into.Ptr, m.into.cells, err = l.system.memory.alloc(id, m.rows*m.cols); err != nil {
				return err
			}
		}
		if a != nil {
			copy(k.a.cells, a[k.row*f.K:(k.row+k.rows)*f.K])
			for r := range f.K {
				copy(k.b.cells[r*k.cols:(r+1)*k.cols], b[r*p.Cols+k.col:r*p.Cols+k.col+k.cols])
			}
		}
		l.blocks[id] = append(l.blocks[id], k)
	}
	return nil
}

// kernel multiplies and adds up a PE's blocks. The operand of the next block is loaded while
// this one is multiplied; overlapped, its product is also under way while this one is added up.
func (f Fused) kernel(l *fusedLayout, slot int, multiply, add, overlap bool) tl.Kernel {
	return func(p *tl.PE) {
		blocks := l.blocks[p.ID()]
		total := 0
		for _, k := range blocks {
			total += k.rows * f.K * tl.ElemSize
		}
		// What does not fit beside the slots is streamed.
		stream := int64(total) > p.Topology().PE.TCMBytes/4
		operand := func(i int) tl.Operand {
			if stream {
				return tl.Ref(blocks[i].a.Ptr)
			}
			return tl.Loaded(p.Load(blocks[i].a.Ptr, blocks[i].rows*f.K))
		}
		start := func(i int, a tl.Operand) tl.Handle {
			k := blocks[i]
			return p.Composite(tl.Gemm{M: k.rows, K: f.K, N: k.cols, A: a, B: tl.Ref(k.b.Ptr), Out: k.c.Ptr})
		}
		var running tl.Handle
		if multiply && len(blocks) > 0 {
			running = start(0, operand(0))
		}
		for i, k := range blocks {
			more := multiply && i+1 < len(blocks)
			var next tl.Operand
			if more {
				next = operand(i + 1)
			}
			if multiply {
				p.Wait(running)
			}
			if more && overlap {
				running = start(i+1, next)
			}
			if add {
				addUpBlock(p, k, slot)
			}
			if more && !overlap {
				running = start(i+1, next)
			}
		}
	}
}

// addUpBlock adds up a block over the SIPs, in pieces that fit a slot.
func addUpBlock(p *tl.PE, k block, slot int) {
	n := k.rows * k.cols
	for off := 0; off < n; off += slot {
		size := min(slot, n-off)
		p.Scope(func() {
			p.Store(k.c.Ptr.Plus(off), ccl.Exchange(p, p.Load(k.c.Ptr.Plus(off), size), p.Topology().SIPs))
		})
	}
}

// gather puts the blocks together, by SIP and partition.
func (l *fusedLayout) gather(f Fused) [][][]Float16 {
	out := make([][][]Float16, l.system.Topo.SIPs.Count)
	for sip := range out {
		for _, p := range f.Parts {
			out[sip] = append(out[sip], make([]Float16, p.Rows*p.Cols))
		}
	}
	for id, blocks := range l.blocks {
		for _, k := range blocks {
			cols := f.Parts[k.part].Cols
			for r := range k.rows {
				copy(out[id.SIP][k.part][(k.row+r)*cols+k.col:], k.c.cells[r*k.cols:(r+1)*k.cols])
			}
		}
	}
	return out
}
