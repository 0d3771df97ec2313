package probe

import (
	"fmt"
	"net"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/kernel/vec"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// latency fills in the one-way times between cores, which are half of a round trip. The two ends of a
// round trip are the calls that two ranks sample together. Both ranks make the same number of calls, so
// one call is one round trip.
func (b *prober) latency(r *Result) error {
	for _, other := range partners(len(b.cores), b.profile.Hops) {
		pair := []int{b.cores[0], b.cores[other]}
		round, err := b.timeCalls(pair, linePair().call)
		if err != nil {
			return fmt.Errorf("probing the cache line: %w", err)
		}
		r.Hops = append(r.Hops, Hop{From: pair[0], To: pair[1], US: round.Min / 2})
	}
	pair := b.cores[:2]
	round, err := b.timeCalls(pair, futexPair().call)
	if err != nil {
		return fmt.Errorf("probing the futex: %w", err)
	}
	// Use the median, not the minimum: in the fastest rounds, the threads were not yet asleep.
	r.FutexWake = round.P50 / 2
	for _, socket := range []struct {
		name string
		open func() ([2]int, error)
		us   *float64
	}{{"unix", unixPair, &r.Unix}, {"tcp", tcpPair, &r.TCP}} {
		fds, err := socket.open()
		if err != nil {
			return fmt.Errorf("opening a %s socket pair: %w", socket.name, err)
		}
		round, err := b.minTime(pair, socketPair(fds).call)
		*socket.us = round / 2
		unix.Close(fds[0])
		unix.Close(fds[1])
		if err != nil {
			return fmt.Errorf("probing the %s socket: %w", socket.name, err)
		}
	}
	return nil
}

// partners chooses the cores with which the first core is paired: at most limit of them, evenly spread from
// the nearest to the last.
func partners(cores, limit int) []int {
	others := cores - 1
	n := min(others, limit)
	out := make([]int, n)
	for i := range out {
		out[i] = 1
		if n > 1 {
			out[i] += i * (others - 1) / (n - 1)
		}
	}
	return out
}

// roundTrip holds the two calls of a round trip: ask sends and waits for the answer, answer waits and
// sends.
type roundTrip struct{ ask, answer func() error }

// call returns the call of the i-th core.
func (e roundTrip) call(i int) func() error { return [...]func() error{e.ask, e.answer}[i] }

// pad separates two words, so that they are neither in the same cache line nor in adjacent lines, which
// processors prefetch together.
type pad [128]byte

// linePair bounces one cache line: ask makes the word odd, answer makes it even.
func linePair() roundTrip {
	shared := new(struct {
		_    pad
		word atomic.Uint64
		_    pad
	})
	var asked, answered uint64
	await := func(v uint64) {
		for shared.word.Load() != v {
			vec.Pause()
		}
	}
	return roundTrip{
		ask:    func() error { asked += 2; shared.word.Store(asked - 1); await(asked); return nil },
		answer: func() error { answered += 2; await(answered - 1); shared.word.Store(answered); return nil },
	}
}

// futexPair wakes a sleeping thread and sleeps until it is woken.
func futexPair() roundTrip {
	shared := new(struct {
		_    pad
		ping atomic.Uint32
		_    pad
		pong atomic.Uint32
		_    pad
	})
	var asked, answered uint32
	return roundTrip{
		ask: func() error {
			asked++
			futexSet(&shared.ping, asked)
			return futexAwait(&shared.pong, asked)
		},
		answer: func() error {
			answered++
			err := futexAwait(&shared.ping, answered)
			futexSet(&shared.pong, answered)
			return err
		},
	}
}

const (
	futexWait = 0
	futexWake = 1
)

func futexSet(word *atomic.Uint32, v uint32) {
	word.Store(v)
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1, 0, 0, 0)
}

// futexAwait sleeps until the word has the value.
func futexAwait(word *atomic.Uint32, v uint32) error {
	for {
		old := word.Load()
		if old == v {
			return nil
		}
		_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(old), 0, 0, 0)
		if errno != 0 && errno != unix.EAGAIN && errno != unix.EINTR {
			return fmt.Errorf("waiting on a futex: %w", errno)
		}
	}
}

// socketPair sends eight bytes back and forth over non-blocking descriptors.
func socketPair(fds [2]int) roundTrip {
	end := func(fd int) (send, receive func() error) {
		var message [8]byte
		send = func() error {
			_, err := unix.Write(fd, message[:])
			return err
		}
		receive = func() error {
			for got := 0; got < len(message); {
				n, err := unix.Read(fd, message[got:])
				switch {
				case err == unix.EAGAIN || err == unix.EINTR:
				case err != nil:
					return err
				case n == 0:
					return fmt.Errorf("the other end is closed")
				default:
					got += n
				}
			}
			return nil
		}
		return send, receive
	}
	send0, receive0 := end(fds[0])
	send1, receive1 := end(fds[1])
	sequence := func(first, second func() error) func() error {
		return func() error {
			if err := first(); err != nil {
				return err
			}
			return second()
		}
	}
	return roundTrip{ask: sequence(send0, receive0), answer: sequence(receive1, send1)}
}

func unixPair() ([2]int, error) {
	return unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
}

// tcpPair connects two TCP sockets over loopback, with Nagle's algorithm off.
func tcpPair() (fds [2]int, err error) {
	a, b, err := connection.LoopbackPair()
	if err != nil {
		return fds, err
	}
	defer a.Close()
	defer b.Close()
	for i, c := range []*net.TCPConn{a, b} {
		c.SetNoDelay(true)
		// Duplicate the descriptor: Go's poller must not watch the one that is used here.
		f, err := c.File()
		if err == nil {
			fds[i], err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
			f.Close()
		}
		if err == nil {
			err = unix.SetNonblock(fds[i], true)
		}
		if err != nil {
			return fds, err
		}
	}
	return fds, nil
}
