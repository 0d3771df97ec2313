//go:build gpu

package gpu

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/cuda"
)

// Both copy kernels copy exactly what they should, between all alignments that they support, and a
// copy by one block sets its flag. The test logs their times.
func TestCopiesOnDevice(t *testing.T) {
	b := open(t)
	major, err := b.Device().Get(cuda.ComputeMajor)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range Copies() {
		if a == Bulk && major < BulkMajor {
			t.Logf("%s: compute capability %d", a, major)
			continue
		}
		if err := b.Do(func() error { return b.copies(t, a) }); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
}

func (b *bench) copies(t *testing.T, a Algorithm) error {
	k, err := b.Kernel(files, a.File(), string(a))
	if err != nil {
		return err
	}
	threads, shared := LoadsThreads, 0
	if a == Bulk {
		threads, shared = BulkThreads, BulkShared
		if err := k.AllowShared(shared); err != nil {
			return err
		}
	}
	data := make([]byte, bufferBytes)
	for i := range data {
		data[i] = byte(i*7 + i/251)
	}
	if err := b.Write(b.in[0], data); err != nil {
		return err
	}
	flag, err := b.Share(4)
	if err != nil {
		return err
	}
	p, got := new(Copy), make([]byte, bufferBytes)
	one, many := cuda.NewLaunch(k, 1, threads, shared, false, p), cuda.NewLaunch(k, 2*b.sms, threads, shared, false, p)
	number := uint32(0)
	for _, n := range []int{0, 1, 15, 16, 17, 31, 4096, 16384, 16385, 65536, 65537, 500_003} {
		for to := range 17 {
			from := to * 5 % 17
			if a == Bulk {
				from = to % BulkAlignment // the same offset
			}
			for _, l := range []*cuda.Launch{one, many} {
				if err := b.Fill(b.out[0], 0xee, bufferBytes); err != nil {
					return err
				}
				number++
				*p = Copy{To: uint64(b.out[0]) + 64 + uint64(to), From: uint64(b.in[0]) + uint64(from), Bytes: uint64(n)}
				if l == one {
					p.Flag, p.Value = uint64(flag.Device), number
				}
				if err := l.Start(b.stream); err != nil {
					return err
				}
				if err := b.stream.Synchronize(); err != nil {
					return err
				}
				if seen := (*atomic.Uint32)(unsafe.Pointer(&flag.Bytes[0])).Load(); l == one && seen != number {
					return fmt.Errorf("%d bytes: the flag is %d, want %d", n, seen, number)
				}
				if err := b.Read(got, b.out[0]); err != nil {
					return err
				}
				at := 64 + to
				if !bytes.Equal(got[at:at+n], data[from:from+n]) || bytes.Count(got[:at], []byte{0xee}) != at ||
					bytes.Count(got[at+n:], []byte{0xee}) != bufferBytes-at-n {
					return fmt.Errorf("%d bytes from %d to %d, one block %v: wrong", n, from, to, l == one)
				}
			}
		}
	}
	return b.latency(t, a, one, p, flag, number)
}

// latency logs how long a small copy takes until the host sees its flag, and until it sees the end of
// the stream. That is the cost of a message in addition to two flags between processes.
func (b *bench) latency(t *testing.T, a Algorithm, one *cuda.Launch, p *Copy, flag *cuda.Shared, number uint32) error {
	const times = 2000
	seen := (*atomic.Uint32)(unsafe.Pointer(&flag.Bytes[0]))
	for _, n := range []int{8, 8 << 10, 64 << 10} {
		*p = Copy{To: uint64(b.out[0]), From: uint64(b.in[0]), Bytes: uint64(n), Flag: uint64(flag.Device)}
		begin := time.Now()
		for range times {
			number++
			p.Value = number
			if err := one.Start(b.stream); err != nil {
				return err
			}
			for seen.Load() != number {
				if time.Since(begin) > time.Minute {
					return fmt.Errorf("the flag does not come")
				}
			}
		}
		flagged := time.Since(begin) / times
		ends := [2]time.Duration{}
		for i, start := range []func() error{
			func() error { return one.Start(b.stream) },
			func() error { return b.stream.Copy(cuda.Pointer(p.To), cuda.Pointer(p.From), n) },
		} {
			begin = time.Now()
			for range times {
				if err := start(); err != nil {
					return err
				}
				for done := false; !done; {
					var err error
					if done, err = b.stream.Done(); err != nil {
						return err
					}
				}
			}
			ends[i] = time.Since(begin) / times
		}
		t.Logf("%s of %d bytes: seen by its flag after %v, by the stream's end after %v; the driver's copy after %v", a, n,
			flagged, ends[0], ends[1])
	}
	return nil
}
