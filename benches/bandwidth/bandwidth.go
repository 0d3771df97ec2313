// Package bandwidth is the bench `bandwidth`: how fast the memory of a GPU or of this host is read, written and copied,
// how fast data moves between them, and how long a dependent load takes. It is the first test of a new machine, like
// nvbandwidth, bandwidthTest and BabelStream.
package bandwidth

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/collectives"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/comm/hints"
)

// The operations. The first ones move data between host and device, and exist on a GPU only.
const (
	hostToDevice   = "h2d"
	deviceToHost   = "d2h"
	bothWays       = "both"
	pageableUp     = "h2d-pageable"
	pageableDown   = "d2h-pageable"
	peerToPeer     = "p2p"
	deviceToDevice = "d2d"
	read           = "read"
	write          = "write"
	copyLoop       = "copy"
	scale          = "scale"
	add            = "add"
	triad          = "triad"
	update         = "update" // of bench memory
	chase          = "chase"
)

var (
	transfers = []string{hostToDevice, deviceToHost, bothWays, pageableUp, pageableDown}
	loops     = []string{read, write, copyLoop, scale, add, triad}
	onlyOnGPU = slices.Concat(transfers, []string{peerToPeer, deviceToDevice})
	allOps    = slices.Concat(onlyOnGPU, loops, []string{chase})
)

// gpuBackend is the backend of NVIDIA GPUs.
const gpuBackend = "cuda"

// Bench declares the bench.
func Bench() *bench.Bench {
	cfg := bench.DefaultMeasure()
	cfg.Stop.MinSamples, cfg.Stop.MaxTime = 5, 300*time.Millisecond
	return bench.New("bandwidth", body, append(declaredViews(),
		bench.Help("bandwidth and latency of the memory of a GPU or of this host, and of the bus between them"),
		bench.Doc(`Measures how fast memory is read, written and copied, and how long a load takes.

On this host (--backend cpu) all cores work together. On a GPU (--backend cuda) there are
also the transfers over the bus.

  h2d, d2h    copies from pinned host memory to the GPU and back
  both        both directions at once
  h2d-pageable, d2h-pageable
              the same from and to ordinary host memory
  p2p         copies between GPUs, one ordered pair at a time. The metrics p2p_FROM_TO have
              the GB/s of all pairs; the row's own time is from GPU 0 to GPU 1
  d2d         copies within the GPU by its copy engine
  read        sums an array of integers
  write       fills an array
  copy, scale, add, triad
              the loops of STREAM on f64: c = a, c = 3a, c = a + b, c = a + 3b
  chase       loads that depend on each other, through lines of 128 bytes in random order;
              each call goes on where the last one ended

size is the size of one array. gbps counts every byte that is read or written: copy moves
two arrays, triad three. A transfer over the bus counts once, and both directions of "both"
count. latency_ns is the time of one dependent load. limit is the published bandwidth of
the GPU's memory, from its clock and the width of its bus, and pct_of_limit the share of it.
Both are left out if the arrays are smaller than twice the GPU's cache, because the cache is
faster. Every element of every result is checked.

  kernbench run --bench bandwidth --backend cuda
  kernbench run --bench bandwidth --backend cuda --op h2d,d2h,both --size 4K:4G:x4
  kernbench run --bench bandwidth --op read,triad --size 256M`),
		bench.Backends(hints.HostBackend, gpuBackend),
		bench.Strings("op", slices.Concat(loops, []string{chase})...),
		bench.Bytes("size", "4Ki:256Mi:x16"),
		bench.On(gpuBackend, bench.Strings("op", allOps...), bench.Bytes("size", "4Ki,64Ki,1Mi,16Mi,256Mi,1Gi")),
		bench.Seconds("0.3", "longest time to sample one point, but at least five calls"),
		decl.OneOf("op", allOps...),
		bench.Drop(checkPoint),
		bench.Metric("latency_ns", "ns", "lower", "time of one dependent load (op chase)"),
		bench.Metric("pct_of_limit", "%", "higher", "share of the published bandwidth of the GPU's memory"),
		bench.Reports("p2p_FROM_TO", "GB/s", "bandwidth of copies from one GPU to another"),
		bench.Reports("p2p_FROM_TO_us", "us", "time of such a copy"),
		bench.Headline("time_us", "gbps", "latency_ns=latency (ns)", "pct_of_limit=of limit (%)"),
		bench.Measure(cfg),
		bench.Timeout(2*time.Minute),
	)...)
}

// checkPoint returns an error for points that do not exist.
func checkPoint(p point.Point) error {
	op, size := p.At("op").String(), p.At("size").Int()
	backend, planned := p.Get(bench.BackendName)
	switch {
	case planned && backend.String() != gpuBackend && slices.Contains(onlyOnGPU, op):
		return fmt.Errorf("%s needs a GPU: --backend %s", op, gpuBackend)
	case op == chase && size > largestChain:
		return fmt.Errorf("%s has at most 1 GiB, which is larger than any cache", op)
	case size < smallest || size%smallest != 0:
		return fmt.Errorf("size must be a multiple of %d bytes", smallest)
	}
	if check := dist.Describe(backend.String()).CheckMemory; check != nil {
		return check(1, size*arraysOf(op))
	}
	return nil
}

// smallest is the smallest array, in bytes. Sizes are its multiples, so that arrays consist of whole lines.
const smallest = 4096

// largestChain limits the memory of a chain, because a longer one takes long to make.
const largestChain = 1 << 30

// work is a prepared operation.
type work struct {
	call   func() error
	sample func(calls int) (us float64, err error) // by the device's clock; nil: the host's clock is used
	check  func() error                            // verifies the result of the last call and destroys it
	bytes  int64                                   // moved by a call
	hops   int                                     // dependent loads of a call
	peak   float64                                 // published bandwidth in GB/s; 0: unknown
	close  func()
}

func body(ctx context.Context, s *bench.State) error {
	s.Phase("fill")
	s.SampleAtMost(s.Float(bench.SecondsOption))
	prepare := onHost
	switch {
	case s.Str("op") == peerToPeer:
		return betweenGPUs(ctx, s)
	case s.Backend() == gpuBackend:
		prepare = onDevice
	}
	w, err := prepare(s)
	if err != nil {
		return err
	}
	return w.time(ctx, s)
}

// time times and verifies the operation.
func (w *work) time(ctx context.Context, s *bench.State) error {
	defer w.close()
	s.Verify(w.check)
	if w.hops == 0 {
		s.Bytes(w.bytes * int64(s.Size()))
		if w.peak > 0 {
			s.Limit("published", float64(w.bytes)/w.peak/1e3)
		}
	}
	var options []bench.TimeOption
	if w.sample != nil {
		options = append(options, collectives.SampleOnDevice(s, eventOverhead, w.sample))
	}
	if err := s.Time(ctx, w.call, options...); err != nil {
		return err
	}
	if w.hops > 0 {
		s.Record("latency_ns", s.Metric("time_us")*1e3/float64(w.hops))
	}
	return nil
}

// eventOverhead is about the time between a CUDA event and the work after it, in picoseconds.
const eventOverhead = 2_000_000
