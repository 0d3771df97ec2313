package cpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/must"
)

// The test program starts itself again as ranks. These variables tell a child its body and its rank.
const (
	childBody = "CPU_TEST_BODY"
	childRank = "CPU_TEST_RANK"
	childSize = "CPU_TEST_SIZE"
	childID   = "CPU_TEST_ID"
	// The hosts of the ranks, one letter per rank, and a folder of files through which the ranks
	// exchange addresses.
	childHosts = "CPU_TEST_HOSTS"
	childMeets = "CPU_TEST_MEETS"
)

// bodies are the programs of ranks in separate processes, by name.
var bodies = map[string]func(g *dist.Group) error{
	"work": func(g *dist.Group) error { return sums(g, 50) },
	// die kills rank 1 between its calls with SIGKILL, which no handler can intercept.
	"die": func(g *dist.Group) error {
		b := dist.Of(make([]float32, 50_000))
		for k := 0; ; k++ {
			if g.Rank() == 1 && k == 50 {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			if err := g.AllReduce(b, b, dist.Max); err != nil {
				return err
			}
		}
	},
	// stall makes rank 1 sleep until it is killed.
	"stall": func(g *dist.Group) error {
		if g.Rank() == 1 {
			time.Sleep(time.Minute)
			return nil
		}
		return g.Barrier()
	},
}

// sums makes all-reduces in symmetric and in private memory.
func sums(g *dist.Group, rounds int) error {
	b, err := g.Alloc(dist.F32, 100_000)
	if err != nil {
		return err
	}
	own := dist.Of(make([]float32, 100_000))
	for k := range rounds {
		for _, b := range []dist.Buffer{b.Slice(0, 1), b, own} {
			s := dist.Slice[float32](b)
			for i := range s {
				s[i] = float32(i%64 + g.Rank() + k)
			}
			if err := g.AllReduce(b, b, dist.Sum); err != nil {
				return err
			}
			for i, v := range s {
				n := g.Size()
				if want := float32(n*(i%64+k) + n*(n-1)/2); v != want {
					return fmt.Errorf("sum %d of %d at %d is %v, want %v", k, len(s), i, v, want)
				}
			}
		}
	}
	return nil
}

// stallLimit is the timeout of the group. It must be long enough for the processes to join on a loaded
// machine.
const stallLimit = 4 * time.Second

func child() (code int) {
	rank, _ := strconv.Atoi(os.Getenv(childRank))
	size, _ := strconv.Atoi(os.Getenv(childSize))
	timeout := 20 * time.Second
	if os.Getenv(childBody) == "stall" {
		timeout = stallLimit
	}
	c := dist.Config{Backend: Name, Rank: rank, Size: size, ID: os.Getenv(childID), Timeout: timeout}
	if hosts := os.Getenv(childHosts); hosts != "" {
		c.Host, c.Exchange = hosts[rank:rank+1], exchangeIn(os.Getenv(childMeets), rank, size)
	}
	g, err := dist.Init(context.Background(), c)
	if err == nil {
		err = bodies[os.Getenv(childBody)](g)
		err = errors.Join(err, g.Close())
	}
	if err != nil {
		fmt.Print(err)
		return 1
	}
	return 0
}

// exchangeIn returns a Config.Exchange that works through files in dir.
func exchangeIn(dir string, rank, size int) func(context.Context, []byte) ([][]byte, error) {
	round := 0
	return func(ctx context.Context, mine []byte) ([][]byte, error) {
		round++
		at := func(r int) string { return filepath.Join(dir, fmt.Sprintf("%d.%d", round, r)) }
		if err := errors.Join(os.WriteFile(at(rank)+".new", mine, 0o600), os.Rename(at(rank)+".new", at(rank))); err != nil {
			return nil, err
		}
		all := make([][]byte, size)
		for r := range all {
			for {
				var err error
				if all[r], err = os.ReadFile(at(r)); err == nil {
					break
				}
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				time.Sleep(time.Millisecond)
			}
		}
		return all, nil
	}
}

// processes runs a body on ranks in separate processes. It returns their outputs and process IDs.
func processes(t *testing.T, body string, size int, env ...string) (outputs []string, pids []int) {
	t.Helper()
	id := fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano())
	var commands []*exec.Cmd
	var buffers []*bytes.Buffer
	for r := range size {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childBody+"="+body, childRank+"="+strconv.Itoa(r), childSize+"="+strconv.Itoa(size),
			childID+"="+id)
		cmd.Env = append(cmd.Env, env...)
		out := new(bytes.Buffer)
		cmd.Stdout, cmd.Stderr = out, out
		must.Do(t, cmd.Start())
		guard := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		defer guard.Stop()
		commands, buffers, pids = append(commands, cmd), append(buffers, out), append(pids, cmd.Process.Pid)
	}
	for r, cmd := range commands {
		if err := cmd.Wait(); err != nil && buffers[r].Len() == 0 {
			fmt.Fprint(buffers[r], err)
		}
		outputs = append(outputs, buffers[r].String())
		if body == "stall" {
			commands[1].Process.Kill() // rank 0 has reported its result
		}
	}
	return outputs, pids
}

func TestProcesses(t *testing.T) {
	for _, size := range []int{2, 5} {
		for _, threads := range []string{"1", "4"} {
			if testing.Short() && size > 2 {
				continue
			}
			outputs, _ := processes(t, "work", size, "GOMAXPROCS="+threads)
			for r, s := range outputs {
				if s != "" {
					t.Errorf("rank %d of %d with %s threads: %s", r, size, threads, s)
				}
			}
		}
	}
}

func TestKilledRankIsNamed(t *testing.T) {
	before := must.Get(filepath.Glob("/dev/shm/*kernbench*"))(t)
	outputs, pids := processes(t, "die", 3)
	for _, r := range []int{0, 2} {
		if want := fmt.Sprintf("rank 1 (pid %d) is dead", pids[1]); !strings.Contains(outputs[r], want) {
			t.Errorf("rank %d printed %q, want %q", r, outputs[r], want)
		}
	}
	if !strings.Contains(outputs[1], "killed") {
		t.Errorf("rank 1 printed %q, want to be killed", outputs[1])
	}
	after, err := filepath.Glob("/dev/shm/*kernbench*")
	after = slices.DeleteFunc(after, func(name string) bool {
		// Ignore the fake devices of other packages' tests, which may run at the same time.
		return slices.Contains(before, name) || strings.Contains(name, "kernbench-fake-")
	})
	if err != nil || len(after) > 0 {
		t.Errorf("left behind %v (%v)", after, err)
	}
}

// Ranks on other hosts than the killed one learn of it too.
func TestKilledRankIsNamedAcrossHosts(t *testing.T) {
	outputs, pids := processes(t, "die", 3, childHosts+"=aab", childMeets+"="+t.TempDir())
	for _, r := range []int{0, 2} {
		if want := fmt.Sprintf("rank 1 (pid %d", pids[1]); !strings.Contains(outputs[r], want) ||
			!strings.Contains(outputs[r], "is dead") {
			t.Errorf("rank %d printed %q, want %q and that it is dead", r, outputs[r], want)
		}
	}
}

func TestStalledRankIsNamed(t *testing.T) {
	outputs, pids := processes(t, "stall", 2)
	if want := fmt.Sprintf("rank 0 waited %v for rank 1 (pid %d) in barrier", stallLimit,
		pids[1]); !strings.Contains(outputs[0], want) {
		t.Errorf("rank 0 printed %q, want %q", outputs[0], want)
	}
}
