package nccl

import (
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

// allocation is device memory of this rank.
type allocation struct {
	device *cuda.Context
	at     cuda.Pointer
	freed  bool
}

var _ dist.DeviceMemory = (*allocation)(nil)

// Name is what dist calls this kind of memory.

func (a *allocation) Read(dst []byte, off int) error {
	return a.device.Do(func() error { return a.device.Read(dst, a.at+cuda.Pointer(off)) })
}

func (a *allocation) Write(off int, src []byte) error {
	return a.device.Do(func() error { return a.device.Write(a.at+cuda.Pointer(off), src) })
}

// Alloc gives zeroed device memory, or an error on every rank.
func (e *engine) Alloc(d dist.DType, count int) (dist.Buffer, error) {
	a := &allocation{device: e.device}
	bytes := max(1, count*d.Size())
	failed := e.device.Do(func() (err error) {
		if a.at, err = e.device.Alloc(bytes); err != nil {
			return err
		}
		return e.device.Fill(a.at, 0, bytes)
	})
	verdict := []byte{1}
	if failed != nil {
		verdict[0] = 0
	}
	all, err := e.agreement.AllGather(fmt.Sprintf("alloc of %d %v", count, d), verdict)
	if err != nil {
		return dist.Buffer{}, err
	}
	for rank, said := range all {
		if failed == nil && said[0] == 0 {
			failed = errors.Join(fmt.Errorf("rank %d has no memory left", rank), e.device.Do(func() error {
				return e.device.Free(a.at)
			}))
		}
	}
	if failed != nil {
		return dist.Buffer{}, fmt.Errorf("allocating %d bytes on GPU %s: %w", bytes, e.device.Device().BusID, failed)
	}
	return dist.NewBuffer(d, count, nil, a), nil
}

// Free gives the memory back.
func (e *engine) Free(b dist.Buffer) error {
	a, ours := b.Memory().(*allocation)
	if !ours || a.device != e.device || a.freed {
		return fmt.Errorf("freeing %v: not memory that Alloc of this group gave", b)
	}
	a.freed = true
	return e.device.Do(func() error { return e.device.Free(a.at) })
}

// stage is device memory for calls on the program's own, as large as the largest so far.
type stage struct {
	at    cuda.Pointer
	bytes int
}

func (s *stage) reserve(c *cuda.Context, bytes int) (err error) {
	if bytes <= s.bytes {
		return nil
	}
	if err := s.free(c); err != nil {
		return err
	}
	if s.at, err = c.Alloc(bytes); err == nil {
		s.bytes = bytes
	}
	return err
}

func (s *stage) free(c *cuda.Context) error {
	if s.bytes == 0 {
		return nil
	}
	s.bytes = 0
	return c.Free(s.at)
}
