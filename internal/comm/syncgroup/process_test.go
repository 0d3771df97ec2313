package syncgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
)

// scenarios are the bodies of child processes, each of which is one rank. nil means success.
var scenarios = map[string]func(ctx context.Context, g Group) error{
	"rounds": func(ctx context.Context, g Group) error {
		lengths := make([][]int, 300)
		for round := range lengths {
			lengths[round] = make([]int, g.Size())
			for r := range lengths[round] {
				lengths[round][r] = (round*7 + r*1000) % 2500
			}
		}
		return exchanges(ctx, g, lengths)
	},
	"abort": func(ctx context.Context, g Group) error {
		err := g.Barrier(ctx)
		if g.Rank() == 1 && err == nil {
			g.Abort("bad weather")
		}
		if err == nil { // otherwise the abort came before this rank had left the barrier
			err = g.Barrier(ctx)
		}
		return expectAborted(err, 1, "bad weather")
	},
	"die": func(ctx context.Context, g Group) error {
		if err := g.Barrier(ctx); err != nil {
			return err
		}
		if g.Rank() == 1 {
			os.Exit(0) // without Close, like a crash
		}
		_, err := g.Exchange(ctx, nil)
		return expectAborted(err, 1, "process ended")
	},
}

func expectAborted(err error, rank int, reason string) error {
	var aborted *AbortedError
	if errors.As(err, &aborted) && aborted.Rank == rank && strings.Contains(aborted.Reason, reason) {
		return nil
	}
	return fmt.Errorf("got error %v, want abort by rank %d: %q", err, rank, reason)
}

const childVariable = "AGREE_TEST_CHILD" // scenario, rank, size

func TestMain(m *testing.M) {
	if job := strings.Fields(os.Getenv(childVariable)); len(job) == 3 {
		if err := child(job[0], job[1], job[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(scenario, rankText, sizeText string) error {
	rank, _ := strconv.Atoi(rankText)
	size, _ := strconv.Atoi(sizeText)
	g, err := JoinShm(os.NewFile(3, "board"), rank, size)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := scenarios[scenario](ctx, g); err != nil {
		return fmt.Errorf("rank %d: %w", rank, err)
	}
	return g.Close()
}

func TestShmProcesses(t *testing.T) {
	for scenario := range scenarios {
		for _, size := range []int{2, 4} {
			t.Run(fmt.Sprintf("%s/%d", scenario, size), func(t *testing.T) {
				runChildren(t, scenario, size)
			})
		}
	}
}

func runChildren(t *testing.T, scenario string, size int) {
	board := must.Get(NewShm(size))(t)
	defer board.Close()
	children := make([]*exec.Cmd, size)
	for rank := range children {
		c := exec.CommandContext(hang(t), os.Args[0])
		// Without this the race detector sleeps one second at each exit.
		c.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0",
			fmt.Sprintf("%s=%s %d %d", childVariable, scenario, rank, size))
		c.ExtraFiles = []*os.File{board}
		c.Stderr = new(bytes.Buffer)
		must.Do(t, c.Start())
		children[rank] = c
	}
	for rank, c := range children {
		if err := c.Wait(); err != nil {
			t.Errorf("rank %d: %v: %s", rank, err, c.Stderr)
		}
	}
}

func TestShmMisuse(t *testing.T) {
	board := must.Get(NewShm(2))(t)
	defer board.Close()
	first := must.Get(JoinShm(board, 0, 2))(t)
	join := func(f *os.File, rank, size int, want string) {
		t.Helper()
		if _, err := JoinShm(f, rank, size); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("rank %d of %d: got %v, want %q", rank, size, err, want)
		}
	}
	join(board, 0, 2, "another process is rank 0")
	join(board, 2, 2, "rank must be 0 to 1")
	join(board, 0, 3, "another number of ranks")
	first.Close()
	join(board, 0, 2, "has joined before")
	if err := board.Truncate(1); err == nil {
		t.Error("the size of the shared memory is not sealed")
	}
	other := must.Get(os.Create(t.TempDir() + "/other"))(t)
	defer other.Close()
	other.Truncate(int64(boardBytes(2)))
	join(other, 0, 2, "file starts with")
	for _, size := range []int{0, -1, maxRanks + 1} {
		if _, err := NewShm(size); err == nil {
			t.Errorf("NewShm(%d) gave no error", size)
		}
	}
}

func TestSpinOnlyWithCoreEach(t *testing.T) {
	set := func(cells []cell, masks ...uint64) bool {
		for r, mask := range masks {
			cells[r].cpus[1] = mask
		}
		return board{cells: cells}.coresForAll()
	}
	for _, test := range []struct {
		masks []uint64
		want  bool
	}{
		{[]uint64{1, 2, 4}, true},  // each rank is bound to its own core
		{[]uint64{7, 7, 7}, true},  // three cores for three ranks
		{[]uint64{3, 3, 3}, false}, // two cores
		{[]uint64{0, 0, 0}, false}, // unknown
		{[]uint64{15, 1, 1}, true},
	} {
		if got := set(make([]cell, 3), test.masks...); got != test.want {
			t.Errorf("masks %v: spin %v, want %v", test.masks, got, test.want)
		}
	}
}
