package gpugemm

import (
	"fmt"
	"maps"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
)

// problem is a product as stored in GPU memory: A by rows and B by columns, k elements each, and C by
// rows, ldc elements apart. The sizes are rounded up to what the multiplier needs, and the operands
// are padded with zeros.
type problem struct {
	operand      dtype.DType
	m, n, k, ldc int
	// multiprocessors limits how many of them the product uses, if the multiplier supports that; 0
	// means all.
	multiprocessors int
	scale           float32 // factor of e4m3 products: the product of both operands' scales
}

func (p problem) bytesA() int { return p.m * p.k * p.operand.Size() }
func (p problem) bytesB() int { return p.n * p.k * p.operand.Size() }
func (p problem) bytesC() int { return p.m * p.ldc * gemm.Result(p.operand).Size() }

// place holds the addresses of one product's operands and result.
type place struct{ a, b, c cuda.Pointer }

// padding holds the divisors that the sizes of a problem must have.
type padding struct{ rows, k, ldc int }

// multiplier starts products on the GPU.
type multiplier interface {
	padding(operand dtype.DType) padding
	// prepare chooses how to compute a problem's products. Trying several ways only pays if the
	// products will be timed.
	prepare(p problem, at []place, w *stopwatch, timed bool) error
	start(at int, s *cuda.Stream) error
	details() map[string]string
	String() string
	close() error
}

// engine is a gemm.Resident over a multiplier.
type engine struct {
	device *device
	types  []dtype.DType
	by     multiplier
	watch  *stopwatch

	pool      cuda.Pointer // holds all places
	poolBytes int
	staging   []byte

	problem    problem
	rows, cols int // size of the result without padding
	places     []place
	next, last int
	graphs     map[int]*cuda.Graph // by their number of products; the first product is at place 0
	noGraphs   error               // why products cannot be recorded
	warnings   []string
}

var _ gemm.Resident = (*engine)(nil)

func newEngine(d *device, types []dtype.DType, by multiplier) (*engine, error) {
	e := &engine{device: d, types: types, by: by}
	err := d.Do(func() (err error) { e.watch, err = d.stopwatch(); return err })
	return e, err
}

func (e *engine) String() string {
	return fmt.Sprintf("%v on %s", e.by, e.device.Device().Name)
}

func (e *engine) Warnings() []string { return e.warnings }

// Close releases the memory. Errors are ignored, because the process is about to end or the GPU is
// lost.
func (e *engine) Close() {
	_ = e.device.Do(func() error {
		_ = e.forgetGraphs()
		_ = e.by.close()
		_ = e.watch.close()
		if e.pool != 0 {
			_ = e.device.Free(e.pool)
		}
		return nil
	})
}

func (e *engine) Multiply(c, a, b gemm.Matrix) error {
	if err := e.load(c, a, b, 1); err != nil {
		return err
	}
	if _, err := e.Sample(1); err != nil {
		return err
	}
	return e.Fetch(c)
}

// maxPlaces limits the number of copies of small operands.
const maxPlaces = 64

func (e *engine) Load(c, a, b gemm.Matrix) error { return e.load(c, a, b, maxPlaces) }

// coldCaches is the total size of all places, as a multiple of the L2 cache. With less, a part of an operand is still
// in the cache when its turn comes again.
const coldCaches = 4

// load copies the operands to enough places, at most maxCopies, to exceed the L2 cache several times.
func (e *engine) load(c, a, b gemm.Matrix, maxCopies int) error {
	if err := gemm.Check(&c, &a, &b, e.types); err != nil {
		return fmt.Errorf("multiplying: %w", err)
	}
	e.rows, e.cols, e.places, e.warnings = c.Rows, c.Cols, nil, nil
	if err := e.device.Do(e.forgetGraphs); err != nil {
		return err
	}
	if c.Rows == 0 || c.Cols == 0 || a.Cols == 0 {
		e.problem = problem{}
		return nil
	}
	for _, m := range []struct {
		name string
		gemm.Matrix
	}{{"A", a}, {"B", b}} {
		if constant(m.Matrix) {
			e.warnings = append(e.warnings,
				m.name+" has the same value everywhere: that takes less power than ordinary numbers, and a GPU that is held "+
					"back by power is faster")
		}
	}
	pad := e.by.padding(a.Type)
	e.problem = problem{operand: a.Type, m: roundUp(c.Rows, pad.rows), n: roundUp(c.Cols, pad.rows),
		k: roundUp(a.Cols, pad.k), scale: 1}
	e.problem.ldc = roundUp(e.problem.n, pad.ldc)
	return e.device.Do(func() error {
		if err := e.reserve(maxCopies); err != nil {
			return err
		}
		if err := e.copyOperands(a, b); err != nil {
			return fmt.Errorf("copying the operands to the GPU: %w", err)
		}
		if err := e.by.prepare(e.problem, e.places, e.watch, maxCopies > 1); err != nil {
			return err
		}
		for _, at := range e.places { // a search may have left correct results
			if err := e.device.Fill(at.c, nanByte, e.problem.bytesC()); err != nil {
				return err
			}
		}
		return nil
	})
}

