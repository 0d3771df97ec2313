package syncgroup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/process/connection"
	"pgregory.net/rapid"
)

// makers returns groups of every implementation, with ranks in this process. Shared memory between
// processes is tested in process_test.go.
var makers = map[string]func(t testing.TB, n int) []Group{
	"local":  func(_ testing.TB, n int) []Group { return Local(n) },
	"shm":    shmInProcess,
	"pipe":   func(t testing.TB, n int) []Group { return streams(t, n, pipePair) },
	"tcp":    func(t testing.TB, n int) []Group { return streams(t, n, tcpPair) },
	"wrap":   func(t testing.TB, n int) []Group { return nearWrap(Local(n)) },
	"nospin": func(t testing.TB, n int) []Group { return spinning(Local(n), false) },
	"spin":   func(t testing.TB, n int) []Group { return spinning(Local(n), true) },
}

func shmInProcess(t testing.TB, n int) []Group {
	f, err := NewShm(n)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	groups := make([]Group, n)
	for r := range groups {
		if groups[r], err = JoinShm(f, r, n); err != nil {
			t.Fatal(err)
		}
	}
	return groups
}

// nearWrap sets the counters a few rounds before they wrap around.
func nearWrap(groups []Group) []Group {
	for _, g := range groups {
		m := g.(*member)
		m.head.gate.Store(^uint32(0) &^ (gateStep*8 - 1))
		m.cells[m.rank].rounds.Store(^uint32(0) - 3)
	}
	return groups
}

func spinning(groups []Group, spin bool) []Group {
	for _, g := range groups {
		g.(*member).spin = spin
	}
	return groups
}

type pair func(t testing.TB) (a, b net.Conn)

func pipePair(testing.TB) (a, b net.Conn) { return net.Pipe() }

func tcpPair(t testing.TB) (a, b net.Conn) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if a, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func streams(t testing.TB, n int, connect pair) []Group {
	groups, wait := streamsWithHub(t, n, connect)
	t.Cleanup(func() { wait() })
	return groups
}

func streamsWithHub(t testing.TB, n int, connect pair) (groups []Group, wait func() error) {
	groups = make([]Group, n)
	conns := make([]*connection.Conn, n)
	for r := range groups {
		mine, theirs := connect(t)
		conns[r] = connection.Plain(theirs)
		var err error
		if groups[r], err = JoinStream(connection.Plain(mine), r, n); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- ServeHub(context.Background(), conns) }()
	return groups, func() error { return <-ended }
}

// hang returns a context that ends only if the test hangs.
func hang(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// together runs f on every rank and returns the errors by rank.
func together(groups []Group, f func(g Group) error) []error {
	errs := make([]error, len(groups))
	var all sync.WaitGroup
	for r, g := range groups {
		all.Go(func() { errs[r] = f(g) })
	}
	all.Wait()
	return errs
}

func closeAll(groups []Group) {
	together(groups, func(g Group) error { return g.Close() })
}

func forAll(t *testing.T, sizes []int, check func(t *testing.T, groups []Group)) {
	for name, make := range makers {
		for _, n := range sizes {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				groups := make(t, n)
				defer closeAll(groups)
				check(t, groups)
			})
		}
	}
	if slices.Contains(sizes, 1) {
		t.Run("solo", func(t *testing.T) { check(t, []Group{Solo()}) })
	}
}

func TestRankAndSize(t *testing.T) {
	forAll(t, []int{1, 3}, func(t *testing.T, groups []Group) {
		for r, g := range groups {
			if g.Rank() != r || g.Size() != len(groups) {
				t.Errorf("end %d of %d says rank %d of %d", r, len(groups), g.Rank(), g.Size())
			}
		}
	})
}

// barrierWaits reports an error if a rank leaves a barrier before another has entered it. One rank per
// round is slow on purpose, so that a missing barrier shows.
func barrierWaits(ctx context.Context, groups []Group) error {
	reached := make([]atomic.Int32, len(groups))
	return errors.Join(together(groups, func(g Group) error {
		for phase := int32(1); phase <= 20; phase++ {
			if int(phase)%g.Size() == g.Rank() {
				time.Sleep(time.Millisecond)
			}
			reached[g.Rank()].Store(phase)
			if err := g.Barrier(ctx); err != nil {
				return err
			}
			for r := range reached {
				if got := reached[r].Load(); got < phase {
					return fmt.Errorf("rank %d left barrier %d while rank %d was at %d", g.Rank(), phase, r, got)
				}
			}
		}
		return nil
	})...)
}

