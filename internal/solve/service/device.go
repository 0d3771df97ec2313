package service

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/solve/device"
	"github.com/kernbench/kernbench/solve"
)

// Device says where the arrays of a request are in GPU memory: at Offset from the start of the allocation with the CUDA
// IPC handle Handle. They are, in this order: Entries values, the Rows reciprocals of the diagonal, b and x column by
// column, all of them doubles; then Rows+1 row starts and Entries columns, unsigned and of 32 bits. The client has
// checked the matrix, and checks the solution.
type Device struct {
	Handle      []byte
	Offset      uint64
	TileEntries int // see device.Given
}

// gpu is the group of one rank that solves on the GPU. It exists once a request has needed it.
var gpu *dist.Group

// solveOnDevice solves on GPU 0.
func solveOnDevice(ctx context.Context, q Request) (reply Reply, err error) {
	if len(q.Device.Handle) != cuda.HandleBytes {
		return reply, fmt.Errorf("a handle of %d bytes, want %d", len(q.Device.Handle), cuda.HandleBytes)
	}
	if q.Method == auto {
		q.Method = "cg"
	}
	if gpu == nil {
		g, err := dist.Init(ctx, dist.Config{Backend: "cuda", Size: 1, ID: fmt.Sprintf("solve-gpu-%d", os.Getpid()),
			Timeout: joinLimit})
		if err != nil {
			return reply, err
		}
		gpu = g
	}
	context, err := device.ContextOf(gpu)
	if err != nil {
		return reply, err
	}
	var base cuda.Pointer
	if err := context.Do(func() (err error) {
		base, err = context.Import(cuda.Handle(q.Device.Handle))
		return err
	}); err != nil {
		return reply, fmt.Errorf("opening the memory of the tensors: %w", err)
	}
	defer func() {
		err = errors.Join(err, context.Do(func() error { return context.CloseImport(base) }))
	}()
	return solveGiven(q, base+cuda.Pointer(q.Device.Offset))
}

// solveGiven solves for one column after the other. at is the address of the arrays.
func solveGiven(q Request, at cuda.Pointer) (Reply, error) {
	reply := Reply{Method: q.Method}
	next := func(elements, size int) cuda.Pointer {
		start := at
		at += cuda.Pointer(elements * size)
		return start
	}
	given := &device.Given{Rows: q.Rows, Entries: q.Entries, TileEntries: q.Device.TileEntries}
	given.Values, given.ReciprocalsOfDiagonal = next(q.Entries, 8), next(q.Rows, 8)
	b, x := next(q.Rows*q.Columns, 8), next(q.Rows*q.Columns, 8)
	given.Starts, given.Columns = next(q.Rows+1, 4), next(q.Entries, 4)
	given.RHS = b
	sys, err := device.New(gpu, device.Spec{Given: given, Spec: solve.Spec{Method: q.Method, Preconditioner: q.Precond,
		RTol: q.Tol, MaxIter: q.MaxIter}})
	if err != nil {
		return reply, err
	}
	defer sys.Close()
	for column := range q.Columns {
		at := cuda.Pointer(8 * q.Rows * column)
		out, err := sys.SolveGiven(b+at, x+at)
		if err != nil {
			return reply, err
		}
		reply.Iterations += out.Iterations
		reply.Residual = max(reply.Residual, out.Residual)
		out.TrueResidual = out.Residual
		if err := out.Gate(q.Tol); err != nil {
			return reply, err
		}
	}
	return reply, nil
}
