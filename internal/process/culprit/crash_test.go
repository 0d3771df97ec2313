package culprit

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// The cause of a crash is one line without stacks, and the limit that was hit is named with its value.
func TestCrash(t *testing.T) {
	none := uint64(math.MaxUint64)
	some := Limits{Files: 24, Processes: 20, AddressSpace: 2 << 30, FileSize: 4096, GroupProcesses: none,
		GroupMemory: 1 << 30}
	for _, c := range []struct{ said, crash, limit string }{
		{"fakecgo: pthread_create failed: 11\nSIGABRT: abort\nPC=0x7f m=0\n\ngoroutine 0 [idle]:\n", "signal 6 (aborted)",
			"a user may have 20 processes and threads (ulimit -u), a process may use 2Gi of address space (ulimit -v)"},
		{"SIGQUIT: quit\nPC=0x4\n", "signal 3 (quit)", ""},
		{"SIGNONE: what\n", "", ""},
		{"log\nfatal error: failed to reserve page summary memory\nruntime stack:\n",
			"fatal error: failed to reserve page summary memory",
			"a process may use 2Gi of address space (ulimit -v), the control group may use 1Gi of memory (memory.max)"},
		{"panic: index out of range\ngoroutine 1", "panic: index out of range", ""},
		{"open x: too many open files", "", "a process may open 24 files (ulimit -n)"},
		{"truncate kernbench: file too large", "", "a process may write files of 4Ki, shared memory included (ulimit -f)"},
		{"RuntimeError: CUDA error: out of memory", "", ""},
		{"all is well", "", ""},
	} {
		if crash, limit := Crash(c.said), some.Explain(c.said); crash != c.crash || limit != c.limit {
			t.Errorf("%q: crash %q, limit %q; want %q, %q", c.said, crash, limit, c.crash, c.limit)
		}
		if free := (Limits{none, none, none, none, none, none}).Explain(c.said); free != "" {
			t.Errorf("%q: %q without limits", c.said, free)
		}
	}
	text := some.AddTo("open x: too many open files")
	if again := some.AddTo(text); again != text || !strings.HasSuffix(text, ": a process may open 24 files (ulimit -n)") {
		t.Errorf("%q, then %q", text, again)
	}
	if own := OwnLimits(); own.Files == 0 || own.AddressSpace == 0 {
		t.Errorf("%+v", own)
	}
}

// TestCheckThreads checks that a command does not start if Go's runtime could not start its threads.
func TestCheckThreads(t *testing.T) {
	none := Limits{Processes: math.MaxUint64, GroupProcesses: math.MaxUint64}
	must.Do(t, none.CheckThreads())
	few := none
	few.Processes = 3
	if err := few.CheckThreads(); err == nil || !strings.Contains(err.Error(),
		"this user may have 3 processes and threads (ulimit -u), and has ") {
		t.Error(err)
	}
	few.Processes = uint64(threadsOf(os.Geteuid())) + neededThreads + 100 // other tests start and end processes
	must.Do(t, few.CheckThreads())
}
