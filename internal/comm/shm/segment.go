package shm

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Segment is memory that several processes map, each at an address of its own.
// Places in it are offsets. It has no name: when the last process that maps it
// is gone, so is it.
type Segment struct {
	file *os.File // this rank's own open file: it carries the rank's lock
	mem  []byte
	refs atomic.Int32
}

// NewFile makes the file of a segment. The bytes are virtual: memory is used
// only where something is written.
func NewFile(bytes int) (*os.File, error) {
	fd, err := unix.MemfdCreate("kernbench", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("making shared memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "kernbench")
	if err := f.Truncate(int64(bytes)); err != nil {
		f.Close()
		return nil, fmt.Errorf("making shared memory of %d bytes: %w", bytes, err)
	}
	// A file that shrinks kills whoever has it mapped.
	const seals = unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		f.Close()
		return nil, fmt.Errorf("sealing shared memory: %w", err)
	}
	return f, nil
}

// Map maps the segment of a file. The file may be closed afterwards.
func Map(f *os.File) (*Segment, error) {
	// A descriptor that was handed over shares its open file with the other
	// ranks; locks need one of this rank's own.
	own, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("mapping shared memory: %w", err)
	}
	info, err := own.Stat()
	if err != nil {
		own.Close()
		return nil, fmt.Errorf("mapping shared memory: %w", err)
	}
	mem, err := unix.Mmap(int(own.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		own.Close()
		return nil, fmt.Errorf("mapping %d bytes of shared memory: %w", info.Size(), err)
	}
	// Best effort: where the system gives huge pages to shared memory, large
	// arrays take fewer table walks.
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	// Children do not use it.
	_ = unix.Madvise(mem, unix.MADV_DONTFORK)
	s := &Segment{file: own, mem: mem}
	s.refs.Store(1)
	return s, nil
}

// Keep makes one more Close necessary to unmap.
func (s *Segment) Keep() { s.refs.Add(1) }

// Close unmaps the segment when it is the last one to.
func (s *Segment) Close() error {
	if s.refs.Add(-1) > 0 {
		return nil
	}
	err := unix.Munmap(s.mem)
	s.file.Close()
	return err
}

// Len is the size of the segment.
func (s *Segment) Len() int { return len(s.mem) }

// At gives n bytes from off on.
func (s *Segment) At(off, n int) []byte { return s.mem[off : off+n : off+n] }

// Pointer gives the address of n bytes from off on, which lie within the segment.
func (s *Segment) Pointer(off, n int) unsafe.Pointer { return unsafe.Pointer(&s.At(off, n)[0]) }

// Offset tells where in the segment p lies.
func (s *Segment) Offset(p unsafe.Pointer) (off int, inside bool) {
	d := uintptr(p) - uintptr(unsafe.Pointer(&s.mem[0]))
	return int(d), d < uintptr(len(s.mem))
}

// Populate maps the pages of a range now instead of one by one at first use,
// where the kernel can. The first to touch a page decides in which memory it lies.
func (s *Segment) Populate(off, n int) {
	from, to := off&^(pageSize-1), (off+n+pageSize-1)&^(pageSize-1)
	if from < to {
		_ = unix.Madvise(s.mem[from:min(to, len(s.mem))], unix.MADV_POPULATE_WRITE)
	}
}

// punch gives the memory of a range back to the system; it reads as zero.
func (s *Segment) punch(off, n int) error {
	return unix.Fallocate(int(s.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(off), int64(n))
}

// Claim makes this open segment that of a rank. The kernel takes the claim back
// when the process ends, however it ends.
func (s *Segment) Claim(rank int) error {
	lock := byteLock(rank)
	if err := unix.FcntlFlock(s.file.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		return fmt.Errorf("another process is rank %d: %w", rank, err)
	}
	return nil
}

// Claimed tells whether a rank that has made its claim still lives.
func (s *Segment) Claimed(rank int) bool {
	lock := byteLock(rank)
	err := unix.FcntlFlock(s.file.Fd(), unix.F_OFD_GETLK, &lock)
	return err != nil || lock.Type != unix.F_UNLCK
}

func byteLock(rank int) unix.Flock_t {
	return unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET, Start: int64(rank), Len: 1}
}

// Name is what memory of a segment is called.
