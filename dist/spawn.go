package dist

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Environment variables that tell a child which rank it is.
const (
	spawnRank = "KERNBENCH_SPAWN_RANK"
	spawnID   = "KERNBENCH_SPAWN_ID"
	spawnFD   = 3 // the descriptor to which a child writes its error
)

// Spawn runs fn on n ranks, each in a process of its own. It starts the running program n times with the same arguments
// and waits for all of them. Each child runs the program from its beginning up to the same call of Spawn. There it
// joins a new group as a rank, calls fn and exits. Code before Spawn therefore also runs in every child, and code after
// it only in the parent. A program calls Spawn once.
//
// Spawn takes Backend, Timeout and Tuning from c and fills in the other fields. When a rank fails, Spawn kills the
// others and returns the error of the first rank to fail. Children never outlive the parent.
func Spawn(ctx context.Context, n int, c Config, fn func(ctx context.Context, g *Group) error) error {
	if rank, ok := os.LookupEnv(spawnRank); ok {
		os.Exit(becomeRank(ctx, rank, n, c, fn))
	}
	if n < 1 {
		return fmt.Errorf("spawning %d ranks: want at least 1", n)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("spawning %d ranks: %w", n, err)
	}
	id := rand.Text()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var ranks sync.WaitGroup
	for rank := range n {
		ranks.Go(func() {
			if err := runChild(ctx, program, rank, id); err != nil {
				cancel(fmt.Errorf("rank %d: %w", rank, err)) // later causes are ignored
			}
		})
	}
	ranks.Wait()
	return context.Cause(ctx)
}

// becomeRank runs fn in a child process, which has reached Spawn, and returns the exit code.
func becomeRank(ctx context.Context, rank string, n int, c Config, fn func(context.Context, *Group) error) (code int) {
	err := func() error {
		id := os.Getenv(spawnID)
		os.Unsetenv(spawnRank) // programs that fn starts may call Spawn too
		os.Unsetenv(spawnID)
		number, err := strconv.Atoi(rank)
		if err != nil {
			return fmt.Errorf("%s is %q: %w", spawnRank, rank, err)
		}
		c.Rank, c.Size = number, n
		c.ID, c.Secret = id, id
		g, err := Init(ctx, c)
		if err != nil {
			return err
		}
		return errors.Join(fn(ctx, g), g.Close(), End())
	}()
	if err == nil {
		return 0
	}
	io.WriteString(os.NewFile(spawnFD, "error"), err.Error())
	return 1
}

// runChild runs one child. It locks its thread for the life of the child, because the kernel kills the child when the
// thread that started it ends.
func runChild(ctx context.Context, program string, rank int, id string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	cmd := exec.CommandContext(ctx, program, os.Args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), spawnRank+"="+strconv.Itoa(rank), spawnID+"="+id)
	cmd.ExtraFiles = []*os.File{write}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	err = cmd.Start()
	write.Close()
	if err != nil {
		return err
	}
	text := make(chan string, 1)
	go func() {
		output, _ := io.ReadAll(io.LimitReader(read, 1<<16))
		text <- string(output)
	}()
	err = cmd.Wait()
	if err == nil {
		return nil
	}
	read.SetReadDeadline(time.Now().Add(time.Second)) // a grandchild may hold the other end of the pipe
	if message := strings.TrimSpace(<-text); message != "" {
		return errors.New(message)
	}
	return err
}
