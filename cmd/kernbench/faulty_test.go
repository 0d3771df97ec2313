package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/measure"
)

// faulty returns a bench that fails. Its axis selects the kind of failure and its option the rank.
// It reads the variable FAULTY_US, the time of a call, and ignores FAULTY_IGNORED.
func faulty() *bench.Bench {
	quick := measure.Default()
	quick.Stop = measure.Stop{MinSamples: 1, MaxSamples: 3, MaxTime: time.Second}
	quick.Warmup = measure.Warmup{MinCalls: 1, MaxCalls: 1, MaxTime: time.Second}
	return bench.New("faulty", fail,
		bench.Help("goes wrong as told"),
		bench.Ranks("2"),
		bench.Strings("mode", "ok"),
		bench.Ints("i", "1,2"),
		bench.Option("at", point.Int, "1", "the rank that goes wrong"),
		bench.Metric("time_us", "us", "lower"),
		bench.Drop(func(p point.Point) error {
			if p.At("i").Int() == 13 {
				return errors.New("13 brings bad luck")
			}
			return nil
		}),
		bench.Measure(quick),
		bench.Timeout(time.Minute),
	)
}

func fail(ctx context.Context, s *bench.State) error {
	here, mode := s.Rank() == s.Int("at"), s.Str("mode")
	call := func() error { return nil }
	switch mode {
	case "ok":
	case "skip":
		return bench.Skip("not today")
	case "skip alone":
		if here {
			return bench.Skip("not today")
		}
	case "nothing":
		return nil
	case "wrong":
		s.Verify(func() error {
			if here {
				return &bench.Wrong{Count: 7, Detail: "element 3 is 4, want 5"}
			}
			return nil
		})
	case "wrong later": // the result is right before the timing and wrong after it
		calls := 0
		call = func() error { calls++; return nil }
		s.Verify(func() error {
			if here && calls > 1 {
				return &bench.Wrong{Count: 1, Detail: fmt.Sprintf("after %s calls", "many")}
			}
			return nil
		})
	case "error in a call":
		call = func() error {
			if here {
				return errors.New("the call is refused")
			}
			return nil
		}
	case "hang in a call":
		call = func() error {
			if here {
				time.Sleep(time.Hour)
			}
			return nil
		}
	case "interrupt": // as if the user pressed Ctrl-C while this point runs
		if marker := os.Getenv("FAULTY_MARKER"); here && os.Mkdir(marker, 0o700) == nil {
			began := time.Now()
			signalSupervisor(syscall.SIGINT)
			time.Sleep(20 * time.Millisecond)
			if time.Since(began) < time.Second/2 { // on a busy machine it might be a second too late, a second Ctrl-C
				signalSupervisor(syscall.SIGINT) // as timeout(1) does: to its child, then to the group
			}
			time.Sleep(time.Hour)
		}
	default:
		if here {
			if err := ruin(s, mode); err != nil {
				return err
			}
		}
	}
	return timeScripted(ctx, s, call)
}

var spun int

// ruin makes the failures that affect one process.
func ruin(s *bench.State, mode string) error {
	s.Phase("ruin")
	switch mode {
	case "error":
		return errors.New("something is wrong")
	case "panic":
		panic("out of order")
	case "panic elsewhere":
		go func() { panic("in another goroutine") }()
		time.Sleep(time.Hour)
	case "exit 3":
		fmt.Fprintln(os.Stderr, "these are my last words")
		os.Exit(3)
	case "exit 0":
		os.Exit(0)
	case "kill":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Hour)
	case "kill the supervisor": // for a rank that has joined: the process in its place
		signalSupervisor(syscall.SIGKILL)
		time.Sleep(time.Hour)
	case "stop":
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(time.Hour)
	case "hang":
		time.Sleep(time.Hour)
	case "spin":
		for n := 0; ; n++ {
			spun = n
		}
	case "flood":
		block := strings.Repeat("all work and no play\n", 1<<12)
		for range 200 {
			fmt.Print(block)
		}
	case "grandchild": // in its own session, so that signals to the process group do not reach it
		sleeper := exec.Command("sleep", "3600")
		sleeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := sleeper.Start(); err != nil {
			return err
		}
		os.Exit(4)
	case "twice": // fails the first time
		if marker := os.Getenv("FAULTY_MARKER"); os.Mkdir(marker, 0o700) == nil {
			return errors.New("fails the first time")
		}
	default:
		return fmt.Errorf("no mode %q", mode)
	}
	return nil
}

// signalSupervisor sends a signal to the supervisor of this worker: the parent of the agent, which
// is the parent of this process.
func signalSupervisor(sig syscall.Signal) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", os.Getppid()))
	if err != nil {
		panic(err)
	}
	var pid int
	var state string
	rest := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
	if _, err := fmt.Sscan(rest, &state, &pid); err != nil {
		panic(err)
	}
	syscall.Kill(pid, sig)
}

// timeScripted times calls by a clock that advances by FAULTY_US, so that the results do not depend
// on the machine.
func timeScripted(ctx context.Context, s *bench.State, call func() error) error {
	us := int64(100)
	if text := os.Getenv("FAULTY_US"); text != "" {
		if _, err := fmt.Sscan(text, &us); err != nil {
			return err
		}
	}
	clock := &scriptedClock{}
	s.UseClock(clock)
	return s.Time(ctx, func() error { clock.now += us * int64(s.Int("i")) * 1e6; return call() })
}

type scriptedClock struct{ now int64 }

func (c *scriptedClock) Now() int64          { return c.now }
func (c *scriptedClock) Deterministic() bool { return true }
func (c *scriptedClock) Name() string        { return "scripted" }
