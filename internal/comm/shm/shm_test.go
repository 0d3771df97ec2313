package shm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
)

func segment(t testing.TB, bytes int) *Segment {
	t.Helper()
	f := must.Get(NewFile(bytes))(t)
	defer f.Close()
	s := must.Get(Map(f))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// Parts of the heap do not overlap, are zeroed and lie inside it. When all parts are freed, the whole
// heap is available again.
func TestHeap(t *testing.T) {
	const begin, bytes = 2 * pageSize, 64 * pageSize
	s := segment(t, begin+bytes)
	rapid.Check(t, func(t *rapid.T) {
		h := NewHeap(s, begin, bytes)
		used := map[int]int{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(used) > 0 && rapid.Bool().Draw(t, "free") {
				var offs []int
				for off := range used {
					offs = append(offs, off)
				}
				off := rapid.SampledFrom(offs).Draw(t, "off")
				must.Do(t, h.Free(off))
				delete(used, off)
				continue
			}
			n := rapid.IntRange(1, 12*pageSize).Draw(t, "n")
			off, err := h.Alloc(n)
			if err != nil {
				continue
			}
			if off < begin || off+n > begin+bytes {
				t.Fatalf("%d bytes at %d are outside", n, off)
			}
			for other, length := range used {
				if off < other+length && other < off+n {
					t.Fatalf("%d bytes at %d lie over %d at %d", n, off, length, other)
				}
			}
			for _, b := range s.At(off, n) {
				if b != 0 {
					t.Fatalf("memory at %d is not zero", off)
				}
			}
			s.At(off, n)[0], s.At(off, n)[n-1] = 1, 1
			used[off] = n
		}
		for off := range used {
			must.Do(t, h.Free(off))
			if h.Free(off) == nil {
				t.Fatal("freed twice")
			}
		}
		if off, err := h.Alloc(bytes); err != nil || off != begin {
			t.Fatalf("all is free, but the whole is %d, %v", off, err)
		}
		if _, err := h.Alloc(1); err == nil {
			t.Fatal("more than everything")
		}
		must.Do(t, h.Free(begin))
	})
}

func TestClaims(t *testing.T) {
	f := must.Get(NewFile(pageSize))(t)
	defer f.Close()
	a := must.Get(Map(f))(t)
	b := must.Get(Map(f))(t)
	defer b.Close()
	must.Do(t, a.Claim(3))
	if err := b.Claim(3); err == nil {
		t.Error("a rank was claimed twice")
	}
	if !b.Claimed(3) || b.Claimed(2) {
		t.Errorf("claims of 3 and 2 are seen as %v and %v", b.Claimed(3), b.Claimed(2))
	}
	a.Close()
	if b.Claimed(3) {
		t.Error("the claim outlives its owner")
	}
}

func meet(id Identity) (*Meeting, error) {
	id.Claim = id.Rank
	return Meet(context.Background(), id, func() (*os.File, error) { return NewFile(pageSize) })
}

// hangGuard limits waits that the test does not measure, so that a hang fails the test.
const hangGuard = time.Minute

// meetAll makes all ranks join at the same time and returns their errors by rank.
func meetAll(t *testing.T, ranks []Identity) []error {
	errs := make([]error, len(ranks))
	var all sync.WaitGroup
	for i, id := range ranks {
		if id.Timeout == 0 {
			id.Timeout = hangGuard
		}
		id.ID = fmt.Sprintf("%s-%d", t.Name(), os.Getpid())
		all.Go(func() {
			m, err := meet(id)
			if err == nil {
				t.Cleanup(func() { m.Close(); m.Segment.Close() })
			}
			errs[i] = err
		})
	}
	all.Wait()
	return errs
}

// The checks of who may join are tested in package connection.
func TestMeeting(t *testing.T) {
	const limit = 5 * time.Second // long enough for all ranks to join on a loaded machine
	for _, c := range []struct {
		name  string
		ranks []Identity
		want  []string // in each one's error; "" is none
	}{
		{"three", []Identity{{Rank: 0, Size: 3}, {Rank: 1, Size: 3}, {Rank: 2, Size: 3}}, []string{"", "", ""}},
		{"alone", []Identity{{Rank: 0, Size: 1}}, []string{""}},
		{"rank 1 twice", []Identity{{Rank: 0, Size: 3}, {Rank: 1, Size: 3}, {Rank: 1, Size: 3}},
			[]string{"duplicate rank 1", "duplicate rank 1", "duplicate rank 1"}},
		{"secret", []Identity{{Rank: 0, Size: 2, Secret: "a", Timeout: limit}, {Rank: 1, Size: 2, Secret: "b"}},
			[]string{"missing: rank 1; refused: a process of this host: the secrets differ", "the secrets differ"}},
		{"no rank 0", []Identity{{Rank: 1, Size: 2, Timeout: 100 * time.Millisecond}},
			[]string{"looking for rank 0: dial unix"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for i, err := range meetAll(t, c.ranks) {
				got := fmt.Sprint(err)
				if c.want[i] == "" && err != nil || !strings.Contains(got, c.want[i]) {
					t.Errorf("rank %d got %q, want %q", i, got, c.want[i])
				}
			}
		})
	}
}

// A rank that joins a complete group gets an error, and a canceled context ends the waiting.
func TestTooLate(t *testing.T) {
	ranks := []Identity{{Rank: 0, Size: 2}, {Rank: 1, Size: 2}}
	for _, err := range meetAll(t, ranks) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := meetAll(t, ranks[1:])[0]; err == nil || !strings.Contains(err.Error(), "duplicate rank 1") {
		t.Errorf("too late, but: %v", err)
	}
	if err := meetAll(t, ranks[:1])[0]; err == nil || !strings.Contains(err.Error(), "duplicate rank 0") {
		t.Errorf("rank 0 again, but: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Meet(ctx, Identity{ID: "nobody", Rank: 1, Size: 2, Timeout: time.Minute}, nil); err == nil {
		t.Error("a cancelled rank met somebody")
	}
}

// If the shared memory cannot be created, all ranks get the error.
func TestMeetingWithoutMemory(t *testing.T) {
	id := Identity{ID: fmt.Sprintf("%s-%d", t.Name(), os.Getpid()), Size: 2, Timeout: hangGuard}
	none := func() (*os.File, error) { return nil, errors.New("out of memory") }
	told := make(chan error)
	go func() {
		other := id
		other.Rank = 1
		_, err := Meet(context.Background(), other, none)
		told <- err
	}()
	_, err := Meet(context.Background(), id, none)
	for _, err := range []error{err, <-told} {
		if err == nil || !strings.Contains(err.Error(), "out of memory") {
			t.Errorf("got %v", err)
		}
	}
}

func TestJudge(t *testing.T) {
	const sig, other = 5 << 32, 6 << 32
	for _, c := range []struct {
		flag        uint64
		epoch, last uint32
		want        Verdict
	}{
		{sig | 9, 10, 12, Early},
		{sig | 10, 10, 12, Reached},
		{sig | 12, 10, 12, Reached},
		{other | 10, 10, 12, Differs},
		{other | 12, 10, 12, Differs},
		{other | 13, 10, 12, Reached}, // of a later call
		{other | 9, 10, 12, Early},    // of an earlier call
		{sig | 0xffffffff, 1, 3, Early},
		{sig | 1, 0xffffffff, 2, Reached},
		{other | 1, 0xffffffff, 2, Differs},
		{other | 1, 0xffffffff, 0, Reached},
	} {
		if got := Judge(c.flag, c.epoch, c.last, sig); got != c.want {
			t.Errorf("flag %#x for epoch %d of a call until %d: %d, want %d", c.flag, c.epoch, c.last, got, c.want)
		}
	}
}
