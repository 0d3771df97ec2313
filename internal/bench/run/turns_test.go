package run

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

// TestTurns lets two runs with different numbers of launches take turns. They go in blocks of
// one launch each, in an order that is not always the same, and one at a time.
func TestTurns(t *testing.T) {
	launches := []int{40, 60}
	turns := NewTurns(len(launches), 7)
	var order []int
	var wait sync.WaitGroup
	running := 0
	for run, n := range launches {
		wait.Go(func() {
			turn := turns.Of(run)
			defer turn.Leave()
			for range n {
				done, err := turn.take(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if running++; running != 1 { // the race detector would notice two at a time, too
					t.Errorf("%d launches at a time", running)
				}
				order = append(order, run)
				running--
				done()
			}
		})
	}
	wait.Wait()
	first := 0
	for i := 0; i < 2*launches[0]; i += 2 {
		if block := slices.Sorted(slices.Values(order[i : i+2])); !slices.Equal(block, []int{0, 1}) {
			t.Fatalf("launches %d and %d are of runs %v: %v", i, i+1, block, order)
		}
		first += order[i]
	}
	if len(order) != 100 || first < 10 || first > 30 {
		t.Errorf("%d launches; the second run was first in %d of 40 blocks", len(order), first)
	}
}

// TestTurnsEndWithTheContext checks that an interrupt ends the waiting for another run.
func TestTurnsEndWithTheContext(t *testing.T) {
	turns := NewTurns(2, 7)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	for run := range 2 {
		go func() {
			turn := turns.Of(run)
			for { // the other run never comes back after its first turn
				done, err := turn.take(ctx)
				if err != nil {
					ended <- err
					return
				}
				done()
				if run == 1 {
					ended <- nil
					return
				}
			}
		}()
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the waiting run ends with %v", err)
	}
}
