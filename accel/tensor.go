package accel

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/base/dtype"
)

// Placement is how a tensor is divided over the cubes of a SIP, or over the PEs of a cube.
type Placement string

// The placements: every part gets a copy, a block of rows or a block of columns.
const (
	Replicate  Placement = "replicate"
	RowWise    Placement = "row_wise"
	ColumnWise Placement = "column_wise"
)

// Policy is the layout of a tensor within its SIP and the type of its elements. The tensor is divided over Cubes
// cubes, starting with cube First, and within each of them over the first PEs PEs. A tensor never spans several SIPs.
type Policy struct {
	Cube, PE   Placement
	Cubes, PEs int // 0: all
	First      int // the first cube
	Type       tl.DType
}

// PerCube divides the rows over all cubes and puts them on PE 0 of each, as collectives expect.
var PerCube = Policy{Cube: RowWise, PE: Replicate, PEs: 1}

// OnCube puts the whole tensor on PE 0 of one cube.
func OnCube(cube int) Policy {
	return Policy{Cube: Replicate, PE: Replicate, Cubes: 1, PEs: 1, First: cube}
}

// Tensor is a matrix in the HBM of one SIP. Its elements are f16 unless its Policy has another type.
type Tensor struct {
	SIP        int
	Rows, Cols int
	Shards     []Shard // by cube, then by PE
	policy     Policy
	memory     *memory // of a tensor allocated by Empty
}

// Shard is the part of a tensor in the HBM of one PE. It is stored by rows.
type Shard struct {
	At         PEID
	Ptr        tl.Ptr
	Rows, Cols int
	row, col   int // position of its first element in the tensor
	bytes      []byte
}

// Zeros allocates a tensor of zeros on a SIP.
func (s *System) Zeros(sip, rows, cols int, p Policy) (*Tensor, error) {
	t := &Tensor{SIP: sip, Rows: rows, Cols: cols, policy: p}
	if err := s.layOut(t); err != nil {
		return nil, fmt.Errorf("a tensor of %d x %d on SIP %d: %w", rows, cols, sip, err)
	}
	return t, nil
}

// Empty is like Zeros, but reading an element before Set or a kernel has written it is an error.
func (s *System) Empty(sip, rows, cols int, p Policy) (*Tensor, error) {
	t, err := s.Zeros(sip, rows, cols, p)
	if err == nil {
		t.memory = s.memory
		for _, shard := range t.Shards {
			s.memory.markUninitialized(shard.At)
		}
	}
	return t, err
}

// Alloc allocates a matrix of f16 zeros in the HBM of one PE.
func (s *System) Alloc(at PEID, rows, cols int) (Shard, error) {
	return s.alloc(at, rows, cols, tl.F16)
}

func (s *System) alloc(at PEID, rows, cols int, of tl.DType) (Shard, error) {
	addr, bytes, err := s.memory.alloc(at, int64(rows)*int64(cols)*int64(of.Size()))
	return Shard{At: at, Ptr: tl.Ptr{Addr: addr, Type: of}, Rows: rows, Cols: cols, bytes: bytes}, err
}

// layOut checks the tensor's policy and allocates its shards.
func (s *System) layOut(t *Tensor) error {
	p := t.policy
	if p.Cubes == 0 {
		p.Cubes = s.Topo.Cubes.Count() - p.First
	}
	if p.PEs == 0 {
		p.PEs = s.Topo.PEs()
	}
	switch {
	case t.SIP < 0 || t.SIP >= s.Topo.SIPs.Count:
		return fmt.Errorf("there are %d SIPs", s.Topo.SIPs.Count)
	case t.Rows < 1 || t.Cols < 1:
		return errors.New("it has no elements")
	case p.First < 0 || p.Cubes < 1 || p.First+p.Cubes > s.Topo.Cubes.Count():
		return fmt.Errorf("cubes %d to %d: there are %d", p.First, p.First+p.Cubes-1, s.Topo.Cubes.Count())
	case p.PEs < 1 || p.PEs > s.Topo.PEs():
		return fmt.Errorf("%d PEs: a cube has %d", p.PEs, s.Topo.PEs())
	}
	whole := Shard{Rows: t.Rows, Cols: t.Cols}
	for cube := range p.Cubes {
		ofCube, err := whole.part(p.Cube, cube, p.Cubes, "cubes")
		if err != nil {
			return err
		}
		for pe := range p.PEs {
			shard, err := ofCube.part(p.PE, pe, p.PEs, "PEs")
			if err != nil {
				return err
			}
			at := PEID{SIP: t.SIP, Cube: p.First + cube, PE: pe}
			row, col := shard.row, shard.col
			if shard, err = s.alloc(at, shard.Rows, shard.Cols, p.Type); err != nil {
				return err
			}
			shard.row, shard.col = row, col
			t.Shards = append(t.Shards, shard)
		}
	}
	return nil
}

