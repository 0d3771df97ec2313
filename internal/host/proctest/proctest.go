// Package proctest helps tests that start processes: it finds the test binary, which can act as
// another program, captures output while it is written, and finds and kills processes that a test
// left behind. Stories runs tests that are scripts in text files.
package proctest

import (
	"bytes"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
)

// QuickExit is an environment entry that stops the race detector from sleeping one second at the
// end of the process.
const QuickExit = "GORACE=atexit_sleep_ms=0"

// Self returns the path of the test binary, whose TestMain can act as other programs.
func Self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Random returns the source of random times and targets for the faults that a test injects. Its seed is
// FAULTS_SEED (default 1) and the name of the test. The seed is logged, so that a
// failure can be reproduced.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(1)
	if text := os.Getenv("FAULTS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("FAULTS_SEED=%d", seed)
	h := fnv.New64a()
	h.Write([]byte(t.Name()))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// Buffer is a buffer for output that may be read while a process writes to it.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns the output so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Mark is an environment variable that identifies the processes of a test. Their children inherit
// it. A process without an environment can carry it as an argument.
type Mark struct{ Name, Value string }

// String returns the mark as an environment entry or an argument.
func (m Mark) String() string { return m.Name + "=" + m.Value }

// Process is a running process that has a mark.
type Process struct {
	PID     int
	Cmdline string
	Env     map[string]string
}

// Processes returns the running processes that have the mark, except this one. Zombies are not
// included, because the kernel shows neither their environment nor their arguments. Tests call it
// in loops, so it parses the environment of marked processes only.
func (m Mark) Processes() (found []Process) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, _ := os.ReadFile("/proc/" + e.Name() + "/environ") // the process may have ended
		cmdline, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if !m.in(environ) && !m.in(cmdline) {
			continue
		}
		p := Process{PID: pid, Cmdline: strings.ReplaceAll(string(cmdline), "\x00", " "), Env: map[string]string{}}
		for entry := range strings.SplitSeq(string(environ), "\x00") {
			if k, v, ok := strings.Cut(entry, "="); ok && p.Env[k] == "" {
				p.Env[k] = v
			}
		}
		found = append(found, p)
	}
	return found
}

// in reports whether the mark is among the NUL-terminated strings.
func (m Mark) in(shown []byte) bool {
	return bytes.Contains(shown, []byte(m.Value)) && slices.Contains(strings.Split(string(shown), "\x00"), m.String())
}

// goneTimeout is long because CI machines are shared.
const goneTimeout = time.Minute

// Gone waits until no marked process is left, and returns the remaining ones after a minute.
func (m Mark) Gone() []Process { return m.gone(goneTimeout) }

func (m Mark) gone(within time.Duration) (left []Process) {
	for limit := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		if left = m.Processes(); len(left) == 0 || time.Now().After(limit) {
			return left
		}
	}
}

// AssertGone fails the test if marked processes are left after a minute, and kills them.
func (m Mark) AssertGone(t testing.TB) {
	t.Helper()
	m.assertGone(t, goneTimeout)
}

func (m Mark) assertGone(t testing.TB, within time.Duration) {
	t.Helper()
	for _, p := range m.gone(within) {
		t.Errorf("process %d is still running: %s", p.PID, p.Cmdline)
		if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
	}
}

// Stories runs the scripts in testdata/*.txt. A line is a verb with arguments, and do executes it.
// The expected answers follow the line, indented by a tab. -update rewrites them; commit only
// differences that you understand.
func Stories(t *testing.T, do func(verb string, args []string) (answers []string)) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories (%v)", err)
	}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		var got strings.Builder
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "\t") {
				continue
			}
			got.WriteString(line)
			if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
				for _, answer := range do(fields[0], fields[1:]) {
					got.WriteString("\t" + strings.ReplaceAll(answer, "\n", "\n\t") + "\n")
				}
			}
		}
		golden.Check(t, filepath.Base(file), got.String())
	}
}
