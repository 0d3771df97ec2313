package syncgroup

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// NewShm makes the shared memory of a group of size processes on this host, as
// a file without a name. Hand it to each process (for example through
// exec.Cmd.ExtraFiles), which calls [JoinShm]; the maker may then close it.
func NewShm(size int) (*os.File, error) {
	if size < 1 || size > maxRanks {
		return nil, fmt.Errorf("making shared memory: %d ranks: must be 1 to %d", size, maxRanks)
	}
	fd, err := unix.MemfdCreate("kernbench-agree", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("making shared memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "kernbench-agree")
	if err := shapeShm(f, size); err != nil {
		f.Close()
		return nil, fmt.Errorf("making shared memory for %d ranks: %w", size, err)
	}
	return f, nil
}

// shapeShm sizes the file for good and writes what JoinShm checks. The size is
// sealed because a file that shrinks kills whoever has it mapped.
func shapeShm(f *os.File, size int) error {
	if err := f.Truncate(int64(boardBytes(size))); err != nil {
		return err
	}
	var start [16]byte
	binary.NativeEndian.PutUint64(start[:], boardMagic)
	binary.NativeEndian.PutUint64(start[8:], uint64(size))
	if _, err := f.WriteAt(start[:], 0); err != nil {
		return err
	}
	const seals = unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
	return err
}

// JoinShm joins the group as the given rank. It does not wait for the others,
// and f may be closed afterwards. Barriers spin only if the CPUs that the ranks
// may use, taken together when they joined, are at least as many as the ranks.
func JoinShm(f *os.File, rank, size int) (Group, error) {
	m, err := joinShm(f, rank, size)
	if err != nil {
		return nil, fmt.Errorf("joining shared memory as rank %d of %d: %w", rank, size, err)
	}
	return m, nil
}

func joinShm(f *os.File, rank, size int) (*shmMember, error) {
	if size < 1 || size > maxRanks || rank < 0 || rank >= size {
		return nil, fmt.Errorf("rank must be 0 to %d and size 1 to %d", size-1, maxRanks)
	}
	// An inherited descriptor shares its open file with the other ranks; locks
	// need an open file of this rank's own.
	own, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	memory, err := mapShm(own, size)
	if err != nil {
		own.Close()
		return nil, err
	}
	release := func() error {
		err := unix.Munmap(memory)
		own.Close()
		return err
	}
	b := viewBoard(unsafe.Pointer(&memory[0]), size)
	lot := shmLot{own}
	if err := lot.claim(rank); err != nil {
		release()
		return nil, err
	}
	mine := &b.cells[rank]
	if mine.state.Load() != stateAbsent {
		release()
		return nil, fmt.Errorf("the rank has joined before: make new shared memory for a new launch")
	}
	mine.cpus = affinity()
	mine.state.Store(stateJoined)
	m := &shmMember{member: member{board: b, lot: lot, rank: rank, release: release}}
	return m, nil
}

// mapShm maps f after checking that it was made for size ranks by this version.
func mapShm(f *os.File, size int) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if want := int64(boardBytes(size)); info.Size() != want {
		return nil, fmt.Errorf("file has %d bytes, %d ranks need %d: it was made for another number of ranks", info.Size(), size, want)
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, boardBytes(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping: %w", err)
	}
	head := (*header)(unsafe.Pointer(&memory[0]))
	if head.magic != boardMagic || head.size != uint64(size) {
		err := fmt.Errorf("file begins with %#x for %d ranks, want %#x for %d", head.magic, head.size, uint64(boardMagic), size)
		unix.Munmap(memory)
		return nil, err
	}
	return memory, nil
}

// shmMember learns only in its first round, when all have joined, whether there
// is a core for each rank.
type shmMember struct {
	member
	met bool
}

func (m *shmMember) Barrier(ctx context.Context) error {
	err := m.member.Barrier(ctx)
	m.meet(err)
	return err
}

func (m *shmMember) Exchange(ctx context.Context, mine []int64) ([][]int64, error) {
	all, err := m.member.Exchange(ctx, mine)
	m.meet(err)
	return all, err
}

func (m *shmMember) meet(err error) {
	if !m.met && err == nil {
		m.met, m.spin = true, m.coresForAll()
	}
}

// affinity is the set of CPUs the calling thread may run on. Without one (a
// machine with more CPUs than the mask holds) it is empty: no spinning.
func affinity() (mask [len(cell{}.cpus)]uint64) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return mask
	}
	for cpu := range len(mask) * 64 {
		if set.IsSet(cpu) {
			mask[cpu/64] |= 1 << (cpu % 64)
		}
	}
	return mask
}

// shmLot sleeps in the kernel. Each rank locks the byte of its number in the
// file: the kernel drops the lock when the process ends, however it ends.
type shmLot struct{ file *os.File }

// The operations of futex(2). Without FUTEX_PRIVATE_FLAG they work across processes.
const (
	futexWait = 0
	futexWake = 1
)

// wait cannot watch ctx: it relies on patience.
func (shmLot) wait(_ context.Context, word *atomic.Uint32, old uint32) {
	limit := unix.NsecToTimespec(int64(patience))
	syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(old),
		uintptr(unsafe.Pointer(&limit)), 0, 0)
}

func (shmLot) wake(word *atomic.Uint32) {
	syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, maxRanks, 0, 0, 0)
}

func (l shmLot) claim(rank int) error {
	lock := byteLock(rank)
	if err := unix.FcntlFlock(l.file.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		return fmt.Errorf("another process is this rank: %w", err)
	}
	return nil
}

func (l shmLot) alive(rank int) bool {
	lock := byteLock(rank)
	err := unix.FcntlFlock(l.file.Fd(), unix.F_OFD_GETLK, &lock)
	return err != nil || lock.Type != unix.F_UNLCK
}

func byteLock(rank int) unix.Flock_t {
	return unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET, Start: int64(rank), Len: 1}
}
