package cpu

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/cores"
)

// These flags make the test program measure all-reduce between processes instead of running tests:
//
//	go test -c ./dist/cpu && ./cpu.test -measure 2 [-private] [-algorithm NAME] [-dtype bf16] [-max BYTES]
var (
	measureRanks = flag.Int("measure", 0, "measure all-reduce on so many ranks")
	private      = flag.Bool("private", false, "on private buffers")
	algorithms   = flag.String("algorithm", "auto", "by this algorithm")
	elements     = flag.String("dtype", "f32", "of this type")
	chunkElems   = flag.Int("chunk", 0, "elements per piece")
	minBytes     = flag.Int("min", 4, "least bytes")
	maxBytes     = flag.Int("max", 64<<20, "most bytes")
	budget       = flag.Duration("budget", 300*time.Millisecond, "time per size")
	inPlaceRuns  = flag.Bool("inplace", false, "in place")
)

func TestMain(m *testing.M) {
	if os.Getenv(childBody) != "" {
		os.Exit(child())
	}
	flag.Parse()
	if *measureRanks == 0 {
		os.Exit(m.Run())
	}
	if err := dist.Spawn(context.Background(), *measureRanks, dist.Config{Backend: Name}, measureAll); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// pin binds each rank to its own core if there are enough cores.
func pin(rank, size int) error {
	runtime.LockOSThread()
	if size > runtime.NumCPU() {
		return nil
	}
	_, err := cores.BindThread(rank)
	return err
}

func measureAll(_ context.Context, g *dist.Group) error {
	if err := pin(g.Rank(), g.Size()); err != nil {
		return err
	}
	debug.SetGCPercent(-1)
	d, err := dtype.Parse(*elements)
	if err != nil {
		return err
	}
	if g.Rank() == 0 {
		fmt.Printf("# %d ranks, %v, private %v, %s\n# %10s %8s %10s %10s %10s %s\n", g.Size(), d, *private, *algorithms,
			"bytes", "runs", "min us", "median us", "p90 us", "algorithm")
	}
	count := *maxBytes / d.Size()
	in, out := dist.Buffer{}, dist.Buffer{}
	if in, err = buffer(g, d, count); err != nil {
		return err
	}
	if out, err = buffer(g, d, count); err != nil {
		return err
	}
	if *inPlaceRuns {
		out = in
	}
	for bytes := *minBytes; bytes <= *maxBytes; bytes *= 4 {
		if err := measure(g, in.Slice(0, bytes/d.Size()), out.Slice(0, bytes/d.Size())); err != nil {
			return err
		}
	}
	return nil
}

func buffer(g *dist.Group, d dist.DType, count int) (dist.Buffer, error) {
	if !*private {
		return g.Alloc(d, count)
	}
	// Private memory as malloc would return it. Touch it, so that no page fault is measured.
	b := make([]byte, count*d.Size())
	for i := range b {
		b[i] = 1
	}
	return view(d, b), nil
}

func measure(g *dist.Group, in, out dist.Buffer) error {
	op, err := g.Prepare(dist.Call{Op: dist.AllReduce, In: in, Out: out, Algorithm: *algorithms, Chunk: *chunkElems})
	if err != nil {
		return err
	}
	begin := time.Now()
	const warm = 5
	for range warm {
		if err := op.Run(); err != nil {
			return err
		}
	}
	runs := []float64{float64(*budget) / (float64(time.Since(begin)) / warm)}
	if err := g.AllReduce(dist.Of(runs), dist.Of(runs), dist.Min); err != nil {
		return err
	}
	n := max(15, min(200000, int(runs[0])))
	times := make([]float64, n)
	if err := g.Barrier(); err != nil {
		return err
	}
	for i := range times {
		t := time.Now()
		if err := op.Run(); err != nil {
			return err
		}
		times[i] = float64(time.Since(t)) / 1000
	}
	if err := g.AllReduce(dist.Of(times), dist.Of(times), dist.Max); err != nil {
		return err
	}
	slices.Sort(times)
	if g.Rank() == 0 {
		fmt.Printf("%12d %8d %10.3f %10.3f %10.3f %s\n", len(in.Bytes()), n, times[0], times[n/2], times[n*9/10],
			op.Plan().Algorithm)
	}
	return nil
}
