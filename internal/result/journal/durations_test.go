package journal

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestDurations checks that the duration of a point is the time from its latest begin to its
// first row, and that rows not run and other benches are ignored.
func TestDurations(t *testing.T) {
	at := func(s int) string { return fmt.Sprintf("2026-11-16T10:00:%02dZ", s) }
	line := func(typ, run, rest string, s int) string {
		return fmt.Sprintf(`{"type":%q,"schema":1,"run":%q,%s,"time":%q}`, typ, run, rest, at(s))
	}
	j := parseText(t,
		line("run", "r", `"bench":"b"`, 0), line("begin", "r", `"key":"a"`, 1),
		line("begin", "r", `"key":"a","attempt":1`, 5),
		line("row", "r", `"key":"a1","task":"a","status":"ok"`, 8),
		line("row", "r", `"key":"a2","task":"a","status":"ok"`, 20),
		line("begin", "r", `"key":"c"`, 21), line("row", "r", `"key":"c","status":"not-executed"`, 22),
		line("row", "r", `"key":"d","status":"skipped"`, 23), line("begin", "r", `"key":"e"`, 24),
		line("row", "r", `"key":"e","status":"timeout"`, 30),
		line("begin", "r", `"key":"g"`, 31), line("row", "r", `"key":"g","status":"ok"`, 31),
		line("begin", "r", `"key":"h"`, 33), line("row", "r", `"key":"h","status":"ok"`, 32), // the clock was set back
		line("run", "s", `"bench":"other"`, 40), line("begin", "s", `"key":"f"`, 41),
		line("row", "s", `"key":"f","status":"ok"`, 42))
	want := map[string]time.Duration{"a": 3 * time.Second, "e": 6 * time.Second, "g": 0}
	if diff := cmp.Diff(want, j.Durations("b")); diff != "" {
		t.Error(diff)
	}
}
