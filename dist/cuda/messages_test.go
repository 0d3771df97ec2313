package cuda

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/disttest"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/cudatest"
)

// messagesCase runs the suite's check of messages between two ranks, in groups with the given knobs.
func messagesCase(t *testing.T, knobs map[string]string, names ...string) (errs []error) {
	t.Helper()
	s := disttest.Suite{Sizes: []int{2}, Short: true, Open: func(size int, timeout time.Duration) ([]*dist.Group, error) {
		return openWith(size, timeout, knobs)
	}}
	for _, c := range s.Cases() {
		for _, name := range names {
			if c.Name == name+"/2" {
				errs = append(errs, c.Check())
			}
		}
	}
	if len(errs) != len(names) {
		t.Fatalf("the suite has not all of %q", names)
	}
	return errs
}

// Messages and collectives that copy are right with every copy method. Bulk copies are tested here
// because they need equally aligned buffers, which the suite does not use.
func TestCopyMethods(t *testing.T) {
	for _, method := range []string{byEngine, byLoads} {
		for _, err := range messagesCase(t, map[string]string{copyKnob: method}, "messages", "allgather", "allreduce",
			"counts") {
			if err != nil {
				t.Errorf("%s=%s: %v", copyKnob, method, err)
			}
		}
	}
	t.Setenv(cudatest.MajorVariable, "9")
	gs := must.Get(openWith(2, time.Minute, map[string]string{copyKnob: byBulk}))(t)
	together(t, gs, func(rank int, g *dist.Group) error {
		b, err := g.Alloc(dist.F64, 100_001)
		if err != nil {
			return err
		}
		for _, n := range []int{1, 100_001} { // copied by one block, which raises a flag, and by many
			part := b.Slice(0, n)
			if err := errors.Join(fill(part, float64(rank+1)), g.AllReduce(part, part, dist.Sum), holds(part, 3)); err != nil {
				return fmt.Errorf("all-reduce of %d: %w", n, err)
			}
			call, want := g.Send, 3.0
			if rank == 1 {
				call, want = g.Recv, 5.0
			}
			if err := errors.Join(fill(part, 5-2*float64(rank)), call(part, 1-rank), holds(part, 5)); err != nil {
				return fmt.Errorf("message of %d, %v: %w", n, want, err)
			}
		}
		// Buffers with different alignment are refused, not copied by another method.
		if rank == 0 {
			err = g.Send(b.Slice(0, 8), 1)
		} else {
			err = g.Recv(b.Slice(1, 8), 0)
		}
		if err == nil || !strings.Contains(err.Error(), "source and destination of a copy differ in their alignment") {
			return fmt.Errorf("ends that differ: %v", err)
		}
		return nil
	})
	for _, g := range gs {
		g.Close()
	}
}

// A copy method that the GPU or the algorithm does not support is refused, not replaced.
func TestCopyRefused(t *testing.T) {
	_, err := openWith(2, time.Minute, map[string]string{copyKnob: byBulk})
	if reason, lacks := errors.AsType[*dist.UnavailableError](err); !lacks ||
		!strings.Contains(reason.Error(),
			"copy=bulk: GPU 0 (Fake GPU 0) has compute capability 8, and bulk copies need 9.0") {
		t.Errorf("a GPU without bulk copies: %v", err)
	}
	_, err = openWith(2, time.Minute, map[string]string{copyKnob: byLoads, ranksAsKnob: asBlocks})
	if reason, lacks := errors.AsType[*dist.UnavailableError](err); !lacks ||
		!strings.Contains(reason.Error(), "blocks of one kernel make no copies") {
		t.Errorf("ranks as blocks: %v", err)
	}
	gs := must.Get(openWith(2, time.Minute, map[string]string{copyKnob: byLoads}))(t)
	c := gs[0].Capabilities()
	if got := c.Algorithms[dist.AllReduce]; len(got) != 1 || got[0] != naive ||
		!strings.Contains(c.Missing[oneStage], "copies nothing (copy=loads)") {
		t.Errorf("with copies of its own the all-reduce has %v, and lacks %v", got, c.Missing)
	}
	together(t, gs, func(_ int, g *dist.Group) error { return g.Close() })
}

func fill(b dist.Buffer, v float64) error {
	m, err := b.Mirror()
	if err != nil {
		return err
	}
	for i := range dist.Slice[float64](m) {
		dist.Slice[float64](m)[i] = v + float64(i)
	}
	return b.Update(m)
}

// holds checks the values that fill leaves, alone or summed over two ranks: v at the start, rising by
// 1 or 2.
func holds(b dist.Buffer, v float64) error {
	m, err := b.Mirror()
	if err != nil {
		return err
	}
	s := dist.Slice[float64](m)
	for i, x := range s {
		if rise := x - v; rise != float64(i) && rise != float64(2*i) {
			return fmt.Errorf("element %d is %v", i, x)
		}
	}
	return nil
}

