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

// A held run is refused with its holder, others of the folder are not, and a
// released or abandoned one is free.
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
	// A lock file that nobody has locked is a dead process's.
	must.Do(t, os.WriteFile(filepath.Join(dir, ".a.lock"), []byte(`{"pid":1}`), 0o644))
	if got, err := HolderOf(dir, "a"); err != nil || got != nil {
		t.Errorf("the holder is %v, which is dead: %v", got, err)
	}
	// What a dead process has left names it, and does not keep anybody out.
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

// Who looks whether a run is held never keeps another from taking hold of it.
func TestLookingHoldsNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".a.lock"), nil, 0o644); err != nil { // of a dead process
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

// Of many that take and release a hold, never two have it.
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
