package kernels

import (
	"fmt"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/program"
)

// Partition is the size of one partition of the result of a Fused.
type Partition struct{ Rows, Cols int }

// Fused is C = sum over SIPs of A x B, where each SIP has its own A and B with inner dimension K. C is
// cut into partitions, stored one after the other. Each partition is multiplied and then all-reduced
// over the SIPs.
type Fused struct {
	K     int
	Parts []Partition
	// A and B return a SIP's operands for a partition, by rows. If they are nil, only times are simulated.
	A, B func(sip, part int) []accel.Float16
}

// FusedTimes holds the times of a Fused from the common start to the end of the last PE.
type FusedTimes struct {
	Gemm       accel.Time // the products alone
	AllReduce  accel.Time // the all-reduces alone
	Sequential accel.Time // each product followed by its all-reduce
	Overlapped accel.Time // each all-reduce during the next product
}

// GemmAllReduce simulates f on all PEs of all SIPs. Within a SIP each PE computes its block of every
// partition from operands in its own memory, and all-reduces it with the same PE of the other SIPs
// (ccl.Exchange). If f has operands, the result of the overlapped run is returned too, by SIP and
// partition, each by rows.
func GemmAllReduce(t *accel.Topology, c *accel.Config, f Fused) (FusedTimes, [][][]accel.Float16, error) {
	var times FusedTimes
	var result [][][]accel.Float16
	for _, run := range []struct {
		into                   *accel.Time
		multiply, add, overlap bool
	}{{&times.Gemm, true, false, false}, {&times.AllReduce, false, true, false},
		{&times.Sequential, true, true, false}, {&times.Overlapped, true, true, true}} {
		l, r, err := f.run(t, c, run.multiply, run.add, run.overlap)
		if err != nil {
			return times, nil, fmt.Errorf("gemm and all-reduce over %d SIPs: %w", t.SIPs.Count, err)
		}
		*run.into = r.Crit
		if run.overlap && f.A != nil {
			result = l.gather(f)
		}
	}
	return times, result, nil
}

// block is the part of a partition that one PE computes.
type block struct {
	part       int
	row, col   int // position in the partition
	rows, cols int
	a, b, c    accel.Shard
}

// fusedLayout holds the blocks of each PE and the memory that they are in.
type fusedLayout struct {
	system *accel.System
	blocks map[accel.PEID][]block
	on     []accel.PEID
}

// run allocates the operands on a new system and launches the kernel once.
func (f Fused) run(t *accel.Topology, c *accel.Config, multiply, add, overlap bool) (
	*fusedLayout, *accel.Result, error) {
	l := &fusedLayout{system: accel.New(t, c), blocks: map[accel.PEID][]block{}}
	l.system.TimingOnly = f.A == nil
	for sip := range t.SIPs.Count {
		l.on = append(l.on, accel.OnAll(l.system, sip)...)
		for part := range f.Parts {
			if err := l.allocate(f, sip, part); err != nil {
				return nil, nil, err
			}
		}
	}
	slot := c.Settings().SlotBytes / tl.ElemSize
	result, err := l.system.Launch(f.kernel(l, slot, multiply, add, overlap), l.on)
	return l, result, err
}

// grid chooses into how many rows and columns of blocks a partition is cut for pes PEs. It minimizes
// the tiles of the largest block, then the operands that it reads.
func grid(p Partition, pes int, tile program.Tile) (rows, cols int) {
	fewest, shortest := 0, 0
	for r := 1; r <= pes; r++ {
		c := pes / r
		h, w := tl.Cdiv(p.Rows, r), tl.Cdiv(p.Cols, c)
		tiles, border := tl.Cdiv(h, tile.M)*tl.Cdiv(w, tile.N), h+w
		if rows == 0 || tiles < fewest || tiles == fewest && border < shortest {
			rows, cols, fewest, shortest = r, c, tiles, border
		}
	}
	return rows, cols
}

// allocate assigns a block of a partition to each PE of a SIP, and allocates the block's operands and result.
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
	rows, cols := grid(p, pes, program.TileOf(t))
	h, w := tl.Cdiv(p.Rows, rows), tl.Cdiv(p.Cols, cols)
	var a, b []accel.Float16
	if f.A != nil {
		a, b = f.A(sip, part), f.B(sip, part)
	}
	for i := range rows * cols {
		k := block{part: part, row: i / cols * h, col: i % cols * w}
		k.rows, k.cols = min(h, p.Rows-k.row), min(w, p.Cols-k.col)
		if k.rows < 1 || k.cols < 1 {
			continue // nothing is left for the last PEs because block sizes are rounded up
		}
		id := accel.PEID{SIP: sip, Cube: i / t.PEs(), PE: i % t.PEs()}
		var err error
		for _, m := range []struct {
			into       *accel.Shard
			rows, cols int
		}{{&k.a, k.rows, f.K}, {&k.b, f.K, k.cols}, {&k.c, k.rows, k.cols}} {
			if *m.into, err = l.system.Alloc(id, m.rows, m.cols); err != nil {
				return err
			}
		}
		if a != nil {
			copy(k.a.Cells(), a[k.row*f.K:(k.row+k.rows)*f.K])
			for r := range f.K {
				copy(k.b.Cells()[r*k.cols:(r+1)*k.cols], b[r*p.Cols+k.col:r*p.Cols+k.col+k.cols])
			}
		}
		l.blocks[id] = append(l.blocks[id], k)
	}
	return nil
}

// kernel multiplies and all-reduces a PE's blocks. The operand of the next block is loaded while the
// current one is multiplied. With overlap, the next product runs during the current all-reduce.
func (f Fused) kernel(l *fusedLayout, slot int, multiply, add, overlap bool) tl.Kernel {
	return func(p *tl.PE) {
		blocks := l.blocks[p.ID()]
		total := 0
		for _, k := range blocks {
			total += k.rows * f.K * tl.ElemSize
		}
		// A is streamed if loading it would leave too little TCM for the receive slots.
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
				reduceBlock(p, k, slot)
			}
			if more && !overlap {
				running = start(i+1, next)
			}
		}
	}
}

// reduceBlock all-reduces a block over the SIPs, in pieces that fit a receive slot.
func reduceBlock(p *tl.PE, k block, slot int) {
	n := k.rows * k.cols
	for off := 0; off < n; off += slot {
		size := min(slot, n-off)
		p.Scope(func() {
			p.Store(k.c.Ptr.Plus(off), ccl.Exchange(p, p.Load(k.c.Ptr.Plus(off), size), p.Topology().SIPs))
		})
	}
}

// gather assembles the result from the blocks, by SIP and partition.
func (l *fusedLayout) gather(f Fused) [][][]accel.Float16 {
	out := make([][][]accel.Float16, l.system.Topo.SIPs.Count)
	for sip := range out {
		for _, p := range f.Parts {
			out[sip] = append(out[sip], make([]accel.Float16, p.Rows*p.Cols))
		}
	}
	for id, blocks := range l.blocks {
		for _, k := range blocks {
			cols := f.Parts[k.part].Cols
			for r := range k.rows {
				copy(out[id.SIP][k.part][(k.row+r)*cols+k.col:], k.c.Cells()[r*k.cols:(r+1)*k.cols])
			}
		}
	}
	return out
}
