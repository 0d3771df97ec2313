package collector

import (
	"runtime/debug"
	"testing"
)

// target returns the collector's target.
func target() int {
	now := debug.SetGCPercent(100)
	debug.SetGCPercent(now)
	return now
}

// Holds that overlap without being nested must leave the target of the program.
func TestOverlappingHolds(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(123))
	check := func(when string, want int) {
		t.Helper()
		if got := target(); got != want {
			t.Errorf("%s the target is %d, want %d", when, got, want)
		}
	}
	first, alone := Hold(30)
	if !alone {
		t.Error("the first hold is not the first")
	}
	second, alone := Hold(60)
	if alone {
		t.Error("the second hold is the first")
	}
	check("with 30 and 60", 30)
	off, _ := Hold(-1)
	check("with the collector off", -1)
	off()
	first()
	first() // has no effect
	check("with 60 alone", 60)
	second()
	check("in the end", 123)
}
