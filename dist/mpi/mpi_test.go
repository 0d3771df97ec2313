package mpi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
)

const (
	patience = time.Minute
	// impatience is a short timeout that still lets processes meet on a loaded machine.
	impatience = 3 * time.Second
)

// want checks an error's type and text.
func want[E error](err error, parts ...string) error {
	var typed E
	if !errors.As(err, &typed) {
		return fmt.Errorf("got %v, want a %T", err, typed)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			return fmt.Errorf("got %q, which does not say %q", err, p)
		}
	}
	return nil
}

// grouped returns a body that runs in one group.
func grouped(timeout time.Duration, body func(r *rank, g *dist.Group) error) func(*rank) error {
	return func(r *rank) error {
		g, err := r.join(timeout)
		if err != nil {
			return err
		}
		err = body(r, g)
		return errors.Join(err, r.meet(), g.Close())
	}
}

func floats(n int) dist.Buffer { return dist.Of(make([]float32, n)) }

func init() {
	// quiet makes no mistake, and must print nothing.
	bodies["quiet"] = grouped(patience, func(_ *rank, g *dist.Group) error {
		b := floats(1000)
		return errors.Join(g.AllReduce(b, b, dist.Sum), g.Barrier())
	})
	bodies["panic"] = grouped(patience, func(*rank, *dist.Group) (err error) {
		defer func() {
			if recover() == nil {
				err = errors.New("no panic")
			}
		}()
		var nowhere *rank
		return fmt.Errorf("read %v", nowhere.groups)
	})
	bodies["message"] = grouped(patience, func(r *rank, g *dist.Group) error {
		return errors.Join(disagree(r, g, floats(8), floats(9), "rank 1 sends 8 f32 to rank 0, which receives 9 f32"))
	})
	bodies["type"] = grouped(patience, func(r *rank, g *dist.Group) error {
		return disagree(r, g, dist.Of(make([]int32, 8)), floats(8), "rank 1 sends 8 i32 to rank 0, which receives 8 f32")
	})
	bodies["long"] = grouped(patience, func(r *rank, g *dist.Group) error {
		return disagree(r, g, floats(3_000_000), floats(8), "rank 1 sends 3000000 f32 to rank 0, which receives 8 f32")
	})
	bodies["silence"] = grouped(impatience, func(r *rank, g *dist.Group) error {
		if r.rank == 1 {
			return nil
		}
		return want[*dist.PeerError](g.Recv(floats(8), 1),
			fmt.Sprintf("rank 0 waited %v for rank 1 in recv of 8 f32 from rank 1", impatience))
	})
	bodies["gone"] = func(r *rank) error {
		g, err := r.join(patience)
		if err != nil {
			return err
		}
		if r.rank == 1 {
			err = errors.Join(g.Send(floats(8), 0), g.Close()) // the message arrives although rank 1 has left
		} else {
			time.Sleep(100 * time.Millisecond)
			err = errors.Join(g.Recv(floats(8), 1),
				want[*dist.PeerError](g.Recv(floats(8), 1), "rank 1", "has left the group", "recv of 8 f32"))
			err = errors.Join(err, g.Close())
		}
		return errors.Join(err, r.meet())
	}
	// crossed waits in a collective on one rank and for a message on the other.
	bodies["crossed"] = grouped(impatience, func(r *rank, g *dist.Group) error {
		if r.rank == 0 {
			if err := g.Barrier(); err == nil || !strings.Contains(err.Error(), "rank 1") {
				return fmt.Errorf("the barrier gave %v", err)
			}
			return nil
		}
		if err := g.Recv(floats(8), 0); err == nil {
			return errors.New("a message came from nowhere")
		}
		return nil
	})
	bodies["late"] = func(r *rank) error {
		if r.rank == 1 {
			r.groups++ // to stay in step with the other rank
			return r.meet()
		}
		_, err := r.join(impatience)
		if err == nil || !strings.Contains(err.Error(), "1") || !strings.Contains(err.Error(), "rank") {
			err = fmt.Errorf("joining alone gave %v", err)
		} else {
			err = nil
		}
		return errors.Join(err, r.meet())
	}
	bodies["place"] = func(r *rank) error {
		_, err := dist.Init(context.Background(), dist.Config{Backend: Name, Rank: 0, Size: r.size + 1, ID: "x"})
		if err == nil || !strings.Contains(err.Error(),
			fmt.Sprintf("this process is rank %d of %d in the world of %v", r.rank, r.size, r.lib)) {
			return fmt.Errorf("another size gave %v", err)
		}
		return nil
	}
	bodies["two"] = twoGroups
	bodies["stray"] = stray
	bodies["mixed"] = grouped(patience, mixed)
	bodies["memory"] = grouped(patience, memory)
	bodies["once"] = grouped(patience, once)
	bodies["exchanged"] = grouped(patience, exchanged)
	bodies["allocs"] = grouped(patience, allocs)
	bodies["killed"] = grouped(patience, func(r *rank, g *dist.Group) error {
		for k := 0; ; k++ {
			if r.rank == 1 && k == 100 {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			if err := g.Barrier(); err != nil {
				return err
			}
		}
	})
}

// disagree makes rank 1 send and rank 0 receive something else. That ends the group on both.
func disagree(r *rank, g *dist.Group, send, receive dist.Buffer, says string) error {
	var err error
	if r.rank == 0 {
		err = want[*dist.MisuseError](g.Recv(receive, 1), says)
	} else if sent := g.Send(send, 0); sent != nil { // a short message is sent before anybody looks at it
		err = want[*dist.MisuseError](sent, says)
	}
	return errors.Join(err, want[*dist.MisuseError](g.Barrier(), says))
}

// twoGroups joins and uses two groups at once, started in opposite order.
func twoGroups(r *rank) error {
	var both sync.WaitGroup
	errs := make([]error, 2)
	for k := range 2 {
		id := fmt.Sprintf("two-%d-%d", os.Getppid(), k^r.rank%2)
		both.Go(func() {
			g, err := dist.Init(context.Background(),
				dist.Config{Backend: Name, Rank: r.rank, Size: r.size, ID: id, Timeout: patience})
			if err != nil {
				errs[k] = err
				return
			}
			for n := range 200 {
				b := []int64{int64(n)}
				if err := g.AllReduce(dist.Of(b), dist.Of(b), dist.Sum); err != nil || b[0] != int64(n*r.size) {
					errs[k] = fmt.Errorf("sum %d is %d: %v", n, b[0], err)
					return
				}
			}
			errs[k] = g.Close()
		})
		time.Sleep(time.Millisecond)
	}
	both.Wait()
	return errors.Join(errs...)
}

// stray makes rank 1 send a message to rank 0, which has left, in each of many groups. None of these
// messages may turn up in the next group.
func stray(r *rank) error {
	for k := range 30 {
		g, err := r.join(patience)
		if err != nil {
			return err
		}
		for range 3 {
			b := []int32{int32(k)}
			if r.rank == 1 {
				err = errors.Join(g.Send(dist.Of(b), 0), g.Recv(dist.Of(b), 0))
			} else {
				err = errors.Join(g.Recv(dist.Of(b), 1), g.Send(dist.Of(b), 1))
			}
			err = errors.Join(err, g.AllReduce(dist.Of(b), dist.Of(b), dist.Sum))
			if err != nil || b[0] != int32(k*r.size) {
				return fmt.Errorf("group %d has %d: %v", k, b[0], err)
			}
		}
		if r.rank == 1 {
			time.Sleep(2 * time.Millisecond)
			_ = g.Send(dist.Of([]int32{-1}), 0) // may fail or be lost
		}
		_ = g.Close()
	}
	return nil
}

// mixed makes some ranks work in place and others not.
func mixed(r *rank, g *dist.Group) error {
	in := []float64{float64(r.rank), 1}
	out := []float64{-1, -1}
	if r.rank == 0 {
		out = in
	}
	if err := g.AllReduce(dist.Of(out), dist.Of(in), dist.Sum); err != nil {
		return err
	}
	if want := float64(r.size * (r.size - 1) / 2); out[0] != want || out[1] != float64(r.size) {
		return fmt.Errorf("rank %d has %v", r.rank, out)
	}
	return nil
}

func memory(_ *rank, g *dist.Group) error {
	b, err := g.Alloc(dist.F32, 5000)
	if err != nil {
		return err
	}
	s := dist.Slice[float32](b)
	for i := range s {
		s[i] = 1
	}
	if err := errors.Join(g.AllReduce(b, b, dist.Sum), g.Free(b)); err != nil {
		return err
	}
	if g.Free(b) == nil || g.Free(floats(3)) == nil {
		return errors.New("memory that was not allocated was freed")
	}
	again, err := g.Alloc(dist.I32, 5000)
	if err != nil {
		return err
	}
	for i, v := range dist.Slice[int32](again) {
		if v != 0 {
			return fmt.Errorf("fresh memory has %d at %d", v, i)
		}
	}
	return nil
}

// once checks that the ranks agree only on the first run of a prepared call.
func once(_ *rank, g *dist.Group) error {
	e, _ := dist.EngineAs[*engine](g)
	before, b := e.coordinator.calls, floats(16)
	op, err := g.Prepare(dist.Call{Op: dist.AllReduce, In: b, Out: b})
	for range 50 {
		if err == nil {
			err = op.Run()
		}
	}
	for range 50 {
		if err == nil {
			err = errors.Join(op.Begin(), op.Wait())
		}
	}
	if posts := e.coordinator.calls - before; err == nil && posts != 2 { // of Run, and of Begin
		err = fmt.Errorf("ranks agreed %d times on 100 runs of a call", posts)
	}
	return err
}

// exchanged runs two calls in another order on one rank, after the ranks have agreed on both. MPI cannot tell them
// apart. The next agreement does.
func exchanged(r *rank, g *dist.Group) error {
	var ops []*dist.Op
	for _, scale := range []float64{0.5, 0.25} {
		b := floats(16)
		op, err := g.Prepare(dist.Call{Op: dist.AllReduce, In: b, Out: b, Epilogue: &dist.Epilogue{Scale: scale}})
		if err == nil {
			err = op.Run()
		}
		if err != nil {
			return err
		}
		ops = append(ops, op)
	}
	first := r.rank % 2
	if err := errors.Join(ops[first].Run(), ops[1-first].Run()); err != nil {
		return err
	}
	return want[*dist.MisuseError](g.Barrier(), "ranks disagree", "barrier, after 2 calls again")
}

// allocs counts the allocations of a prepared call and of a message.
func allocs(r *rank, g *dist.Group) error {
	b := floats(16)
	sum, err := g.Prepare(dist.Call{Op: dist.AllReduce, In: b, Out: b})
	if err != nil {
		return err
	}
	c := dist.Call{Op: dist.Send, In: b, Peer: 1}
	if r.rank == 1 {
		c = dist.Call{Op: dist.Recv, Out: b, Peer: 0}
	}
	message, err := g.Prepare(c)
	if err != nil {
		return err
	}
	var failed error
	n := testing.AllocsPerRun(200, func() { failed = errors.Join(failed, sum.Run(), message.Run()) })
	if failed == nil && n > 0.1 { // the Go runtime may allocate meanwhile
		failed = fmt.Errorf("a call allocates %v times", n)
	}
	return failed
}

// The bodies for two ranks. Bodies that wait for a timeout run concurrently with the others. The body
// that must print nothing runs alone.
var (
	quick = []string{"allocs", "panic", "message", "type", "long", "gone", "place", "two", "stray", "mixed", "memory",
		"once", "exchanged"}
	waiting = []string{"silence", "crossed", "late"}
)

// Runs each body with both libraries. One start of ranks runs many
// bodies, so that the remains of a group cannot spoil the next.
func TestBodies(t *testing.T) {
	list := quick
	if testing.Short() {
		list = quick[1:] // the race detector itself allocates
	}
	type started struct {
		launcher
		bodies []string
		wait   func() (string, error)
	}
	var all []started
	for _, bodies := range [][]string{waiting, {"quiet"}, list} {
		for _, l := range launchers {
			s := started{l, bodies, l.start(t, 2, strings.Join(bodies, ","))}
			if all = append(all, s); len(bodies) != len(waiting) {
				s.wait() // one at a time, because these compute
			}
		}
	}
	for _, s := range all {
		out, err := s.wait()
		for _, body := range s.bodies {
			t.Run(fmt.Sprintf("%s/%s", s.family, body), func(t *testing.T) {
				done := out == "" // a body without mistakes prints nothing
				if len(s.bodies) > 1 {
					done = strings.Contains(out, "DONE "+body+"\n")
				}
				if !done || err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}

// A rank that is killed ends the job.
func TestKilled(t *testing.T) {
	for _, l := range launchers {
		wait := l.start(t, 3, "killed")
		defer func() {
			if out, err := wait(); err == nil || strings.Contains(err.Error(), "hangs") {
				t.Errorf("%s: %v\n%s", l.family, err, out)
			}
		}()
	}
}
