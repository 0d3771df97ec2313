// Package service solves sparse systems for another program, such as a Python process. The program sends requests as
// lines of JSON. The arrays of a request are in memory that both processes share. The package contains no solver:
// package solve does the work.
package service

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/system"
	"github.com/kernbench/kernbench/solve"
)

// Request asks for the solution of A x = b. The shared memory holds, in this order and in elements of 8 bytes: Rows+1
// row starts, Entries columns, Entries values, then b and x, each with Rows rows of Columns values. A is in compressed
// sparse rows.
type Request struct {
	Rows, Entries, Columns int
	Transposed             bool    // solve with the transpose of A
	Method, Precond        string  // Method "auto" is cg for a symmetric matrix, else gmres
	Tol                    float64 // relative to b
	MaxIter                int     // 0 means the default
	Ranks                  int
	Device                 *Device // nil if the arrays are in the shared memory
}

// Reply is the outcome of a request. If Error is empty, the solution is in the shared memory.
type Reply struct {
	Error      string  `json:"error"`
	Method     string  `json:"method"`
	Iterations int     `json:"iterations"`
	Residual   float64 `json:"residual"` // true residual relative to b; the largest of all columns
}

// auto stands for the method that suits the matrix; see Request.
const auto = "auto"

// Serve answers requests until the input ends. memory is the file that both processes map. If the input ends during a
// solve, the client is gone and nobody waits for the answer: Serve returns at once, and leaves the solve running, which
// ends with the process.
func Serve(ctx context.Context, in io.Reader, out io.Writer, memory *os.File) error {
	requests, ended := make(chan []byte), make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			requests <- bytes.Clone(lines.Bytes())
		}
		ended <- lines.Err()
	}()
	answers := json.NewEncoder(out)
	for {
		replies := make(chan Reply, 1)
		select {
		case line := <-requests:
			go func() { replies <- reply(ctx, line, memory) }()
		case err := <-ended:
			return err
		}
		select {
		case r := <-replies:
			if err := answers.Encode(r); err != nil {
				return fmt.Errorf("answering a request: %w", err)
			}
		case err := <-ended:
			return err
		}
	}
}

// reply answers one request.
func reply(ctx context.Context, line []byte, memory *os.File) (r Reply) {
	var q Request
	err := json.Unmarshal(line, &q)
	if err == nil {
		r, err = answer(ctx, q, memory)
	}
	if err != nil {
		r.Error = err.Error()
	}
	if math.IsNaN(r.Residual) || math.IsInf(r.Residual, 0) {
		r.Residual = -1 // JSON has no such numbers
	}
	return r
}

// answer maps the arrays of a request and solves it.
func answer(ctx context.Context, q Request, memory *os.File) (Reply, error) {
	if q.Rows < 1 || q.Entries < 0 || q.Columns < 1 || q.Ranks < 1 || q.Rows > math.MaxInt32 {
		return Reply{}, fmt.Errorf("a request of %d rows, %d entries, %d columns and %d ranks", q.Rows, q.Entries, q.Columns,
			q.Ranks)
	}
	if q.Device != nil {
		return solveOnDevice(ctx, q)
	}
	info, err := memory.Stat()
	if err != nil {
		return Reply{}, fmt.Errorf("looking at the shared memory: %w", err)
	}
	words := math.MaxInt / 8
	if limit := int(info.Size()); q.Entries <= limit && q.Columns <= limit/q.Rows { // otherwise the sum could overflow
		words = q.Rows + 1 + 2*q.Entries + 2*q.Rows*q.Columns
	}
	if info.Size() < int64(8*words) {
		return Reply{}, fmt.Errorf("the shared memory has %d bytes, the request needs %d", info.Size(), 8*words)
	}
	data, err := unix.Mmap(int(memory.Fd()), 0, 8*words, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return Reply{}, fmt.Errorf("mapping the shared memory: %w", err)
	}
	defer unix.Munmap(data)
	integers := unsafe.Slice((*int64)(unsafe.Pointer(&data[0])), words)
	reals := unsafe.Slice((*float64)(unsafe.Pointer(&data[0])), words)
	values := q.Rows + 1 + q.Entries
	b := values + q.Entries
	m, err := newCSR(integers[:q.Rows+1], integers[q.Rows+1:values], reals[values:b])
	if err != nil {
		return Reply{}, err
	}
	if q.Transposed && !m.symmetric {
		m = m.transposed()
	}
	if q.Method == auto {
		if q.Method = "gmres"; m.symmetric {
			q.Method = "cg"
		}
	}
	x := b + q.Rows*q.Columns
	return solveOnRanks(ctx, q, m, reals[b:x], reals[x:])
}

