// Package proctest is for tests that start real processes: the test's own
// binary as a program, output that may be read while it is written, and which
// processes of a test are still alive; and for tests of what such processes
// decide, as stories in text files. It starts and ends nothing by itself, except
// what a test has left behind.
package proctest

import (
	"bytes"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// QuickExit, in the environment of a process, keeps the race detector from
// sleeping a second at its end.
const QuickExit = "GORACE=atexit_sleep_ms=0"

// Self is the path of the test binary, which TestMain can run as other programs.
func Self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Random draws the times and targets of the faults that a test injects, from
// FAULTS_SEED (1 unless it is set) and the test's name, and logs the seed: a
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

// Buffer is output that may be read while it is written.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String is what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Mark is a variable by which a test finds the processes it has started, and
// what these have started: they inherit it. A process that is to lose its
// environment carries it as an argument.
type Mark struct{ Name, Value string }

// String is the mark as an entry of an environment, or as an argument.
func (m Mark) String() string { return m.Name + "=" + m.Value }

// Process is a living process that carries a mark.
type Process struct {
	PID     int
	Cmdline string
	Env     map[string]string
}

// Processes lists the living processes with the mark, this one excepted. Zombies
// are not among them: the kernel shows neither environment nor arguments of
// theirs. Tests ask for it again and again, so most processes are only glanced at.
func (m Mark) Processes() (found []Process) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, _ := os.ReadFile("/proc/" + e.Name() + "/environ") // a process may be gone by now
		cmdline, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if !m.on(environ) && !m.on(cmdline) {
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

// on tells whether the mark is one of the strings that the kernel shows.
func (m Mark) on(shown []byte) bool {
	return bytes.Contains(shown, []byte(m.Value)) && slices.Contains(strings.Split(string(shown), "\x00"), m.String())
}

// goneWithin is generous on a loaded machine.
const goneWithin = time.Minute

// Gone waits until no marked process is left, and returns those that stay.
func (m Mark) Gone() []Process { return m.gone(goneWithin) }

func (m Mark) gone(within time.Duration) (left []Process) {
	for limit := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		if left = m.Processes(); len(left) == 0 || time.Now().After(limit) {
			return left
		}
	}
}

// AssertGone demands that no marked process is left. What is left is killed, so
// that a failing test leaves nothing either.
func (m Mark) AssertGone(t testing.TB) {
	t.Helper()
	m.assertGone(t, goneWithin)
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
