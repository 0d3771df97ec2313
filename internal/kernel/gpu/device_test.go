//go:build gpu

package gpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

// bench is the first GPU, with memory for eight ranks.
type bench struct {
	*cuda.Context
	stream                  *cuda.Stream
	failure                 *cuda.Shared
	in, out, scratch, flags [8]cuda.Pointer
	sms                     int
}

const (
	bufferBytes  = 1 << 20
	scratchBytes = 4 * MaxRanks * bufferBytes
	flagsBytes   = 2048 * FlagBytes
)

func open(t *testing.T) *bench {
	t.Helper()
	driver, err := cuda.Open()
	if err != nil {
		t.Fatal(err)
	}
	devices, err := driver.Devices()
	if err != nil || len(devices) == 0 {
		t.Fatalf("%v has no GPU: %v", driver, err)
	}
	t.Logf("%v, %s, %d MiB, mode %s, multicast %v", driver, devices[0].Name, devices[0].Bytes>>20, devices[0].Mode(),
		devices[0].Has(cuda.Multicast))
	c, err := devices[0].Context()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Context: c}
	b.sms, _ = devices[0].Get(cuda.Multiprocessors)
	err = c.Do(func() error {
		if b.stream, err = c.Stream(); err != nil {
			return err
		}
		if b.failure, err = c.Share(int(unsafe.Sizeof(Failure{}))); err != nil {
			return err
		}
		for r := range 8 {
			for p, bytes := range map[*cuda.Pointer]int{&b.in[r]: bufferBytes, &b.out[r]: bufferBytes,
				&b.scratch[r]: scratchBytes, &b.flags[r]: flagsBytes} {
				if *p, err = c.Alloc(bytes); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func put(d dtype.DType, b []byte, i int, v float64) {
	switch d {
	case dtype.F64:
		binary.LittleEndian.PutUint64(b[8*i:], math.Float64bits(v))
	case dtype.F32:
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(float32(v)))
	case dtype.BF16:
		binary.LittleEndian.PutUint16(b[2*i:], uint16(math.Float32bits(float32(v))>>16))
	case dtype.F16:
		binary.LittleEndian.PutUint16(b[2*i:], half(v))
	}
}

// half converts a small integer to f16.
func half(v float64) uint16 {
	if v == 0 {
		return 0
	}
	sign := uint16(0)
	if v < 0 {
		sign, v = 0x8000, -v
	}
	f, e := math.Frexp(v)
	return sign | uint16(e-1+15)<<10 | uint16((2*f-1)*1024)
}

// plainSums are the algorithms that TestOnDevice runs.
var plainSums = []Algorithm{OneStage, Push, Pull, Lamport}

// Every algorithm gives the right sums on a real GPU. -short has few small cases, for compute-sanitizer, which makes
// kernels that wait for each other up to a thousand times slower.
func TestOnDevice(t *testing.T) {
	b := open(t)
	types, sizes := DTypes(), []int{2, 3, 4, 7, 8}
	if testing.Short() {
		types, sizes = []dtype.DType{dtype.BF16}, []int{2}
	}
	for _, a := range plainSums {
		for _, d := range types {
			for _, ranks := range sizes {
				t.Run(fmt.Sprintf("%s/%v/%d", a, d, ranks), func(t *testing.T) {
					if err := b.Do(func() error { return b.cell(t, a, d, ranks) }); err != nil {
						t.Fatal(err)
					}
				})
			}
		}
	}
}

// cell runs an algorithm with several counts, one launch after another, with new inputs and poisoned
// outputs each time.
func (b *bench) cell(t *testing.T, a Algorithm, d dtype.DType, ranks int) error {
	name, err := a.Kernel(d, ranks)
	if err != nil {
		return err
	}
	k, err := b.Kernel(files, a.File(), name)
	if err != nil {
		return err
	}
	resident, err := k.Resident(512, 0)
	if err != nil {
		return err
	}
	if resident < 2 {
		t.Errorf("%d blocks per multiprocessor, want 2", resident)
	}
	for r := range ranks {
		if err := b.Fill(b.scratch[r], 0, scratchBytes); err != nil {
			return err
		}
		if err := b.Fill(b.flags[r], 0, flagsBytes); err != nil {
			return err
		}
	}
	counts, most, limit := []int{1, 65537, 7, 8, 100003, 9, 1000, 4096, 65537}, resident*b.sms/ranks, 2*time.Second
	if testing.Short() {
		counts, most, limit = []int{1, 7, 2049}, 2, time.Minute
	}
	p := &Params{Failure: uint64(b.failure.Device), LimitNS: uint64(limit), Scale: 1, Rank: RanksAsBlocks,
		Size: uint32(ranks), SlotBytes: bufferBytes, Rotation: 1}
	if a == Lamport {
		p.SlotBytes *= 2 * uint64(ranks)
	}
	for r := range ranks {
		p.In[r], p.Out[r], p.Scratch[r], p.Flags[r] = uint64(b.in[r]), uint64(b.out[r]), uint64(b.scratch[r]),
			uint64(b.flags[r])
	}
	barriers, calls := uint32(0), uint32(0)
	for trial, count := range counts {
		in, want := make([]byte, count*d.Size()), make([]float64, count)
		for r := range ranks {
			for i := range count {
				v := float64((i*7+r*13+trial*5)%11 - 5)
				put(d, in, i, v)
				want[i] += v
			}
			if err := b.Write(b.in[r], in); err != nil {
				return err
			}
			if err := b.Fill(b.out[r], 0xff, bufferBytes); err != nil {
				return err
			}
		}
		p.Count, p.Iterations = uint64(count), uint32(1+trial%3)
		p.Blocks = uint32(max(1, min(most, count/512)))
		if p.Epoch = barriers; a == Lamport {
			p.Epoch = calls
		}
		launch := cuda.NewLaunch(k, int(p.Blocks)*ranks, 512, 0, true, p)
		if err := launch.Start(b.stream); err != nil {
			return err
		}
		if err := b.stream.Synchronize(); err != nil {
			return err
		}
		if f := *(*Failure)(unsafe.Pointer(&b.failure.Bytes[0])); f.Claimed != 0 {
			clear(b.failure.Bytes)
			return fmt.Errorf("count %d: %v", count, f)
		}
		barriers += 1 + p.Iterations
		calls += p.Iterations
		expect := make([]byte, count*d.Size())
		for i, v := range want {
			put(d, expect, i, v)
		}
		got := make([]byte, bufferBytes)
		for r := range ranks {
			if err := b.Read(got, b.out[r]); err != nil {
				return err
			}
			if !slices.Equal(got[:len(expect)], expect) {
				t.Errorf("count %d: rank %d has a wrong sum", count, r)
			}
			if slices.ContainsFunc(got[len(expect):], func(c byte) bool { return c != 0xff }) {
				t.Errorf("count %d: rank %d was written beyond its end", count, r)
			}
		}
	}
	return nil
}