// part returns the i-th of n parts of a shard.
func (s Shard) part(p Placement, i, n int, what string) (Shard, error) {
	switch p {
	case Replicate:
		return s, nil
	case RowWise:
		if s.Rows%n != 0 {
			return s, fmt.Errorf("%d rows cannot be divided equally among %d %s", s.Rows, n, what)
		}
		s.Rows /= n
		s.row += i * s.Rows
		return s, nil
	case ColumnWise:
		if s.Cols%n != 0 {
			return s, fmt.Errorf("%d columns cannot be divided equally among %d %s", s.Cols, n, what)
		}
		s.Cols /= n
		s.col += i * s.Cols
		return s, nil
	}
	return s, fmt.Errorf("placement %q: want %s, %s or %s", p, Replicate, RowWise, ColumnWise)
}

// Set copies values into an f16 tensor, row by row, and into every replica.
func (t *Tensor) Set(values []Float16) error {
	if t.policy.Type != tl.F16 {
		return fmt.Errorf("setting a tensor of %v to f16 values: use SetValues", t.policy.Type)
	}
	return t.set(dtype.Bytes(values))
}

// SetValues rounds values to the type of the tensor and copies them into it, row by row, and into every replica.
func (t *Tensor) SetValues(values []float32) error {
	bytes := make([]byte, len(values)*t.policy.Type.Size())
	program.Encode(t.policy.Type, bytes, values)
	return t.set(bytes)
}

func (t *Tensor) set(bytes []byte) error {
	size := t.policy.Type.Size()
	if len(bytes) != t.Rows*t.Cols*size {
		return fmt.Errorf("setting a tensor of %d x %d: got %d values", t.Rows, t.Cols, len(bytes)/size)
	}
	for _, s := range t.Shards {
		t.rows(s, func(shard, tensor int) { copy(s.bytes[shard:shard+s.Cols*size], bytes[tensor:]) })
		if t.memory != nil {
			t.memory.markInitialized(s.Ptr.Addr, int64(len(s.bytes)))
		}
	}
	return nil
}

// rows calls f for each row of a shard, with the position of its first byte in the shard and in the tensor.
func (t *Tensor) rows(s Shard, f func(shard, tensor int)) {
	size := t.policy.Type.Size()
	for r := range s.Rows {
		f(r*s.Cols*size, ((s.row+r)*t.Cols+s.col)*size)
	}
}

// Data returns a copy of an f16 tensor, row by row. Of several replicas it returns the last one.
func (t *Tensor) Data() []Float16 {
	if t.policy.Type != tl.F16 {
		return nil
	}
	return dtype.View[Float16](t.data())
}

// Values returns the elements of a tensor of any type, row by row. Of several replicas it returns the last one.
func (t *Tensor) Values() []float32 { return program.Decode(t.policy.Type, t.data()) }

func (t *Tensor) data() []byte {
	size := t.policy.Type.Size()
	bytes := make([]byte, t.Rows*t.Cols*size)
	for _, s := range t.Shards {
		t.rows(s, func(shard, tensor int) { copy(bytes[tensor:], s.bytes[shard:shard+s.Cols*size]) })
	}
	return bytes
}

// Cells returns the elements of an f16 shard, by rows. Writing to them changes the memory. It returns nil for other
// types.
func (s Shard) Cells() []Float16 {
	if s.Ptr.Type != tl.F16 {
		return nil
	}
	return dtype.View[Float16](s.bytes)
}

// On returns the shard of a PE, and whether the PE has one.
func (t *Tensor) On(id PEID) (Shard, bool) {
	i := slices.IndexFunc(t.Shards, func(s Shard) bool { return s.At == id })
	if i < 0 {
		return Shard{}, false
	}
	return t.Shards[i], true
}
