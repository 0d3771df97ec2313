package dist_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
)

// spawner is the environment variable that makes the test program call Spawn instead of running tests.
const spawner = "DIST_TEST_SPAWN"

func TestMain(m *testing.M) {
	what := os.Getenv(spawner)
	if what == "" {
		os.Exit(m.Run())
	}
	err := dist.Spawn(context.Background(), 3, dist.Config{Backend: "cpu", Timeout: 20 * time.Second},
		func(_ context.Context, g *dist.Group) error {
			b := []int64{int64(g.Rank()), int64(os.Getppid())}
			if what == "fail" && g.Rank() == 1 {
				return errors.New("rank 1 does not like it")
			}
			if what == "fail" {
				time.Sleep(time.Minute) // killed when the other rank fails
			}
			if err := g.AllReduce(dist.Of(b), dist.Of(b), dist.Sum); err != nil {
				return err
			}
			if rank, set := os.LookupEnv("KERNBENCH_SPAWN_RANK"); set {
				return fmt.Errorf("programs that rank %d starts would take themselves for rank %s", g.Rank(), rank)
			}
			if b[0] != 3 || b[1] != 3*int64(os.Getppid()) {
				return fmt.Errorf("rank %d has %v", g.Rank(), b)
			}
			fmt.Printf("rank %d of %d\n", g.Rank(), g.Size())
			return nil
		})
	fmt.Println("parent:", err)
}

func spawned(t *testing.T, what string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), spawner+"="+what)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func TestSpawn(t *testing.T) {
	out := spawned(t, "work")
	for _, want := range []string{"rank 0 of 3\n", "rank 1 of 3\n", "rank 2 of 3\n", "parent: <nil>\n"} {
		if strings.Count(out, want) != 1 {
			t.Errorf("printed %q, want %q once", out, want)
		}
	}
	out = spawned(t, "fail")
	if want := "parent: rank 1: rank 1 does not like it\n"; out != want {
		t.Errorf("printed %q, want %q", out, want)
	}
}
