package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// maxVec is the maximum number of posted ranges per system call, and maxMove the maximum number of bytes. maxMove is
	// large enough to keep both ranks busy, and small enough that sending and receiving alternate while the data is
	// still in a cache.
	maxVec  = 8
	maxMove = 1 << 20
)

// Header precedes a message. The receiver checks that it is the one that it expects.
type Header struct {
	Call  uint64 // number of the collective, or of the message
	Sign  uint64 // signature of the call, or the elements' type
	Bytes uint64 // of the message
}

const headerBytes = 24

func (h Header) encode(b *[headerBytes]byte) {
	binary.LittleEndian.PutUint64(b[0:], h.Call)
	binary.LittleEndian.PutUint64(b[8:], h.Sign)
	binary.LittleEndian.PutUint64(b[16:], h.Bytes)
}

func decodeHeader(b *[headerBytes]byte) Header {
	return Header{binary.LittleEndian.Uint64(b[0:]), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])}
}

// MismatchError reports that the peer has sent a message other than the expected one.
type MismatchError struct{ Got, Want Header }

func (e *MismatchError) Error() string {
	return fmt.Sprintf("the peer sends %+v where %+v is expected", e.Got, e.Want)
}

// queue holds the ranges of memory that are still to be sent or received, in order, and the arguments of the system
// call that moves them.
type queue struct {
	fd     int
	ranges [][]byte
	first  int
	posted uint64 // bytes in total
	moved  uint64
	vec    [maxVec]unix.Iovec
	msg    unix.Msghdr
	small  [headerBytes + 1024]byte // a header and the data after it, joined
}

func (q *queue) post(b []byte) {
	if len(b) == 0 {
		return
	}
	if q.first == len(q.ranges) {
		q.ranges, q.first = q.ranges[:0], 0
	}
	q.ranges = append(q.ranges, b)
	q.posted += uint64(len(b))
}

// Posted returns the number of bytes posted so far. The data is moved when Done reaches this number.
func (q *queue) Posted() uint64 { return q.posted }

// Done returns the number of posted bytes that have been moved.
func (q *queue) Done() uint64 { return q.moved }

// Pending reports whether there is something left to move.
func (q *queue) Pending() bool { return q.moved != q.posted }

// syscalls are the system calls of one direction: for one range and for several.
type syscalls struct{ one, many, flags uintptr }

var (
	sending   = syscalls{unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.MSG_NOSIGNAL | unix.MSG_DONTWAIT}
	receiving = syscalls{unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.MSG_DONTWAIT}
)

// syscallOnce makes one system call for the first ranges. The socket is non-blocking, so the call never sleeps. It must
// be a raw system call: during a normal one, the Go scheduler could mistake a long copy for a sleep and give the
// processor to another thread.
func (q *queue) syscallOnce(c syscalls) (n int, err error) {
	k, total := q.gather()
	if k == 1 || total <= len(q.small) {
		return q.moveJoined(c, k, total)
	}
	q.msg.Iov = &q.vec[0]
	q.msg.SetIovlen(k)
	for {
		r, _, errno := unix.RawSyscall(c.many, uintptr(q.fd), uintptr(unsafe.Pointer(&q.msg)), c.flags)
		if errno != syscall.EINTR {
			return syscallResult(r, errno)
		}
	}
}

// gather sets the arguments of a system call to the first ranges.
func (q *queue) gather() (k, total int) {
	for _, b := range q.ranges[q.first:] {
		if k == maxVec || total >= maxMove {
			break
		}
		take := min(len(b), maxMove-total)
		q.vec[k].Base = &b[0]
		q.vec[k].SetLen(take)
		k++
		total += take
	}
	return k, total
}

// moveJoined copies the first k ranges into one buffer and moves that buffer. For a small message, a copy is cheaper
// than a system call with a list of ranges.
func (q *queue) moveJoined(c syscalls, k, total int) (n int, err error) {
	ranges, b := q.ranges[q.first:q.first+k], q.small[:]
	if k == 1 {
		b = ranges[0]
	} else if c == sending {
		for rest := b; len(ranges) > 0; ranges = ranges[1:] {
			rest = rest[copy(rest, ranges[0]):]
		}
	}
	for {
		r, _, errno := unix.RawSyscall6(c.one, uintptr(q.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(total), c.flags, 0, 0)
		if errno != syscall.EINTR {
			n, err = syscallResult(r, errno)
			break
		}
	}
	if k > 1 && c == receiving {
		for rest := b[:n]; len(rest) > 0; ranges = ranges[1:] {
			rest = rest[copy(ranges[0], rest):]
		}
	}
	return n, err
}

// syscallResult converts the result of a system call that moves bytes. It returns errAgain if the
// kernel buffer is full, or empty when receiving.
func syscallResult(r uintptr, errno syscall.Errno) (n int, err error) {
	switch errno {
	case 0:
		return int(r), nil
	case syscall.EAGAIN:
		return 0, errAgain
	}
	return 0, errno
}

var errAgain = errors.New("nothing can be moved now")

// advance removes n bytes from the front of the queue.
func (q *queue) advance(n int) {
	q.moved += uint64(n)
	for n > 0 {
		b := &q.ranges[q.first]
		if n < len(*b) {
			*b = (*b)[n:]
			return
		}
		n -= len(*b)
		*b = nil
		q.first++
	}
}

// Sender is the sending half of a link. One goroutine at a time uses it.
type Sender struct {
	queue
	head [headerBytes]byte
}

// PostHeader posts a header. The previous one must have been sent.
func (s *Sender) PostHeader(h Header) {
	h.encode(&s.head)
	s.post(s.head[:])
}

// Post posts memory to send. The caller must not change it until Done has reached the position that
// Posted returns right after Post.
func (s *Sender) Post(b []byte) { s.post(b) }

// Progress sends as much as the kernel accepts now, and reports whether it accepted any.
func (s *Sender) Progress() (moved bool, err error) {
	if !s.Pending() {
		return false, nil
	}
	n, err := s.syscallOnce(sending)
	if err != nil {
		if err == errAgain {
			err = nil
		}
		return false, err
	}
	s.advance(n)
	return n > 0, nil
}

// Receiver is the receiving half of a link. One goroutine at a time uses it.
type Receiver struct {
	queue
	head  [headerBytes]byte
	want  Header
	until uint64 // stream position at which head is complete and must be compared; 0: already compared
}

// ExpectHeader posts a header to receive. The previous one must have arrived.
func (r *Receiver) ExpectHeader(h Header) {
	r.want = h
	r.post(r.head[:])
	r.until = r.posted
}

// Expect posts memory to receive into. It belongs to the link until Done has reached the position that
// Posted returns.
func (r *Receiver) Expect(b []byte) { r.post(b) }

// Progress receives the data that has arrived, and reports whether there was any. After a header that is not the
// expected one, the memory holds garbage.
func (r *Receiver) Progress() (moved bool, err error) {
	if !r.Pending() {
		return false, nil
	}
	n, err := r.syscallOnce(receiving)
	switch {
	case err == errAgain:
		return false, nil
	case err != nil:
		return false, err
	case n == 0:
		return false, io.EOF
	}
	r.advance(n)
	if r.until != 0 && r.moved >= r.until {
		r.until = 0
		if got := decodeHeader(&r.head); got != r.want {
			return true, &MismatchError{got, r.want}
		}
	}
	return true, nil
}
