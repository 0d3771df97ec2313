package program

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// Memory is the contents of the HBM.
type Memory interface {
	// Range returns the n bytes at an address. It fails if they were not allocated.
	Range(at topo.Address, n int) ([]byte, error)
}

// Executor computes the data of programs. The caller passes the operations in the order in which
// the simulation found them to take effect. Arithmetic is done in f32 and rounded to the type of the
// result once per operation.
type Executor struct {
	memory   Memory
	programs []*Program
	values   [][][]byte // by program and value number; nil before and after its use
	last     [][]int32  // by program and value number: the last operation that uses it
	shared   [][]bool   // by program and value number, see sharing
	next     []int      // by program: free operations before this index are done
	queues   map[Port]*fifo
	spare    map[int][][]byte // by size: memory of released values
}

// fifo is a receive queue.
type fifo struct {
	messages [][]byte
	taken    int // messages before this one have been received
}

// put adds a message.
func (f *fifo) put(m []byte) {
	if 2*f.taken >= len(f.messages) { // each message moves to the front once, on average
		f.messages, f.taken = f.messages[:copy(f.messages, f.messages[f.taken:])], 0
	}
	f.messages = append(f.messages, m)
}

// NewExecutor returns an executor with empty queues and no values.
func NewExecutor(m Memory, programs []*Program) *Executor {
	return &Executor{memory: m, programs: programs, next: make([]int, len(programs)), queues: map[Port]*fifo{},
		spare:  map[int][][]byte{},
		values: lists.Map(programs, func(p *Program) [][]byte { return make([][]byte, p.Values+1) }),
		last:   lists.Map(programs, lastUses), shared: lists.Map(programs, sharing)}
}

// lastUses returns, by value number, the index of the last operation that uses a value. Values are released after it,
// so that the memory of an execution does not grow with its length. Composites take effect later than the operations
// that follow them, so their operands are kept.
func lastUses(p *Program) []int32 {
	last := make([]int32, p.Values+1)
	for i := range p.Ops {
		o := &p.Ops[i]
		for _, v := range [...]int32{o.Out, o.A, o.B, o.C} {
			last[v] = max(last[v], int32(i))
		}
		if o.Kind == Composite {
			for _, v := range o.Gemm.values() {
				last[v] = math.MaxInt32
			}
		}
	}
	return last
}

// sharing returns, by value number, whether a value shares its memory with another one because of a View. It is nil if
// none does.
func sharing(p *Program) []bool {
	var shared []bool
	for i := range p.Ops {
		if o := &p.Ops[i]; o.Kind == View {
			if shared == nil {
				shared = make([]bool, p.Values+1)
			}
			shared[o.A], shared[o.Out] = true, true
		}
	}
	return shared
}

// memoryOf returns memory for a value. Its contents are undefined.
func (x *Executor) memoryOf(bytes int) []byte {
	list := x.spare[bytes]
	if n := len(list); n > 0 {
		x.spare[bytes] = list[:n-1]
		return list[n-1]
	}
	return make([]byte, bytes)
}

// copyOf returns a copy in its own memory.
func (x *Executor) copyOf(value []byte) []byte {
	c := x.memoryOf(len(value))
	copy(c, value)
	return c
}

// release drops the values that no later operation uses. Their memory is used again, unless a View may still refer to
// it.
func (x *Executor) release(program, op int) {
	o := &x.programs[program].Ops[op]
	values := x.values[program]
	for _, v := range [...]int32{o.Out, o.A, o.B, o.C} {
		if m := values[v]; m != nil && x.last[program][v] <= int32(op) {
			if shared := x.shared[program]; shared == nil || !shared[v] {
				x.spare[len(m)] = append(x.spare[len(m)], m)
			}
			values[v] = nil
		}
	}
}

// Do executes one operation. For a receive, port is the queue that the message was taken from.
func (x *Executor) Do(program, op int, port Port) error {
	p := x.programs[program]
	for ; x.next[program] < op; x.next[program]++ {
		if free := &p.Ops[x.next[program]]; free.Kind.Free() {
			x.name(program, free)
			x.release(program, x.next[program])
		}
	}
	if err := x.do(program, &p.Ops[op], port); err != nil {
		return fmt.Errorf("%v: %v at %s: %w", p.ID, p.Ops[op].Kind, p.Where(op), err)
	}
	if !p.Ops[op].Kind.Free() {
		x.release(program, op)
	}
	return nil
}

