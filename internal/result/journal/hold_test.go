package journal

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// TestHold checks that holding a held run fails and names the holder, that other runs of the
// folder are not affected, and that a released or abandoned run can be held again.
func TestHold(t *testing.T) {
	dir := t.TempDir()
	h := must.Get(HoldRun(dir, "a"))(t)
	var held *HeldError
	host, _ := os.Hostname()
	if _, err := HoldRun(dir, "a"); !errors.As(err, &held) || held.PID != os.Getpid() || held.Host != host ||
		held.Since.IsZero() {
		t.Fatalf("holding it twice: %v", err)
	}
	if got, err := HolderOf(dir, "a"); err != nil || got == nil || got.PID != os.Getpid() {
		t.Errorf("the holder is %v: %v", got, err)
	}
	other, err := HoldRun(dir, "b")
	if err != nil {
		t.Fatalf("another run of the folder: %v", err)
	}
	must.Do(t, errors.Join(h.Release(), other.Release()))
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left after the release", left)
	}
	if got, err := HolderOf(dir, "a"); err != nil || got != nil {
		t.Errorf("after the release the holder is %v: %v", got, err)
	}
	// A lock file without a lock was left by a dead process.
	must.Do(t, os.WriteFile(filepath.Join(dir, ".a.lock"), []byte(`{"pid":1}`), 0o644))
	if got, err := HolderOf(dir, "a"); err != nil || got != nil {
		t.Errorf("the holder is %v, which is dead: %v", got, err)
	}
	// The file of a dead process names it but keeps nobody out.
	must.Do(t, os.WriteFile(filepath.Join(dir, ".a.lock"), []byte(`{"pid":1,"host":"far away, with a long name"}`), 0o644))
	if got, err := HolderOf(dir, "a"); err != nil || got != nil {
		t.Errorf("the holder is %v, which is dead on its host: %v", got, err)
	}
	if h, err = HoldRun(dir, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := HoldRun(dir, "a"); !errors.As(err, &held) || held.PID != os.Getpid() || held.Host != host {
		t.Errorf("the holder after a dead one: %v", err)
	}
	must.Do(t, h.Release())
	for _, id := range []string{"", "../a", "a/b"} {
		if _, err := HoldRun(dir, id); err == nil {
			t.Errorf("a hold on the run %q", id)
		}
		if _, err := HolderOf(dir, id); err == nil {
			t.Errorf("a holder of the run %q", id)
		}
	}
}

// TestLookingHoldsNothing checks that HolderOf never keeps another process from taking the hold.
func TestLookingHoldsNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".a.lock"), nil, 0o644); err != nil { // left by a dead process
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var ended atomic.Bool
	for range 4 {
		wg.Go(func() {
			for !ended.Load() {
				if _, err := HolderOf(dir, "a"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 200 {
		h, err := HoldRun(dir, "a")
		if err != nil {
			t.Error(err)
			break
		}
		if err := h.Release(); err != nil {
			t.Error(err)
		}
	}
	ended.Store(true)
	wg.Wait()
}

// TestHoldIsExclusive checks that no two of many goroutines have a hold at the same time.
func TestHoldIsExclusive(t *testing.T) {
	dir := t.TempDir()
	var inside atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				h, err := HoldRun(dir, "a")
				var held *HeldError
				if errors.As(err, &held) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d have the hold", n)
				}
				inside.Add(-1)
				if err := h.Release(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
