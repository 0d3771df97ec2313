// Package devicegroup is what the backends for GPUs have in common. Their ranks are processes of one host, which agree
// on their calls through shared memory, and each works on a GPU. The backends differ in what moves the data.
package devicegroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

// Group is one rank's membership in a group. Engines embed it.
type Group struct {
	Checker *shm.CallChecker
	GPU     *cuda.Context
	Timeout time.Duration
}

// Join waits for the other ranks. The group has no GPU yet.
func Join(ctx context.Context, c dist.Config) (Group, error) {
	a, err := shm.JoinCallChecker(ctx, shm.Identity{
		ID: c.ID + "/" + c.Backend, Secret: c.Secret, Rank: c.Rank, Size: c.Size, Timeout: c.Timeout})
	return Group{Checker: a, Timeout: c.Timeout}, err
}

// CheckOneHost returns a dist.UnavailableError if the ranks are on several hosts. All ranks get it.
func CheckOneHost(ctx context.Context, c dist.Config) error {
	if c.Exchange == nil {
		return nil
	}
	machine, err := tcp.Machine()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	hosts, err := c.Exchange(ctx, []byte(machine+" "+c.Host))
	if err != nil {
		return fmt.Errorf("finding the other ranks: %w", err)
	}
	for rank, host := range hosts {
		if string(host) != string(hosts[0]) {
			return &dist.UnavailableError{Err: fmt.Errorf("ranks 0 and %d are on different hosts: backend %s needs all "+
				"ranks on one host", rank, c.Backend)}
		}
	}
	return nil
}

// Classify returns a dist.UnavailableError if err says that the machine has no GPU. Other errors of the driver mean
// that it does not work, and are returned unchanged.
func Classify(err error) error {
	if cuda.Code(err) == cuda.CodeNoDevice || errors.Is(err, cuda.ErrNoGPU) {
		return &dist.UnavailableError{Err: err}
	}
	return err
}

// OpenGPU opens the GPU of a rank, one of the GPUs that this process sees.
func OpenGPU(rank int) (*cuda.Context, error) {
	c, err := cuda.OpenGPU(rank)
	return c, Classify(err)
}

// Rank returns the number of this rank in the group. Size returns the number of ranks.
func (g *Group) Rank() int { return g.Checker.Rank() }
func (g *Group) Size() int { return g.Checker.Size() }

// Observe reads the GPU's clocks, power and temperature.
func (g *Group) Observe() (string, error) { return g.GPU.Device().Observe() }

// Refuse fails the group because this rank cannot make its call.
func (g *Group) Refuse(reason error) (first bool) { return g.Checker.RefuseCall(reason) }

// Share tells all ranks whether this one has failed, and returns an error if any has: its own, or one that names the
// rank and says what it lacks.
func (g *Group) Share(what string, failed error, lacks string) error {
	ok := []byte{1}
	if failed != nil {
		ok[0] = 0
	}
	all, err := g.Checker.AllGather(what, ok)
	if err != nil {
		return errors.Join(failed, err)
	}
	for rank, ok := range all {
		if failed == nil && ok[0] == 0 {
			failed = fmt.Errorf("rank %d %s", rank, lacks)
		}
	}
	return failed
}

// Pace is how the host waits for a GPU: it polls for some ten milliseconds, and then sleeps between polls.
var Pace = shm.Poll{Spins: 20_000, Sleep: 20 * time.Microsecond, Every: 256}

// closeGrace is how long AwaitOthers waits.
const closeGrace = time.Second

// AwaitOthers returns once the ranks of other processes have left the group, which this rank has left, or the grace
// period is over. Until then they may use resources of this rank.
func (g *Group) AwaitOthers() {
	for begin := time.Now(); time.Since(begin) < closeGrace && !g.Checker.Alone(); {
		time.Sleep(time.Millisecond)
	}
}

// Release calls free with the GPU's context. Errors that follow from a failure of the group are not reported again.
func (g *Group) Release(free func() error) error {
	if err := g.GPU.Do(free); err != nil && !cuda.Sticky(err) && !g.Checker.Failed() {
		return err
	}
	return nil
}
