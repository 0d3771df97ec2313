package cpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/netns"
	"github.com/kernbench/kernbench/internal/host/proctest"
)

// The test program starts itself again as ranks on hosts that are network namespaces. The ranks read
// their place in the job from the environment, as under a launcher.
const (
	hostBody    = "CPU_TEST_HOST_BODY"
	hostTimeout = "CPU_TEST_HOST_TIMEOUT"
)

func init() {
	if os.Getenv(hostBody) != "" {
		os.Exit(hostChild())
	}
}

func hostChild() int {
	timeout, _ := time.ParseDuration(os.Getenv(hostTimeout))
	c, err := dist.FromEnv()
	c.Backend, c.Timeout = Name, timeout
	var g *dist.Group
	if err == nil {
		g, err = dist.Init(context.Background(), c)
	}
	if err == nil {
		err = hostBodies[os.Getenv(hostBody)](g)
		err = errors.Join(err, g.Close())
	}
	if err == nil {
		fmt.Println("well")
		return 0
	}
	var peer *dist.PeerError
	if errors.As(err, &peer) {
		fmt.Print("peer error: ")
	}
	fmt.Println(err)
	return 1
}

// hostBodies are the programs of these ranks, by name.
var hostBodies = map[string]func(g *dist.Group) error{
	// work imitates a solver: sums of a few numbers, messages to neighbours, and sometimes a large
	// call.
	"work": func(g *dist.Group) error {
		n := g.Size()
		for k := range 30 {
			for _, count := range []int{1, 1000, 300_000} {
				if count > 1000 && k > 3 {
					continue
				}
				v := make([]float64, count)
				for i := range v {
					v[i] = float64(i%100 + g.Rank() + k)
				}
				if err := g.AllReduce(dist.Of(v), dist.Of(v), dist.Sum); err != nil {
					return err
				}
				for i := range v {
					if want := float64(n*(i%100+k) + n*(n-1)/2); v[i] != want {
						return fmt.Errorf("sum %d of %d is %v at %d, want %v", k, count, v[i], i, want)
					}
				}
			}
			out, in := []int32{int32(g.Rank()), int32(k)}, make([]int32, 2)
			send, err := g.Start(dist.Call{Op: dist.Send, In: dist.Of(out), Peer: (g.Rank() + 1) % n})
			if err != nil {
				return err
			}
			from := (g.Rank() + n - 1) % n
			if err := errors.Join(g.Recv(dist.Of(in), from), send.Wait()); err != nil {
				return err
			}
			if in[0] != int32(from) || in[1] != int32(k) {
				return fmt.Errorf("message %d from rank %d is %v", k, from, in)
			}
		}
		return nil
	},
	// sums makes calls until one of them fails.
	"sums": func(g *dist.Group) error {
		v := make([]float32, 300_000)
		for k := 0; ; k++ {
			if err := g.AllReduce(dist.Of(v), dist.Of(v), dist.Max); err != nil {
				return err
			}
			if k == 3 {
				fmt.Println("running")
			}
		}
	},
	// much is a call that takes longer over a slow link than the timeout of a silent rank.
	"much": func(g *dist.Group) error {
		v := make([]float32, 2<<20)
		return g.AllReduce(dist.Of(v), dist.Of(v), dist.Sum)
	},
	// reset makes rank 1 drop its connections.
	"reset": func(g *dist.Group) error {
		b := make([]float32, 100_000)
		for k := 0; ; k++ {
			if g.Rank() == 1 && k == 20 {
				for fd := range 200 {
					_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
				}
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			if err := g.AllReduce(dist.Of(b), dist.Of(b), dist.Max); err != nil {
				return err
			}
		}
	},
}

// job is a set of ranks in separate processes: one on the first host, two on the second, one on the
// third.
type job struct {
	*netns.Network
	ranks []*rankProcess
}

type rankProcess struct {
	host  *netns.Host
	cmd   *exec.Cmd
	out   proctest.Buffer
	ended chan struct{}
}

var places3 = []struct{ host, local, locals int }{{0, 0, 1}, {1, 0, 2}, {1, 1, 2}, {2, 0, 1}}

// spec holds the deviations of a job from the default.
type spec struct {
	body    string
	timeout string
	master  string         // address where the ranks meet; "": the first host
	absent  int            // number of ranks, counted from the last, that never start
	secrets map[int]string // secrets of ranks that do not have the common one, by rank
}

const testSecret = "the secret of this very test run"

func start(n *netns.Network, s spec) *job {
	n.Helper()
	self := must.Get(os.Executable())(n)
	if s.master == "" {
		s.master = n.Hosts[0].Four
	}
	j := &job{Network: n}
	for r, p := range places3[:len(places3)-s.absent] {
		secret := testSecret
		if other := s.secrets[r]; other != "" {
			secret = other
		}
		rank := &rankProcess{host: n.Hosts[p.host], cmd: n.Hosts[p.host].Command(self), ended: make(chan struct{})}
		rank.cmd.Stdout, rank.cmd.Stderr = &rank.out, &rank.out
		rank.cmd.Env = append(os.Environ(), hostBody+"="+s.body, hostTimeout+"="+s.timeout, "KERNBENCH_DIST_SECRET="+secret,
			"RANK="+strconv.Itoa(r), "WORLD_SIZE="+strconv.Itoa(len(places3)), "LOCAL_RANK="+strconv.Itoa(p.local),
			"LOCAL_WORLD_SIZE="+strconv.Itoa(p.locals),
			"MASTER_ADDR="+s.master, "MASTER_PORT=29455", "TORCHELASTIC_RUN_ID=test", "GORACE=atexit_sleep_ms=0")
		must.Do(n, rank.cmd.Start())
		n.Cleanup(func() { rank.cmd.Process.Kill(); <-rank.ended })
		go func() { rank.cmd.Wait(); close(rank.ended) }()
		j.ranks = append(j.ranks, rank)
	}
	return j
}

// hostGuard limits every wait, so that a hang fails the test. It is far longer than any wait of a
// correct run.
const hostGuard = 90 * time.Second

// ends waits until a rank has exited and checks that its output matches pattern.
func (j *job) ends(rank int, pattern string) {
	j.Helper()
	r := j.ranks[rank]
	select {
	case <-r.ended:
	case <-time.After(hostGuard):
		j.Fatalf("rank %d hangs; it printed: %s", rank, r.out.String())
	}
	if !regexp.MustCompile(pattern).MatchString(r.out.String()) {
		j.Errorf("rank %d printed %q, want a match of %q", rank, r.out.String(), pattern)
	}
}

// awaitRunning waits until all ranks have begun to make calls.
func (j *job) awaitRunning() {
	j.Helper()
	for limit := time.Now().Add(hostGuard); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		running := 0
		for _, r := range j.ranks {
			if strings.Contains(r.out.String(), "running") {
				running++
			}
		}
		if running == len(j.ranks) {
			return
		}
	}
	for i, r := range j.ranks {
		j.Errorf("rank %d printed %q", i, r.out.String())
	}
	j.Fatal("the ranks do not get going")
}

