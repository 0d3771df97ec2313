package mpi

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/mpi"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// A goroutine's stack moves when it grows, and when the garbage collector shrinks it. So memory that
// MPI knows by address must not be on a stack.
func init() {
	bodies["stack"] = grouped(10*time.Second, func(r *rank, g *dist.Group) error {
		return errors.Join(r.growBetween(), r.collectDuring(g))
	})
}

// growBetween lets the stack grow between preparing a call and running it.
func (r *rank) growBetween() error {
	fault := make(chan error)
	go func() { // starts with a small stack
		one := make([]int32, 2)
		one[0] = 1
		call := r.lib.Allreduce(mpi.Memory(one), mpi.Memory(one[1:]), 1, r.lib.Type(dtype.I32), r.lib.Op(dtype.I32, vec.Min),
			r.bootstrap)
		growStack(64)
		err := call.Run()
		if err == nil && one[1] != 1 {
			err = fmt.Errorf("the least of ones is %d after the stack has grown", one[1])
		}
		fault <- err
	}()
	return <-fault
}

// collectDuring lets the collector shrink the stack at any moment during the calls in which this
// backend passes its own memory.
func (r *rank) collectDuring(g *dist.Group) error {
	runtime.GOMAXPROCS(4)
	stop := make(chan struct{})
	defer close(stop)
	for range 2 {
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
					runtime.GC()
				}
			}
		}()
	}
	for k, end := 0, time.Now().Add(stackTime); ; k++ {
		growStack(100)
		b, err := g.Alloc(dist.F32, 1)
		if err != nil {
			return fmt.Errorf("round %d: %w", k, err)
		}
		if err := g.Free(b); err != nil {
			return err
		}
		if k%stackSplits != 0 {
			continue
		}
		part, err := g.Split(0, r.rank) // ranks exchange a number in it
		if err != nil {
			return fmt.Errorf("round %d: %w", k, err)
		}
		if err := part.Close(); err != nil {
			return err
		}
		// All ranks end in the same round.
		enough := []int32{0}
		if time.Now().After(end) {
			enough[0] = 1
		}
		if err := g.AllReduce(dist.Of(enough), dist.Of(enough), dist.Max); err != nil || enough[0] == 1 {
			return err
		}
	}
}

const (
	stackTime   = time.Second
	stackSplits = 20
)

// growStack uses some KiB of stack, which the collector reclaims later.
//
//go:noinline
func growStack(kib int) byte {
	var frame [1 << 10]byte
	if kib > 0 {
		frame[kib] = growStack(kib - 1)
	}
	return frame[kib/2]
}

func TestMovingStack(t *testing.T) {
	for _, l := range launchers {
		for ranks := 1; ranks <= 2; ranks++ {
			t.Run(fmt.Sprintf("%s/%d", l.family, ranks), func(t *testing.T) {
				if out, err := l.ranks(t, ranks, "stack"); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}