// reserve lays out the places and allocates memory for them.
func (e *engine) reserve(maxCopies int) error {
	const alignment = 1024
	p := e.problem
	sizes := [3]int{roundUp(p.bytesA(), alignment), roundUp(p.bytesB(), alignment), roundUp(p.bytesC(), alignment)}
	each := sizes[0] + sizes[1] + sizes[2]
	n := max(1, min(maxCopies, (coldCaches*e.device.cache+each-1)/each))
	if n*each > e.poolBytes {
		if e.pool != 0 {
			if err := e.device.Free(e.pool); err != nil {
				return err
			}
		}
		e.pool, e.poolBytes = 0, 0
		var err error
		if e.pool, err = e.device.Alloc(n * each); err != nil {
			return fmt.Errorf("%d bytes for %d x %d x %d in %v: %w", n*each, p.m, p.n, p.k, p.operand, err)
		}
		e.poolBytes = n * each
	}
	for i := range n {
		at := e.pool + cuda.Pointer(i*each)
		e.places = append(e.places, place{at, at + cuda.Pointer(sizes[0]), at + cuda.Pointer(sizes[0]+sizes[1])})
	}
	e.next, e.last = 0, 0
	return nil
}

// copyOperands copies the operands to all places.
func (e *engine) copyOperands(a, b gemm.Matrix) error {
	p := e.problem
	if err := e.device.Write(e.places[0].a, e.packed(a, p.m, p.k)); err != nil {
		return err
	}
	if err := e.device.Write(e.places[0].b, e.packed(b.T(), p.n, p.k)); err != nil {
		return err
	}
	for _, at := range e.places[1:] {
		if err := e.watch.Copy(at.a, e.places[0].a, p.bytesA()); err != nil {
			return err
		}
		if err := e.watch.Copy(at.b, e.places[0].b, p.bytesB()); err != nil {
			return err
		}
	}
	return e.watch.Synchronize()
}

// nanByte is a byte that makes a NaN in every floating-point type.
const nanByte = 0xff

// packed returns a matrix's elements row by row, padded with zeros to the given size.
func (e *engine) packed(m gemm.Matrix, rows, cols int) []byte {
	size := m.Type.Size()
	if m.ColStep == 1 && m.RowStep == cols && m.Rows == rows && m.Cols == cols {
		return m.Data[:rows*cols*size]
	}
	if need := rows * cols * size; len(e.staging) < need {
		e.staging = make([]byte, need)
	}
	to := e.staging[:rows*cols*size]
	clear(to)
	for i := range m.Rows {
		line := to[i*cols*size:]
		if m.ColStep == 1 {
			copy(line, m.Run(i, 0, m.Cols))
			continue
		}
		for j := range m.Cols {
			copy(line[j*size:(j+1)*size], m.Run(i, j, 1))
		}
	}
	return to
}

// Fetch copies the last result and overwrites it on the GPU, so that it cannot be mistaken for the
// next.
func (e *engine) Fetch(c gemm.Matrix) error {
	if c.Rows != e.rows || c.Cols != e.cols {
		return fmt.Errorf("fetching %d x %d of a result of %d x %d", c.Rows, c.Cols, e.rows, e.cols)
	}
	if len(e.places) == 0 {
		c.Clear()
		return nil
	}
	bytes := e.problem.bytesC()
	if len(e.staging) < bytes {
		e.staging = make([]byte, bytes)
	}
	err := e.device.Do(func() error {
		if err := e.device.Read(e.staging[:bytes], e.places[e.last].c); err != nil {
			return err
		}
		return e.device.Fill(e.places[e.last].c, nanByte, bytes)
	})
	if err != nil {
		return fmt.Errorf("fetching the result: %w", err)
	}
	size := c.Type.Size()
	for i := range c.Rows {
		line := e.staging[i*e.problem.ldc*size:]
		if c.ColStep == 1 {
			copy(c.Run(i, 0, c.Cols), line)
			continue
		}
		for j := range c.Cols {
			copy(c.Run(i, j, 1), line[j*size:(j+1)*size])
		}
	}
	return nil
}

func (e *engine) Details() map[string]string {
	all := maps.Clone(e.by.details())
	all["gpu"] = e.device.Device().Name
	all["launch"] = fmt.Sprintf("graphs of up to %d products", e.graphSize())
	if e.noGraphs != nil {
		all["launch"] = "one by one: " + e.noGraphs.Error()
	}
	all["operands"] = fmt.Sprintf("B by columns, %d copies of all, %.0f MiB, in turns", len(e.places),
		float64(e.poolBytes)/(1<<20))
	if p := e.problem; p.m != e.rows || p.n != e.cols {
		all["padded"] = fmt.Sprintf("%dx%dx%d", p.m, p.n, p.k)
	}
	return all
}

func (e *engine) Observe() (string, error) {
	r, err := e.device.Device().Read()
	if err != nil {
		return "", err
	}
	return r.String(), nil
}

func (e *engine) Peak(d dtype.DType) (float64, error) { return e.device.peakOf(d, e.watch) }

// constant reports whether a matrix has several elements, all with the same bits.
func constant(m gemm.Matrix) bool {
	if m.ColStep != 1 {
		m = m.T()
	}
	first := string(m.Run(0, 0, 1))
	size := len(first)
	for i := range m.Rows {
		for line := m.Run(i, 0, m.Cols); len(line) > 0; line = line[size:] {
			if string(line[:size]) != first {
				return false
			}
		}
	}
	return m.Rows*m.Cols > 1
}

func roundUp(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }
