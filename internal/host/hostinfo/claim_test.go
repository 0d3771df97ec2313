package hostinfo

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// childName is the environment variable that makes the test binary a child process: it claims
// the given name, prints the result, and holds the claim until its input ends.
const childName = "HOSTINFO_TEST_CLAIM"

func TestMain(m *testing.M) {
	if name := os.Getenv(childName); name != "" {
		os.Exit(claimAndWait(name))
	}
	os.Exit(m.Run())
}

func claimAndWait(name string) int {
	claim, err := Claim(name)
	if taken := (*TakenError)(nil); errors.As(err, &taken) {
		fmt.Println("taken by", taken.PID)
		return 0
	}
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println("held")
	io.Copy(io.Discard, os.Stdin)
	fmt.Println("others", claim.Others())
	claim.Close()
	return 0
}

// uniqueName returns a name that no other test uses at the same time.
func uniqueName(t *testing.T) string {
	return fmt.Sprintf("@kernbench-test-%d-%s", os.Getpid(), t.Name())
}

type child struct {
	*exec.Cmd
	in  io.Closer
	out *bufio.Scanner
}

func startChild(t *testing.T, name string) child {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childName+"="+name)
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	return child{cmd, in, bufio.NewScanner(out)}
}

func (c child) line() string {
	c.out.Scan()
	return c.out.Text()
}

func mustClaim(t *testing.T, name string) *Measuring {
	t.Helper()
	claim := must.Get(Claim(name))(t)
	t.Cleanup(func() { claim.Close() })
	return claim
}

func wantTaken(t *testing.T, name string, pid int) {
	t.Helper()
	claim, err := Claim(name)
	if err == nil {
		claim.Close()
		t.Fatal("the claim was given twice")
	}
	taken := (*TakenError)(nil)
	if !errors.As(err, &taken) || taken.PID != pid {
		t.Fatalf("got %v, want it taken by %d", err, pid)
	}
}

func TestClaimTwiceInOneProcess(t *testing.T) {
	name := uniqueName(t)
	claim := mustClaim(t, name)
	if others := claim.Others(); len(others) != 0 {
		t.Fatalf("others before any came: %v", others)
	}
	wantTaken(t, name, os.Getpid())
	wantTaken(t, name, os.Getpid()) // recorded once, although it tries twice
	if others := claim.Others(); !slices.Equal(others, []int{os.Getpid()}) {
		t.Errorf("others %v, want this process once", others)
	}
	if err := claim.Close(); err != nil {
		t.Errorf("releasing: %v", err)
	}
	if others := claim.Others(); len(others) != 1 {
		t.Errorf("others %v after the release", others)
	}
	mustClaim(t, name) // free again
}

// TestChildComesSecond checks that the holder and the second process learn each other's process ID.
func TestChildComesSecond(t *testing.T) {
	name := uniqueName(t)
	claim := mustClaim(t, name)
	second := startChild(t, name)
	if got, want := second.line(), fmt.Sprint("taken by ", os.Getpid()); got != want {
		t.Errorf("the child says %q, want %q", got, want)
	}
	must.Do(t, second.Wait())
	if others := claim.Others(); !slices.Equal(others, []int{second.Process.Pid}) {
		t.Errorf("others %v, want %d", others, second.Process.Pid)
	}
}

func TestChildHolds(t *testing.T) {
	name := uniqueName(t)
	holder := startChild(t, name)
	if got := holder.line(); got != "held" {
		t.Fatalf("the child says %q", got)
	}
	wantTaken(t, name, holder.Process.Pid)
	holder.in.Close()
	if got, want := holder.line(), fmt.Sprintf("others [%d]", os.Getpid()); got != want {
		t.Errorf("the child says %q, want %q", got, want)
	}
	must.Do(t, holder.Wait())
	mustClaim(t, name)
}

func TestKilledHolderLeavesNothing(t *testing.T) {
	name := uniqueName(t)
	holder := startChild(t, name)
	if got := holder.line(); got != "held" {
		t.Fatalf("the child says %q", got)
	}
	must.Do(t, holder.Process.Kill())
	holder.Wait() // an error, as it was killed
	mustClaim(t, name)
}

// TestManyAtOnce checks that exactly one of many callers gets the claim, and that it records the others.
func TestManyAtOnce(t *testing.T) {
	name := uniqueName(t)
	var group sync.WaitGroup
	claims := make([]*Measuring, 16)
	errs := make([]error, len(claims))
	for i := range claims {
		group.Go(func() { claims[i], errs[i] = Claim(name) })
	}
	group.Wait()
	var held []*Measuring
	for i, claim := range claims {
		taken := (*TakenError)(nil)
		switch {
		case errs[i] == nil:
			held = append(held, claim)
		case !errors.As(errs[i], &taken) || taken.PID != os.Getpid():
			t.Errorf("claim %d: %v", i, errs[i])
		}
	}
	if len(held) != 1 {
		t.Fatalf("%d of %d hold the claim", len(held), len(claims))
	}
	if others := held[0].Others(); !slices.Equal(others, []int{os.Getpid()}) {
		t.Errorf("others %v", others)
	}
	held[0].Close()
}

// TestSilentHolder checks that a holder that does not answer, for example because it is stopped, keeps the claim.
func TestSilentHolder(t *testing.T) {
	name := uniqueName(t)
	silent := must.Get(net.Listen("unix", name))(t)
	defer silent.Close()
	wantTaken(t, name, os.Getpid())
}

func TestClaimErrors(t *testing.T) {
	if _, err := Claim("@" + strings.Repeat("x", 200)); err == nil ||
		!strings.Contains(err.Error(), "claiming this host") {
		t.Errorf("a name longer than an address: %v", err)
	}
	if got := (&TakenError{PID: 12}).Error(); !strings.Contains(got, "process 12") {
		t.Errorf("%q does not name the process", got)
	}
	if got := (&TakenError{}).Error(); strings.Contains(got, "0") {
		t.Errorf("%q names a process nobody saw", got)
	}
}
