package gpugemm

import (
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpustream"
)

// The array that is read to measure memory is readCaches times as large as the L2 cache. The best of readRuns runs
// counts, because disturbances only slow a run down.
const (
	readCaches = 16
	readRuns   = 5
)

// readSpeed returns how fast the GPU reads its memory, in GB/s. It is the loop `read` of the bench bandwidth, measured
// once per process.
func (d *device) readSpeed(w *stopwatch) (gbps float64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reads > 0 {
		return d.reads, nil
	}
	bytes := roundUp(readCaches*d.cache, gpustream.LineBytes)
	err = d.Do(func() (err error) {
		k, err := gpustream.New(d.Context)
		if err != nil {
			return err
		}
		const sum = 8
		at, err := d.Alloc(bytes + k.Blocks*sum)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.Free(at)) }()
		if err := d.Fill(at, 1, bytes); err != nil {
			return err
		}
		launch, err := k.Launch("read", &gpustream.Params{A: at, Sums: at + cuda.Pointer(bytes),
			Packs: uint64(bytes / gpustream.PackBytes)})
		if err != nil {
			return err
		}
		for range readRuns {
			us, err := w.time(func() error { return launch.Start(w.Stream) })
			if err != nil {
				return err
			}
			if us > 0 {
				gbps = max(gbps, float64(bytes)/us/1e3)
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("measuring how fast the GPU reads its memory: %w", err)
	}
	d.reads = gbps
	return gbps, nil
}

// ReadSpeed implements [gemm.Resident].
func (e *engine) ReadSpeed() (float64, error) { return e.device.readSpeed(e.watch) }