func threeHosts(t *testing.T) *netns.Network {
	t.Parallel()
	return netns.New(t, 3)
}

func TestHostsWork(t *testing.T) {
	j := start(threeHosts(t), spec{body: "work", timeout: "60s"})
	for r := range j.ranks {
		j.ends(r, "^well\n$")
	}
}

func TestHostsOverIPv6(t *testing.T) {
	n := threeHosts(t)
	for _, h := range n.Hosts {
		h.DropFour()
	}
	j := start(n, spec{body: "work", timeout: "60s", master: n.Hosts[0].Six})
	for r := range j.ranks {
		j.ends(r, "^well\n$")
	}
}

// A link that is cut during a collective must be noticed on both sides.
func TestHostsCutLink(t *testing.T) {
	j := start(threeHosts(t), spec{body: "sums", timeout: "20s"})
	j.awaitRunning()
	j.Hosts[2].Cut()
	for r := range 3 {
		j.ends(r, `peer error: rank 3 \(pid \d+, host kb2\) is unreachable`)
	}
	j.ends(3, `peer error: rank [012] \(pid \d+, host kb[01]\) is unreachable`)
}

// A slow link must not count as failed, even if a call takes longer than the timeout of a silent rank.
func TestHostsSlowLink(t *testing.T) {
	n := threeHosts(t)
	n.Hosts[1].Slow("12mbit")
	j := start(n, spec{body: "much", timeout: "5s"})
	for r := range j.ranks {
		j.ends(r, "^well\n$")
	}
}

func TestHostsReset(t *testing.T) {
	j := start(threeHosts(t), spec{body: "reset", timeout: "60s"})
	for _, r := range []int{0, 2, 3} {
		j.ends(r, `peer error: rank 1 \(pid \d+(, host kb1)?\) is dead`)
	}
}

func TestHostsKilledRank(t *testing.T) {
	j := start(threeHosts(t), spec{body: "sums", timeout: "60s"})
	j.awaitRunning()
	j.ranks[3].cmd.Process.Kill()
	for r := range 3 {
		j.ends(r, fmt.Sprintf(`peer error: rank 3 \(pid %d, host kb2\) is dead`, j.ranks[3].cmd.Process.Pid))
	}
}

func TestHostsStoppedRank(t *testing.T) {
	j := start(threeHosts(t), spec{body: "sums", timeout: "3s"})
	j.awaitRunning()
	pid := j.ranks[3].cmd.Process.Pid
	must.Do(t, syscall.Kill(pid, syscall.SIGSTOP))
	for r := range 3 {
		j.ends(r, fmt.Sprintf(`peer error: rank \d waited 3s for rank 3 \(pid %d, host kb2\) in allreduce`, pid))
	}
}

func TestHostsThatDoNotMeet(t *testing.T) {
	t.Run("never joins", func(t *testing.T) {
		j := start(threeHosts(t), spec{body: "work", timeout: "3s", absent: 1})
		for r := range j.ranks {
			j.ends(r, `meeting at 10.77.0.1:29456: .*missing: rank 3`)
		}
	})
	t.Run("nobody to meet", func(t *testing.T) {
		n := threeHosts(t)
		j := start(n, spec{body: "work", timeout: "3s", master: n.Hosts[2].Four, absent: 1})
		for _, r := range []int{1, 2} {
			j.ends(r, `meeting at 10.77.0.3:29456: dial tcp`)
		}
		j.ends(0, "cannot assign requested address")
	})
	t.Run("wrong secret", func(t *testing.T) {
		const other = "another secret than everybody else's"
		j := start(threeHosts(t), spec{body: "work", timeout: "4s", secrets: map[int]string{3: other}})
		j.ends(3, "the secrets differ")
		for r := range 3 {
			j.ends(r, `missing: rank 3; refused: 10.77.0.3: the secrets differ`)
		}
		for _, r := range j.ranks {
			if strings.Contains(r.out.String(), other) || strings.Contains(r.out.String(), testSecret) {
				t.Errorf("a secret was printed: %s", r.out.String())
			}
		}
	})
}
