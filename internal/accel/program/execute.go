package program

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// Memory is the contents of the HBM.
type Memory interface {
	// Range returns the n elements at an address. It fails if they were not allocated.
	Range(at topo.Address, n int) ([]Float16, error)
}

// Float16 is an element: an IEEE 754 binary16.
type Float16 = dtype.Float16

// Executor computes the data of programs. The caller passes the operations in the order in which
// the simulation found them to take effect. Arithmetic is done in f32 and rounded to f16 once per
// operation.
type Executor struct {
	memory   Memory
	programs []*Program
	values   [][][]Float16 // by program and value number; nil before and after its use
	last     [][]int32     // by program and value number: the last operation that uses it
	next     []int         // by program: free operations before this index are done
	queues   map[Port][][]Float16
}

// NewExecutor returns an executor with empty queues and no values.
func NewExecutor(m Memory, programs []*Program) *Executor {
	return &Executor{memory: m, programs: programs, next: make([]int, len(programs)), queues: map[Port][][]Float16{},
		values: lists.Map(programs, func(p *Program) [][]Float16 { return make([][]Float16, p.Values+1) }),
		last:   lists.Map(programs, lastUses)}
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

// release drops the values that no later operation uses.
func (x *Executor) release(program, op int) {
	o := &x.programs[program].Ops[op]
	for _, v := range [...]int32{o.Out, o.A, o.B, o.C} {
		if x.last[program][v] <= int32(op) {
			x.values[program][v] = nil
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
		values[o.Out] = make([]Float16, o.N)
	} else {
		values[o.Out] = values[o.A][o.Off : o.Off+o.N]
	}
}

// do performs an operation that takes time: it moves data between memory, values and queues, or computes.
func (x *Executor) do(program int, o *Op, port Port) error {
	values := x.values[program]
	switch o.Kind {
	case Load, Store:
		cells, err := x.memory.Range(o.Addr, o.N)
		if err != nil {
			return err
		}
		if o.Kind == Load {
			values[o.Out] = slices.Clone(cells)
		} else {
			copy(cells, values[o.A])
		}
	case Send:
		x.queues[o.Port] = append(x.queues[o.Port], slices.Clone(values[o.A]))
	case Recv, RecvAsync:
		q := x.queues[port]
		if len(q) == 0 {
			return errors.New("nothing was sent")
		}
		if len(q[0]) != o.N {
			return fmt.Errorf("%d elements were sent, %d are received", len(q[0]), o.N)
		}
		values[o.Out], x.queues[port] = q[0], q[1:]
	case Math:
		out := values[o.Out]
		if out == nil {
			n := o.N
			if o.Fn == Sum || o.Fn == Max {
				n = 1
			}
			out = make([]Float16, n)
			values[o.Out] = out
		}
		compute(o, out, values[o.A], values[o.B], values[o.C])
	case Dot:
		g := o.Gemm
		values[o.Out] = make([]Float16, o.N)
		product(values[o.Out], values[o.A], values[o.B], g.M, g.K, g.N)
	case Composite:
		return x.composite(values, o.Gemm)
	}
	return nil
}

// composite computes a whole product at once. Simulated tiles change only its time, not its result.
func (x *Executor) composite(values [][]Float16, g *Gemm) error {
	fetch := func(o Operand, n int) ([]Float16, error) {
		if o.Resident() {
			return values[o.Value], nil
		}
		return x.memory.Range(o.Addr, n)
	}
	a, err := fetch(g.A, g.M*g.K)
	if err != nil {
		return err
	}
	b, err := fetch(g.B, g.K*g.N)
	if err != nil {
		return err
	}
	out, err := x.memory.Range(g.Out, g.M*g.N)
	if err != nil {
		return err
	}
	// out may overlap an operand, so the result is computed elsewhere.
	result := make([]Float16, g.M*g.N)
	product(result, a, b, g.M, g.K, g.N)
	for _, e := range g.Epilogue {
		for row := range g.M {
			part := result[row*g.N : (row+1)*g.N]
			compute(&Op{Fn: e.Fn, N: g.N}, part, part, values[e.Arg], nil)
		}
	}
	copy(out, result)
	return nil
}

// product computes out = a x b. It accumulates in f32 along K, in order, and rounds once to f16.
// The explicit float32 conversions keep the compiler from fusing multiplications and additions, so
// the result is the same on any machine. Four steps along K at a time save most of the memory traffic.
func product(out, a, b []Float16, m, k, n int) {
	wide := make([]float32, k*n)
	vec.Widen(wide, dtype.Bytes(b[:k*n]), dtype.F16)
	row := make([]float32, n)
	for i := range m {
		clear(row)
		l := 0
		for ; l+4 <= k; l += 4 {
			f0, f1, f2, f3 := a[i*k+l].Float32(), a[i*k+l+1].Float32(), a[i*k+l+2].Float32(), a[i*k+l+3].Float32()
			r0, r1, r2, r3 := wide[l*n:(l+1)*n], wide[(l+1)*n:(l+2)*n], wide[(l+2)*n:(l+3)*n], wide[(l+3)*n:(l+4)*n]
			r0, r1, r2, r3 = r0[:len(row)], r1[:len(row)], r2[:len(row)], r3[:len(row)]
			for j := range row {
				sum := row[j] + float32(f0*r0[j])
				sum += float32(f1 * r1[j])
				sum += float32(f2 * r2[j])
				row[j] = sum + float32(f3*r3[j])
			}
		}
		for ; l < k; l++ {
			f := a[i*k+l].Float32()
			for j, v := range wide[l*n : (l+1)*n] {
				row[j] += float32(f * v)
			}
		}
		vec.Narrow(dtype.Bytes(out[i*n:(i+1)*n]), row, dtype.F16)
	}
}

// compute performs an operation of the MATH engine. Add, which dominates all-reduce, uses the
// vectorised kernel; it rounds the same way.
func compute(o *Op, out, a, b, c []Float16) {
	switch o.Fn {
	case Copy:
		copy(out, a)
	case Add:
		vec.Reduce2(dtype.Bytes(out), dtype.Bytes(a), dtype.Bytes(b), dtype.F16, vec.Sum)
	case Sum, Max, Softmax:
		reduce(o.Fn, out, a)
	default:
		for i := range out {
			v := a[i].Float32()
			switch o.Fn {
			case Sub:
				v -= b[i].Float32()
			case Mul:
				v *= b[i].Float32()
			case Div:
				v /= b[i].Float32()
			case Maximum:
				v = max(v, b[i].Float32())
			case Minimum:
				v = min(v, b[i].Float32())
			case FMA:
				// The product of two f16 is exact in f64, so only the sum is rounded.
				v = float32(float64(v)*float64(b[i].Float32()) + float64(c[i].Float32()))
			case Clamp:
				v = min(max(v, o.Scalars[0]), o.Scalars[1])
			case Exp:
				v = float32(math.Exp(float64(v)))
			}
			out[i] = dtype.Float16From(v)
		}
	}
}

// reduce computes the functions that need a whole tile. Softmax subtracts the maximum first to avoid overflow.
func reduce(f Fn, out, a []Float16) {
	largest, sum := float32(math.Inf(-1)), float32(0)
	for _, v := range a {
		largest, sum = max(largest, v.Float32()), sum+v.Float32()
	}
	switch f {
	case Sum:
		out[0] = dtype.Float16From(sum)
	case Max:
		out[0] = dtype.Float16From(largest)
	case Softmax:
		total := 0.0
		for _, v := range a {
			total += math.Exp(float64(v.Float32() - largest))
		}
		for i, v := range a {
			out[i] = dtype.Float16From(float32(math.Exp(float64(v.Float32()-largest)) / total))
		}
	}
}