func TestBarrierWaits(t *testing.T) {
	forAll(t, []int{1, 2, 5}, func(t *testing.T, groups []Group) {
		if err := barrierWaits(hang(t), groups); err != nil {
			t.Error(err)
		}
	})
}

// Ranks that slept leave a barrier late. So a barrier that woke a rank is followed by a second round,
// which brings the ranks together again. The next barrier has one round.
func TestSleepersMeetTwice(t *testing.T) {
	m := spinning(Local(1), true)[0].(*member)
	for i, test := range []struct {
		sleepers int32
		rounds   uint32
	}{{0, 1}, {1, 3}, {0, 4}, {1, 6}} {
		m.head.sleepers.Store(test.sleepers)
		must.Do(t, m.Barrier(hang(t)))
		if got := m.cells[0].rounds.Load(); got != test.rounds {
			t.Errorf("after barrier %d there were %d rounds, want %d", i, got, test.rounds)
		}
	}
}

// noBarrier skips the barrier: the bug that TestBarrierWaits must find.
type noBarrier struct{ Group }

func (noBarrier) Barrier(context.Context) error { return nil }

func TestMissingBarrierIsFound(t *testing.T) {
	groups := Local(3)
	for r := range groups {
		groups[r] = noBarrier{groups[r]}
	}
	if barrierWaits(hang(t), groups) == nil {
		t.Error("ranks without a barrier passed the check")
	}
}

// pattern returns the data of a rank in a round. No other rank or round has the same.
func pattern(rank, round, length int) []int64 {
	values := make([]int64, length)
	for i := range values {
		values[i] = int64(rank)<<40 | int64(round)<<20 | int64(i)
	}
	return values
}

