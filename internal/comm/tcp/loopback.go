package tcp

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// Loopback is what TCP within this machine allows two threads: the limit of ranks
// that are on different hosts in name only.
type Loopback struct {
	LatencyUS float64 // of the smallest message, one way
	BytesUS   float64 // bytes per microsecond each way, both ways at once
}

// US is the least time of messages of so many bytes, one each way.
func (l Loopback) US(bytes float64) float64 { return max(l.LatencyUS, bytes/l.BytesUS) }

const (
	loopbackTries  = 60
	loopbackRounds = 50
	loopbackBytes  = 4 << 20
	loopbackBuffer = 256 << 10 // stays in a cache: the link is measured, not memory
)

// ProbeLoopback measures it, in about half a second. Both numbers are the best
// of many short attempts, as limits are.
func ProbeLoopback() (Loopback, error) {
	a, b, err := loopbackPair()
	if err != nil {
		return Loopback{}, fmt.Errorf("probing loopback: %w", err)
	}
	defer a.Close()
	defer b.Close()
	// A process that is bound to one core has but one running goroutine.
	before := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(max(2, before))
	defer runtime.GOMAXPROCS(before)
	least := Loopback{LatencyUS: math.Inf(1)}
	err = both([2]*Link{a, b}, func(i int, l *Link) error {
		for range loopbackTries {
			begin := time.Now()
			if err := pingPong(i, l, loopbackRounds); err != nil {
				return err
			}
			middle := time.Now()
			if err := stream(l, loopbackBytes); err != nil {
				return err
			}
			if i == 0 {
				least.LatencyUS = min(least.LatencyUS, us(middle.Sub(begin))/(2*loopbackRounds))
				least.BytesUS = max(least.BytesUS, loopbackBytes/us(time.Since(middle)))
			}
		}
		return nil
	})
	if err != nil {
		return Loopback{}, fmt.Errorf("probing loopback: %w", err)
	}
	return least, nil
}

func us(d time.Duration) float64 { return float64(d) / 1e3 }

// both runs the two ends, each on a core of its own where there are two.
func both(ends [2]*Link, run func(i int, l *Link) error) (err error) {
	results := make(chan error, len(ends))
	for i, l := range ends {
		go func() {
			// A thread that is bound is not given back, so it ends with the goroutine.
			runtime.LockOSThread()
			bind(i)
			results <- run(i, l)
		}()
	}
	for range ends {
		err = errors.Join(err, <-results)
	}
	return err
}

// bind puts the calling thread on the i-th core that the process could have,
// also where it was bound to fewer: the limit is the machine's. Where that is
// not allowed the thread stays where it is.
func bind(i int) {
	if granted, err := cores.Granted(); err == nil && i < len(granted) {
		_, _ = cores.BindThread(granted[i])
	}
}

func pingPong(i int, l *Link, rounds int) error {
	for k := range rounds {
		h := Header{Call: uint64(k)}
		for turn := range 2 {
			if turn == i {
				l.Out.PostHeader(h)
			} else {
				l.In.ExpectHeader(h)
			}
			if err := drive(l); err != nil {
				return err
			}
		}
	}
	return nil
}

func stream(l *Link, bytes int) error {
	out, in := make([]byte, loopbackBuffer), make([]byte, loopbackBuffer)
	for left := bytes; left > 0; left -= loopbackBuffer {
		n := min(left, loopbackBuffer)
		l.Out.Post(out[:n])
		l.In.Expect(in[:n])
	}
	return drive(l)
}

// drive moves until nothing is posted, and offers the core in between, since
// there may be only one.
func drive(l *Link) error {
	for idle := 0; !l.Idle(); {
		moved, err := l.Progress()
		if err != nil {
			return err
		}
		if idle++; moved {
			idle = 0
		} else if idle > 100 {
			runtime.Gosched()
		}
	}
	return nil
}

func loopbackPair() (a, b *Link, err error) {
	dialled, accepted, err := connection.Loopback()
	if err != nil {
		return nil, nil, err
	}
	if a, err = NewLink(dialled, 1, time.Minute); err != nil {
		accepted.Close()
		return nil, nil, err
	}
	if b, err = NewLink(accepted, 0, time.Minute); err != nil {
		a.Close()
	}
	return a, b, err
}
