package mpi

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
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/mpi"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// The test program starts itself again under a launcher. bodyVar names the bodies that the ranks run,
// one after the other.
const (
	bodyVar = "MPI_TEST_BODY"
	argVar  = "MPI_TEST_ARG"
)

// bodies are the functions that ranks run. Their errors list what is wrong, one fault per line.
var bodies = map[string]func(rank *rank) error{}

// rank is one process of a test.
type rank struct {
	*process
	groups int
}

func TestMain(m *testing.M) {
	body := os.Getenv(bodyVar)
	if body == "" {
		os.Exit(m.Run())
	}
	if err := beRank(body); err != nil {
		fmt.Fprintf(os.Stderr, "FAULT %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func beRank(body string) error {
	ctx, cancel := context.WithTimeout(context.Background(), hangs)
	defer cancel()
	p, err := startWorld(ctx)
	if err != nil {
		return err
	}
	r := &rank{process: p}
	var faults []error
	names := strings.Split(body, ",")
	for _, name := range names {
		if err := bodies[name](r); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
		if len(names) > 1 {
			faults = append(faults, r.meet())
			if r.rank == 0 {
				fmt.Println("DONE", name)
			}
		}
	}
	return errors.Join(append(faults, dist.End())...)
}

// join returns a group of all ranks, with a new name every time.
func (r *rank) join(timeout time.Duration) (*dist.Group, error) {
	return r.joinBy(Name, timeout)
}

func (r *rank) joinBy(backend string, timeout time.Duration) (*dist.Group, error) {
	r.groups++
	return dist.Init(context.Background(), dist.Config{Backend: backend, Rank: r.rank, Size: r.size, Timeout: timeout,
		ID: fmt.Sprintf("mpi-test-%d-%d", os.Getppid(), r.groups), Secret: "s"})
}

// meet waits for the other processes without using a group. Unlike MPI's own barrier, it leaves the
// cores to working processes.
func (r *rank) meet() error {
	in, out, slot := make([]int32, 1), make([]int32, 1), new(mpi.Slot)
	err := r.lib.Iallreduce(mpi.Memory(in), mpi.Memory(out), 1, r.lib.Type(dtype.I32), r.lib.Op(dtype.I32, vec.Max),
		r.bootstrap, slot).Run()
	test := r.lib.Test(slot)
	if err != nil {
		return err
	}
	return poll(test, slot, func(err error) error { return err }, func(time.Duration) error { return nil })
}

// launcher starts ranks with one of the MPI libraries.
type launcher struct {
	family   mpi.Family
	programs []string // candidates; the first that is installed is used
	flags    []string
	yields   bool // its library yields the core if ranks share cores
}

var launchers = []launcher{
	{mpi.OpenMPI, []string{"mpirun.openmpi", "mpirun"},
		[]string{"--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np"}, true},
	{mpi.MPICH, []string{"mpiexec.hydra", "mpiexec.mpich"}, []string{"-n"}, false},
}

// command returns the command that starts ranks of this test program. A missing launcher fails the
// test, because no other test shows that the backend works.
func (l launcher) command(t *testing.T, ctx context.Context, ranks int, env ...string) *exec.Cmd {
	t.Helper()
	for _, name := range l.programs {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		args := append(append([]string{}, l.flags...), fmt.Sprint(ranks), os.Args[0])
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Env = append(os.Environ(), append(env, "OMPI_MCA_orte_tmpdir_base="+sessionDir(t))...)
		cmd.WaitDelay = 5 * time.Second
		return cmd
	}
	t.Fatalf("no launcher of %s is installed (looked for %s): run scripts/deps.sh", l.family,
		strings.Join(l.programs, ", "))
	return nil
}

// sessionDir returns a folder for the session files of one mpirun. By default all mpiruns of a user share one, and
// Open MPI 4.1 fails with "File exists" if one creates it just when another removes it. The folder is not made with
// t.TempDir, which fails the test if a daemon of a killed job still writes there while it is removed.
func sessionDir(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "mpi"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// hangs is longer than any test takes, even on a busy machine.
const hangs = 5 * time.Minute

// ranks runs bodies and returns their output.
func (l launcher) ranks(t *testing.T, n int, body string, env ...string) (string, error) {
	t.Helper()
	return l.start(t, n, body, env...)()
}

// start runs bodies concurrently with others, for bodies that mostly wait.
func (l launcher) start(t *testing.T, n int, body string, env ...string) (wait func() (string, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	cmd := l.command(t, ctx, n, append(env, bodyVar+"="+body)...)
	var out []byte
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		if out, err = cmd.CombinedOutput(); ctx.Err() != nil {
			err = fmt.Errorf("hangs: %w", ctx.Err())
		}
	}()
	return func() (string, error) {
		<-done
		return string(out), err
	}
}