// exchanges makes one exchange per row of lengths, which has one length per rank, and a barrier after
// every third exchange.
func exchanges(ctx context.Context, g Group, lengths [][]int) error {
	for round, row := range lengths {
		all, err := Numbers(ctx, g, pattern(g.Rank(), round, row[g.Rank()]))
		if err != nil {
			return err
		}
		for r, got := range all {
			if !slices.Equal(got, pattern(r, round, row[r])) {
				return fmt.Errorf("rank %d, round %d: wrong values of rank %d (%d of them, want %d)", g.Rank(), round, r, len(got),
					row[r])
			}
		}
		if round%3 == 2 {
			if err := g.Barrier(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestExchangeLengths(t *testing.T) {
	forAll(t, []int{1, 2, 3}, func(t *testing.T, groups []Group) {
		n := len(groups)
		var lengths [][]int
		for _, long := range []int{0, 1, slotBytes/8 - 1, slotBytes / 8, slotBytes/8 + 1, 5*slotBytes/8 + 7} {
			for r := range n {
				row := make([]int, n)
				row[r] = long
				lengths = append(lengths, row, slices.Repeat([]int{long}, n))
			}
		}
		for _, err := range together(groups, func(g Group) error { return exchanges(hang(t), g, lengths) }) {
			if err != nil {
				t.Error(err)
			}
		}
	})
}

func TestManyRounds(t *testing.T) {
	forAll(t, []int{1, 2, 5}, func(t *testing.T, groups []Group) {
		lengths := make([][]int, 300)
		for round := range lengths {
			lengths[round] = make([]int, len(groups))
			for r := range groups {
				lengths[round][r] = (round + r) % 4
			}
		}
		for _, err := range together(groups, func(g Group) error { return exchanges(hang(t), g, lengths) }) {
			if err != nil {
				t.Error(err)
			}
		}
	})
}

func TestExchangeProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(rt, "ranks")
		row := rapid.SliceOfN(rapid.IntRange(0, 3*slotBytes/8), n, n)
		lengths := rapid.SliceOfN(row, 1, 4).Draw(rt, "lengths")
		groups := Local(n)
		for _, err := range together(groups, func(g Group) error { return exchanges(hang(t), g, lengths) }) {
			if err != nil {
				rt.Error(err)
			}
		}
	})
}

func wantAborted(t *testing.T, err error, rank int, reason string) {
	t.Helper()
	var aborted *AbortedError
	if !errors.As(err, &aborted) {
		t.Errorf("got error %v, want one of *AbortedError", err)
	} else if aborted.Rank != rank || !strings.Contains(aborted.Reason, reason) {
		t.Errorf("got rank %d, %q; want rank %d, %q", aborted.Rank, aborted.Reason, rank, reason)
	}
}

// TestAbortWakesEveryone aborts while the other ranks wait in a barrier or an exchange.
func TestAbortWakesEveryone(t *testing.T) {
	forAll(t, []int{1, 2, 5}, func(t *testing.T, groups []Group) {
		ctx := hang(t)
		culprit := len(groups) - 1
		errs := together(groups, func(g Group) error {
			if err := g.Barrier(ctx); err != nil {
				return err
			}
			if g.Rank() == culprit {
				time.Sleep(2 * time.Millisecond)
				g.Abort("bad weather")
				g.Abort("a second reason, which comes too late")
			}
			if g.Rank()%2 == 0 {
				return g.Barrier(ctx)
			}
			_, err := g.Exchange(ctx, []byte{1})
			return err
		})
		for _, err := range errs {
			wantAborted(t, err, culprit, "bad weather")
		}
		// Later calls must fail too.
		for _, err := range together(groups, func(g Group) error { return g.Barrier(ctx) }) {
			wantAborted(t, err, culprit, "bad weather")
		}
	})
}

// TestAbortFromAnotherGoroutine checks that Abort also ends a call of the rank that aborts.
func TestAbortFromAnotherGoroutine(t *testing.T) {
	forAll(t, []int{2}, func(t *testing.T, groups []Group) {
		ended := make(chan error)
		go func() { ended <- groups[0].Barrier(hang(t)) }()
		time.Sleep(time.Millisecond)
		groups[0].Abort("watchdog")
		wantAborted(t, <-ended, 0, "watchdog")
		// The abort of a hub is asynchronous, so the current barrier may still complete.
		var err error
		for err == nil {
			err = groups[1].Barrier(hang(t))
		}
		wantAborted(t, err, 0, "watchdog")
	})
}

func TestEndOfContext(t *testing.T) {
	forAll(t, []int{3}, func(t *testing.T, groups []Group) {
		ctx, cancel := context.WithCancel(hang(t))
		ended := make(chan error)
		go func() { ended <- groups[0].Barrier(ctx) }()
		time.Sleep(time.Millisecond)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		wantAborted(t, groups[1].Barrier(hang(t)), 0, "canceled")
	})
}

// The error of a timeout must name the ranks that did not arrive.
func TestLateRanksAreNamed(t *testing.T) {
	groups := Local(4)
	ctx, cancel := context.WithCancel(hang(t))
	go groups[2].Barrier(hang(t))
	for groups[0].(*member).cells[2].rounds.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := groups[0].Barrier(ctx); err == nil || !strings.Contains(err.Error(), "ranks [1 3] of 4") {
		t.Errorf("got %v, want ranks [1 3] named", err)
	}
}

func TestLeavingRankIsNamed(t *testing.T) {
	forAll(t, []int{2, 3}, func(t *testing.T, groups []Group) {
		ctx := hang(t)
		errs := together(groups, func(g Group) error {
			if err := g.Barrier(ctx); err != nil {
				return err
			}
			if g.Rank() == 1 {
				return g.Close()
			}
			return g.Barrier(ctx)
		})
		for r, err := range errs {
			if r != 1 {
				wantAborted(t, err, 1, "left the group")
			} else if err != nil {
				t.Errorf("closing: %v", err)
			}
		}
		if err := groups[1].Barrier(ctx); !errors.Is(err, ErrClosed) {
			t.Errorf("barrier after close: got %v, want ErrClosed", err)
		}
		groups[1].Abort("after close: must do nothing, and not crash")
	})
}

func TestOutOfStepIsFound(t *testing.T) {
	forAll(t, []int{2, 3}, func(t *testing.T, groups []Group) {
		errs := together(groups, func(g Group) error {
			if g.Rank() == 1 {
				return g.Barrier(hang(t))
			}
			_, err := g.Exchange(hang(t), []byte{7})
			return err
		})
		for _, err := range errs {
			if err == nil || !strings.Contains(err.Error(), "out of step") {
				t.Errorf("got %v, want ranks out of step", err)
			}
		}
	})
}

func TestTooManyValues(t *testing.T) {
	for _, g := range []Group{Solo(), Local(1)[0]} {
		if _, err := g.Exchange(hang(t), make([]byte, MaxBytes+1)); err == nil {
			t.Errorf("%T took more than MaxBytes", g)
		}
	}
}