// joinLimit is the time that a rank waits for another.
const joinLimit = 15 * time.Minute

// solveOnRanks solves on ranks that are goroutines of this process.
func solveOnRanks(ctx context.Context, q Request, m *csr, b, x []float64) (reply Reply, err error) {
	job := &job{q: q, m: m, b: b, x: x, reply: Reply{Method: q.Method}}
	var ranks errgroup.Group
	id := fmt.Sprintf("solve-%d-%d", os.Getpid(), time.Now().UnixNano())
	for r := range q.Ranks {
		ranks.Go(func() error {
			g, err := dist.Init(ctx, dist.Config{Backend: "cpu", Rank: r, Size: q.Ranks, ID: id, Timeout: joinLimit,
				SharedBytes: 64<<20 + 64*(q.Rows/q.Ranks+1)})
			if err != nil {
				return err
			}
			defer g.Close()
			return job.run(g)
		})
	}
	err = ranks.Wait()
	return job.reply, err
}

// job is a request with its arrays.
type job struct {
	q     Request
	m     *csr
	b, x  []float64 // row by row
	reply Reply     // rank 0 writes it
}

// run solves on one rank. A method with a block form solves for all columns at once, the others for
// one after the other.
func (j *job) run(g *dist.Group) error {
	column, n := 0, j.q.Columns
	spec := solve.Spec{Problem: j.m, Method: j.q.Method, Preconditioner: j.q.Precond, RTol: j.q.Tol, MaxIter: j.q.MaxIter,
		RHS: func(row int) float64 { return j.b[row*n+column] }}
	for ; column < n; column++ {
		sys, err := system.New(g, spec)
		if err != nil {
			return err
		}
		if n > 1 && j.q.Method == system.BlockMethod {
			all, err := system.NewBlock(sys, n, func(row, column int) float64 { return j.b[row*n+column] })
			if err != nil {
				return err
			}
			return j.solve(g, all, func(out solve.Outcome) error { return all.Gate(out, j.q.Tol) }, func(i int) {
				copy(j.x[sys.Plan.Global(i)*n:][:n], all.Solution()[i*n:])
			})
		}
		if err := j.solve(g, sys, func(out solve.Outcome) error { return out.Gate(j.q.Tol) }, func(i int) {
			j.x[sys.Plan.Global(i)*n+column] = sys.Solution()[i]
		}); err != nil {
			return err
		}
	}
	return nil
}

// solve solves a system of one or all columns, records the outcome, and stores the solution of each row.
func (j *job) solve(g *dist.Group, sys interface {
	Solve(limit int) (solve.Outcome, error)
	Check(out *solve.Outcome) error
	Rows() int
}, gate func(solve.Outcome) error, store func(row int)) error {
	out, err := sys.Solve(0)
	if err != nil {
		return err
	}
	if err := sys.Check(&out); err != nil {
		return err
	}
	if g.Rank() == 0 {
		j.reply.Iterations += out.Iterations
		j.reply.Residual = max(j.reply.Residual, out.TrueResidual)
	}
	if err := gate(out); err != nil {
		return err
	}
	for i := range sys.Rows() {
		store(i)
	}
	return nil
}

var errShape = errors.New("the row starts of A must ascend from 0 to the number of entries")
