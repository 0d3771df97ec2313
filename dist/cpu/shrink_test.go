package cpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/survivors"
)

// mortal is a backend whose ranks can be killed while they shrink. The variable childDies lists the
// ranks and the moments.
const (
	mortal    = "cpu-mortal"
	childDies = "CPU_TEST_DIES" // such as "1 amid a call, 2 amid a call, 3 after voting"
)

func init() { dist.Register(dist.Description{Name: mortal}, mortalBackend{}) }

type mortalBackend struct{ backend }

type mortalEngine struct {
	dist.Engine
	base *engine
}

func (b mortalBackend) Join(ctx context.Context, c dist.Config) (dist.Engine, error) {
	e, err := b.backend.Join(ctx, c)
	if err != nil {
		return nil, err
	}
	if local, ok := e.(localEngine); ok {
		return mortalEngine{e, local.engine}, nil
	}
	return mortalEngine{e, e.(hostsEngine).engine}, nil
}

// dies reports whether rank is to be killed at the moment when.
func dies(rank int, when string) bool {
	return slices.Contains(strings.Split(os.Getenv(childDies), ", "), fmt.Sprintf("%d %s", rank, when))
}

func killSelf() {
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// Shrink runs only the first steps of the real Shrink if the rank is to be killed after them.
func (m mortalEngine) Shrink() (dist.Engine, []int, error) {
	e := m.base
	census := func() *census {
		return &census{e: e, voter: survivors.New(e.Rank(), e.Size()), ballots: make([]survivors.Ballot, e.Size()),
			texts: make([][]byte, e.Size())}
	}
	switch {
	case dies(e.Rank(), "on arrival"):
		census().publish()
		killSelf()
	case dies(e.Rank(), "once agreed"): // the group is agreed on, but this rank never joins it
		if err := census().vote(); err != nil {
			return nil, nil, err
		}
		killSelf()
	}
	return e.Shrink()
}

// shrink kills some ranks, and the others shrink the group and continue.
func shrink(g *dist.Group) error {
	b := dist.Of(make([]float32, 200_000))
	var err error
	for k := 0; err == nil; k++ {
		if k == 20 && dies(g.Rank(), "amid a call") {
			if _, err := g.Start(dist.Call{Op: dist.AllReduce, In: b, Out: b, Reduction: dist.Max}); err != nil {
				return err
			}
			killSelf()
		}
		err = g.AllReduce(b, b, dist.Max)
	}
	var peer *dist.PeerError
	if !errors.As(err, &peer) || !peer.Dead {
		return fmt.Errorf("want a dead rank's PeerError, got %w", err)
	}
	left, was, err := g.Shrink()
	if err != nil {
		return err
	}
	if err := g.Close(); err != nil { // the new group does not depend on the old one
		return err
	}
	mine, all := []int64{int64(was[left.Rank()])}, make([]int64, left.Size())
	if err := left.AllGather(dist.Of(all), dist.Of(mine)); err != nil {
		return err
	}
	if err := sums(left, 5); err != nil {
		return err
	}
	fmt.Printf("left %v of %v", all, was)
	return left.Close()
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

// Whichever ranks are killed at whatever moment, the survivors agree on the same new group and can use
// it.
func TestShrinkAfterKills(t *testing.T) {
	for _, c := range []struct {
		hosts string // "": one
		dies  string
		left  string // expected survivors, as ranks of the old group
		short bool
	}{
		{"", "1 amid a call", "[0 2 3]", true},
		{"", "0 amid a call, 2 amid a call", "[1 3]", false},
		{"", "3 amid a call, 0 on arrival", "[1 2]", false},
		{"", "3 amid a call, 1 once agreed", "[0 2]", true},
		{"aabc", "1 amid a call", "[0 2 3]", false},
		{"aabc", "2 amid a call, 3 amid a call", "[0 1]", false}, // the survivors are on one host
		{"aabb", "3 amid a call, 0 once agreed", "[1 2]", true},
		{"abcc", "1 amid a call, 0 on arrival, 2 once agreed", "[3]", false},
	} {
		t.Run(strings.TrimSpace(c.hosts+" "+c.dies), func(t *testing.T) {
			if testing.Short() && !c.short {
				t.Skip("one of each kind is enough for now")
			}
			outputs, _ := processes(t, "shrink", 4, childDies+"="+c.dies, childHosts+"="+c.hosts, childMeets+"="+t.TempDir())
			for r, s := range outputs {
				want := "killed"
				if strings.Contains(c.left, fmt.Sprint(r)) {
					want = fmt.Sprintf("left %s of %s", c.left, c.left)
				}
				if !strings.Contains(s, want) {
					t.Errorf("rank %d printed %q, want %q", r, s, want)
				}
			}
		})
	}
}

// A rank that calls Shrink too late is left out, and its own call returns an error. With two ranks on
// two hosts neither is a majority, so neither can leave out the other.
func TestShrinkWithoutOneThatIsLate(t *testing.T) {
	t.Parallel()
	for _, hosts := range []string{"aaa", "abc", "aa", "ab"} {
		t.Run(hosts, func(t *testing.T) {
			t.Parallel()
			err := shrinkWithoutRank1(hosts, 3*time.Second)
			if err != nil { // the timeout is short, so a busy machine may exceed it
				err = shrinkWithoutRank1(hosts, 40*time.Second)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func shrinkWithoutRank1(hosts string, limit time.Duration) error {
	gs, err := openHosts(hosts, limit)
	if err != nil {
		return err
	}
	defer closeAll(gs)
	const late = 1
	var outcome [3]error
	others := slices.Delete(slices.Clone(gs), late, late+1)
	onEach(others, func(g *dist.Group) error {
		left, was, err := g.Shrink()
		if err == nil {
			if slices.Contains(was, late) || len(was) != len(others) {
				err = fmt.Errorf("%v are left", was)
			}
			err = errors.Join(err, left.Barrier(), left.Close())
		}
		outcome[g.Rank()] = err
		return nil
	})
	err = errors.Join(outcome[:]...)
	if hosts == "ab" {
		if err == nil || !strings.Contains(err.Error(), "needs more than half") {
			return fmt.Errorf("one of two ranks, of which the other may live elsewhere, got %v", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	_, _, err = gs[late].Shrink()
	var peer *dist.PeerError
	if !errors.As(err, &peer) || peer.Rank != late || !strings.Contains(err.Error(), "is left out") {
		return fmt.Errorf("the late rank got %v, want to be left out", err)
	}
	return nil
}