// name performs a free operation: it defines a value without moving data.
func (x *Executor) name(program int, o *Op) {
	values := x.values[program]
	if o.Kind == Scratch {
		values[o.Out] = make([]byte, o.Bytes())
		if v := o.Scalars[0]; v != 0 {
			Encode(o.Type, values[o.Out], slices.Repeat([]float32{v}, o.N))
		}
	} else {
		size := o.Type.Size()
		values[o.Out] = values[o.A][o.Off*size : (o.Off+o.N)*size]
	}
}

// do performs an operation that takes time: it moves data between memory, values and queues, or computes.
func (x *Executor) do(program int, o *Op, port Port) error {
	values := x.values[program]
	switch o.Kind {
	case Load, Store:
		cells, err := x.memory.Range(o.Addr, o.Bytes())
		if err != nil {
			return err
		}
		if o.Kind == Load {
			values[o.Out] = x.copyOf(cells)
		} else {
			copy(cells, values[o.A])
		}
	case Send:
		q := x.queues[o.Port]
		if q == nil {
			q = &fifo{}
			x.queues[o.Port] = q
		}
		q.put(x.copyOf(values[o.A]))
	case Recv, RecvAsync:
		q := x.queues[port]
		if q == nil || q.taken == len(q.messages) {
			return errors.New("nothing was sent")
		}
		m := q.messages[q.taken]
		if len(m) != o.Bytes() {
			return fmt.Errorf("%d bytes were sent, %d are received", len(m), o.Bytes())
		}
		values[o.Out], q.messages[q.taken] = m, nil
		q.taken++
	case Math:
		f := o.forms()
		if values[o.Out] == nil {
			values[o.Out] = x.memoryOf(f.Out.Bytes())
		}
		compute(o, f, values[o.Out], values[o.A], values[o.B], values[o.C])
	case Dot:
		values[o.Out] = make([]byte, o.Bytes())
		o.Gemm.product(values[o.Out], o.Type, values[o.A], values[o.B])
	case Composite:
		return x.composite(values, o.Gemm)
	}
	return nil
}

// composite computes a whole product at once. Simulated tiles change only its time, not its result.
func (x *Executor) composite(values [][]byte, g *Gemm) error {
	size := g.Type.Size()
	fetch := func(o Operand, n int) ([]byte, error) {
		if o.Resident() {
			return values[o.Value], nil
		}
		return x.memory.Range(o.Addr, n*size)
	}
	a, err := fetch(g.A, g.M*g.K)
	if err != nil {
		return err
	}
	b, err := fetch(g.B, g.K*g.N)
	if err != nil {
		return err
	}
	out, err := x.memory.Range(g.Out, g.M*g.N*size)
	if err != nil {
		return err
	}
	// out may overlap an operand, so the result is computed elsewhere.
	result := make([]byte, g.M*g.N*size)
	g.product(result, g.Type, a, b)
	tile, row := Form{g.M, g.N, g.Type}, Form{1, g.N, g.Type}
	for _, e := range g.Epilogue {
		compute(&Op{Fn: e.Fn}, Forms{Out: tile, In: [3]Form{tile, row}}, result, result, values[e.Arg], nil)
	}
	copy(out, result)
	return nil
}

// product computes a x b for operands of the product's type. It accumulates in f32 along K, in order, and rounds the
// result once. The explicit float32 conversions keep the compiler from fusing multiplications and additions, so the
// result is the same on any machine. Four steps along K at a time save most of the memory traffic.
func (g *Gemm) product(out []byte, of DType, a, b []byte) {
	m, k, n := g.M, g.K, g.N
	left, right := widen(a, Form{m, k, g.Type}), widen(b, Form{k, n, g.Type})
	row, size := make([]float32, n), of.Size()
	for i := range m {
		clear(row)
		l := 0
		for ; l+4 <= k; l += 4 {
			f0, f1, f2, f3 := left[i*k+l], left[i*k+l+1], left[i*k+l+2], left[i*k+l+3]
			r0, r1, r2, r3 := right[l*n:(l+1)*n], right[(l+1)*n:(l+2)*n], right[(l+2)*n:(l+3)*n], right[(l+3)*n:(l+4)*n]
			r0, r1, r2, r3 = r0[:len(row)], r1[:len(row)], r2[:len(row)], r3[:len(row)]
			for j := range row {
				sum := row[j] + float32(f0*r0[j])
				sum += float32(f1 * r1[j])
				sum += float32(f2 * r2[j])
				row[j] = sum + float32(f3*r3[j])
			}
		}
		for ; l < k; l++ {
			f := left[i*k+l]
			for j, v := range right[l*n : (l+1)*n] {
				row[j] += float32(f * v)
			}
		}
		Encode(of, out[i*n*size:(i+1)*n*size], row)
	}
}