// Copies run asynchronously: with any copy method, no rank takes a message for received before it is.
func TestSlowCopies(t *testing.T) {
	t.Setenv(cudatest.CopyVariable, "slow")
	for _, method := range []string{auto, byEngine, byLoads} {
		for _, err := range messagesCase(t, map[string]string{copyKnob: method}, "messages", "counts") {
			if err != nil {
				t.Errorf("%s=%s: %v", copyKnob, method, err)
			}
		}
	}
}

// With several GPUs, a collective leaves room for a block that receives a message: the sender may not
// have entered the collective yet.
func TestRoomForMessages(t *testing.T) {
	t.Setenv(cudatest.DevicesVariable, "2")
	gs, err := openWith(2, time.Minute, map[string]string{blocksKnob: "8"}) // one less than the GPU runs at once
	if err != nil {
		t.Fatal(err)
	}
	_, err = gs[0].Prepare(dist.Call{Op: dist.AllReduce, In: dist.Make(dist.F32, 8), Out: dist.Make(dist.F32, 8)})
	if err == nil || !strings.Contains(err.Error(), "blocks=8: with 1 ranks on the GPU at most 7 of each run at once") {
		t.Errorf("all blocks of two GPUs for a collective: %v", err)
	}
	together(t, gs, func(_ int, g *dist.Group) error { return g.Close() })
	for _, err := range messagesCase(t, nil, "messages", "subgroups") {
		if err != nil {
			t.Error(err)
		}
	}
}

// The suite finds the faults of a copy kernel: a flag set before the elements are there, elements from
// the wrong place, no elements, and a stale flag.
func TestWrongCopiesAreSeen(t *testing.T) {
	for fault, want := range map[string]string{"early": "element", "slot": "element", "lost": "element",
		"stale": "its flag is"} {
		t.Setenv(cudatest.CopyVariable, fault)
		if err := messagesCase(t, nil, "messages")[0]; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", fault, err, want)
		}
	}
}

// Messages that do not match are an error on both ranks, which names both sides.
func TestMessageMismatch(t *testing.T) {
	for _, c := range []struct {
		name       string
		send, recv func(b dist.Buffer) dist.Buffer
		want       []string
	}{
		{"count", func(b dist.Buffer) dist.Buffer {
			return b.Slice(0, 8)
		}, func(b dist.Buffer) dist.Buffer { return b.Slice(0, 9) },
			[]string{"rank 0 sends 8 f64 in device memory to rank 1, which receives 9 f64 in device memory"}},
		{"memory", func(b dist.Buffer) dist.Buffer {
			return b.Slice(0, 8)
		}, func(dist.Buffer) dist.Buffer { return dist.Make(dist.F64, 8) },
			[]string{"rank 0 sends 8 f64 in device memory to rank 1, which receives 8 f64"}},
		{"type", func(dist.Buffer) dist.Buffer {
			return dist.Make(dist.F32, 8)
		}, func(dist.Buffer) dist.Buffer { return dist.Make(dist.F64, 8) },
			[]string{"rank 0 sends 8 f32 to rank 1, which receives 8 f64"}},
	} {
		gs := must.Get(open(2, time.Minute))(t)
		errs := make([]error, 2)
		together(t, gs, func(rank int, g *dist.Group) error {
			b, err := g.Alloc(dist.F64, 100)
			if err != nil {
				return err
			}
			if rank == 0 {
				errs[0] = g.Send(c.send(b), 1)
				if errs[0] == nil {
					errs[0] = g.Barrier() // a short message is sent as soon as it is in shared memory
				}
			} else {
				errs[1] = g.Recv(c.recv(b), 0)
			}
			return nil
		})
		for rank, err := range errs {
			var misuse *dist.MisuseError
			if !errors.As(err, &misuse) || !strings.Contains(err.Error(), c.want[0]) {
				t.Errorf("%s: rank %d got %v, want %q", c.name, rank, err, c.want[0])
			}
		}
		for _, g := range gs {
			g.Close()
		}
	}
}

// A rank that has left, or does not arrive, is named by a rank that waits to send to it or to receive
// from it.
func TestMessageToNobody(t *testing.T) {
	for _, leaves := range []bool{true, false} {
		for _, op := range []dist.Collective{dist.Send, dist.Recv} {
			gs := must.Get(open(2, 2*time.Second))(t)
			bs := make([]dist.Buffer, 2)
			together(t, gs, func(rank int, g *dist.Group) (err error) { bs[rank], err = g.Alloc(dist.F64, 10); return err })
			if leaves {
				gs[1].Close()
			}
			call := gs[0].Send
			if op == dist.Recv {
				call = gs[0].Recv
			}
			var peer *dist.PeerError
			if err := call(bs[0], 1); !errors.As(err, &peer) || peer.Rank != 1 ||
				!strings.Contains(err.Error(), string(op)+" of 10 f64") {
				t.Errorf("%s where rank 1 leaves %v: %v, want a PeerError that names it and the call", op, leaves, err)
			}
			for _, g := range gs {
				g.Close()
			}
		}
	}
}

