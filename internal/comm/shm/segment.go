package shm

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Segment is memory that several processes map, each at its own address. Positions in it are therefore offsets and not
// pointers. It has no name, so the kernel frees it when the last process that maps it ends.
type Segment struct {
	file *os.File // opened by this rank itself, because it carries the rank's lock
	mem  []byte
	refs atomic.Int32
}

// NewFile creates the file of a segment. The kernel allocates its pages only when they are first written.
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
	// Seal the size: if the file shrank, processes that map it would be killed by SIGBUS.
	const seals = unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		f.Close()
		return nil, fmt.Errorf("sealing shared memory: %w", err)
	}
	return f, nil
}

// Map maps the segment of a file. The file may be closed afterwards.
func Map(f *os.File) (*Segment, error) {
	// Locks belong to the open file description (F_OFD_SETLK). A descriptor that was passed over a socket shares its
	// description with the other ranks, so open the file again to get one for this rank alone.
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
	// Best effort: with huge pages, large arrays need fewer page-table walks.
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	// Child processes must not inherit the mapping.
	_ = unix.Madvise(mem, unix.MADV_DONTFORK)
	s := &Segment{file: own, mem: mem}
	s.refs.Store(1)
	return s, nil
}

// Keep adds a reference, so that one more Close is needed to unmap the segment.
func (s *Segment) Keep() { s.refs.Add(1) }

// Close drops a reference and unmaps the segment with the last one.
func (s *Segment) Close() error {
	if s.refs.Add(-1) > 0 {
		return nil
	}
	err := unix.Munmap(s.mem)
	s.file.Close()
	return err
}

// Len returns the size of the segment.
func (s *Segment) Len() int { return len(s.mem) }

// At returns the n bytes that begin at off.
func (s *Segment) At(off, n int) []byte { return s.mem[off : off+n : off+n] }

// Pointer returns the address of the n bytes that begin at off. It panics if they are not all in the segment.
func (s *Segment) Pointer(off, n int) unsafe.Pointer { return unsafe.Pointer(&s.At(off, n)[0]) }

// Offset returns the offset of p in the segment. inside reports whether p points into the segment.
func (s *Segment) Offset(p unsafe.Pointer) (off int, inside bool) {
	d := uintptr(p) - uintptr(unsafe.Pointer(&s.mem[0]))
	return int(d), d < uintptr(len(s.mem))
}

// Populate allocates the pages of a range now instead of at first use, if the kernel supports it. Linux places a page
// on the NUMA node of the rank that touches it first, so the rank that owns a range should call Populate.
func (s *Segment) Populate(off, n int) {
	from, to := off&^(pageSize-1), (off+n+pageSize-1)&^(pageSize-1)
	if from < to {
		_ = unix.Madvise(s.mem[from:min(to, len(s.mem))], unix.MADV_POPULATE_WRITE)
	}
}

// punch returns the pages of a range to the system. The range then reads as zero.
func (s *Segment) punch(off, n int) error {
	return unix.Fallocate(int(s.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(off), int64(n))
}

// Claim locks the byte of the segment's file that belongs to a rank. The kernel releases the lock when the process
// ends, even if it is killed, so other ranks can tell that the rank is dead (Claimed).
func (s *Segment) Claim(rank int) error {
	lock := byteLock(rank)
	if err := unix.FcntlFlock(s.file.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		return fmt.Errorf("another process is rank %d: %w", rank, err)
	}
	return nil
}

// Claimed reports whether a rank holds its claim. For a rank that has made a claim, this means that it is alive.
func (s *Segment) Claimed(rank int) bool {
	lock := byteLock(rank)
	err := unix.FcntlFlock(s.file.Fd(), unix.F_OFD_GETLK, &lock)
	return err != nil || lock.Type != unix.F_UNLCK
}

func byteLock(rank int) unix.Flock_t {
	return unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET, Start: int64(rank), Len: 1}
}