// dies makes the test program rank 1 of the group with this name. It sends one message and waits to be
// killed.
const dies = "KERNBENCH_TEST_RANK_DIES"

func dieAsRank1(id string) error {
	g, err := dist.Init(context.Background(), dist.Config{Backend: Name, Rank: 1, Size: 2, ID: id, Timeout: time.Minute})
	if err != nil {
		return err
	}
	b, err := g.Alloc(dist.F64, 1000)
	if err == nil {
		err = errors.Join(fill(b, 7), g.Send(b, 0))
	}
	if err == nil {
		fmt.Println("sent")
		select {}
	}
	return err
}

// startRank1 starts this test again in another process, as rank 1 of a group. The variable passes the
// group's name. said reads the process's output.
func startRank1(t *testing.T, variable string) (id string, rank1 *exec.Cmd, output *bufio.Reader) {
	t.Helper()
	id = fmt.Sprintf("%s-%d", t.Name(), os.Getpid())
	rank1 = exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	rank1.Env = append(os.Environ(), variable+"="+id)
	out := must.Get(rank1.StdoutPipe())(t)
	must.Do(t, rank1.Start())
	t.Cleanup(func() { rank1.Process.Kill() })
	return id, rank1, bufio.NewReader(out)
}

// A message arrives from the memory of another process. When that process is killed, the error names
// its rank as dead.
func TestMessageFromTheDead(t *testing.T) {
	if id := os.Getenv(dies); id != "" {
		t.Fatal(dieAsRank1(id))
	}
	t.Setenv(TurnsVariable, "1")
	id, rank1, output := startRank1(t, dies)
	g := must.Get(dist.Init(t.Context(), dist.Config{Backend: Name, Rank: 0, Size: 2, ID: id, Timeout: time.Minute}))(t)
	b := must.Get(g.Alloc(dist.F64, 1000))(t)
	must.Do(t, errors.Join(g.Recv(b, 1), holds(b, 7)))
	if line, err := output.ReadString('\n'); line != "sent\n" {
		t.Fatalf("%q %v", line, err)
	}
	rank1.Process.Kill()
	rank1.Wait()
	var peer *dist.PeerError
	if err := g.Recv(b, 1); !errors.As(err, &peer) || peer.Rank != 1 || !peer.Dead {
		t.Errorf("receiving from the dead: %v", err)
	}
	g.Close()
}

// Memory of a group works in groups that were split from it, until it is freed or its group is closed.
// Memory of an unrelated group does not. Calls of a group and of its parts do not disturb each other.
func TestSubgroupMemory(t *testing.T) {
	const size = 3
	gs := must.Get(open(size, time.Minute))(t)
	others := must.Get(open(size, time.Minute))(t)
	together(t, gs, func(rank int, g *dist.Group) error {
		foreign, err := others[rank].Alloc(dist.F64, 10)
		if err != nil {
			return err
		}
		b, err := g.Alloc(dist.F64, 10)
		if err != nil {
			return err
		}
		turned, err := g.Split(0, -rank) // all ranks, in reverse order
		if err != nil {
			return err
		}
		pair, err := turned.Split(turned.Rank()/2, 0) // ranks 2 and 1, and rank 0 alone
		if err != nil {
			return err
		}
		if err := fill(b, float64(10*rank)); err != nil {
			return err
		}
		if rank > 0 { // rank 2 is rank 0 of the pair, and sends in memory of the first group
			call := pair.Send
			if rank == 1 {
				call = pair.Recv
			}
			if err := errors.Join(call(b, 1-pair.Rank()), holds(b, 20)); err != nil {
				return err
			}
		}
		if _, err := pair.Prepare(dist.Call{Op: dist.AllReduce, In: foreign, Out: foreign}); err == nil ||
			!strings.Contains(err.Error(), "another group") {
			return fmt.Errorf("memory of another group: %v", err)
		}
		op, err := pair.Prepare(dist.Call{Op: dist.AllReduce, In: b, Out: b})
		if err != nil {
			return err
		}
		if err := errors.Join(op.Run(), g.Barrier(), g.Free(b)); err != nil {
			return err
		}
		if err := op.Run(); err == nil || !strings.Contains(err.Error(), "freed") {
			return fmt.Errorf("freed in the first group: %v", err)
		}
		pair.Close()
		return turned.Close()
	})
	for rank := range gs {
		gs[rank].Close()
		others[rank].Close()
	}
}

// An encoded span has room for the largest level, id and offset.
func TestSpanWord(t *testing.T) {
	a := &allocation{id: maxAllocations - 1}
	e := &engine{allocations: map[int]*allocation{a.id: a}}
	for range maxLineage {
		e.lineage = append(e.lineage, ancestor{engine: e})
	}
	s := span{allocation: a, off: 1<<offsetBits - 1, level: maxLineage - 1}
	if got := e.decodeSpan(s.encode()); got.allocation != a || got.off != s.off || got.level != s.level {
		t.Errorf("%+v came back as %+v", s, got)
	}
}
