// Package nccl is the dist backend over NCCL, NVIDIA's library for collectives,
// opened at run time. Importing it enables the backend "nccl". The variable
// KERNBENCH_NCCL_LIB names another file to open; RCCL, which has the same
// functions, was not tried.
//
// A rank is a process, and all ranks are on one host, each on a GPU of its own: rank r
// has GPU r of those that its process sees. NCCL refuses ranks that share a GPU, so
// with fewer GPUs than ranks a group is refused beforehand, as a dist.UnavailableError.
//
// Every operation is the NCCL call that a C program would make. NCCL chooses the
// algorithms, so there are none to name; its variables (NCCL_ALGO, NCCL_PROTO,
// NCCL_MIN_CTAS) work as everywhere. What it has no call for is made as its own tests
// make it: gather, scatter and all-to-all are grouped sends and receives, blocks that
// do not divide grouped broadcasts or reductions, a barrier is an all-reduce of one
// byte. NCCL averages by scaling every input first, which is the average that package
// dist defines only where the number of ranks is a power of two: others have none.
//
// Alloc gives device memory, which the host cannot reach: see dist.Buffer's Mirror and
// Update. Calls on the program's own memory work too; they are copied to the device and
// back.
//
// # Mistakes
//
// Before each call the ranks agree on it through shared memory, so a mistake is found
// beforehand and is the error that package dist promises, on every rank. While NCCL
// works, its communicator is asked for errors and the others are watched: when a rank
// dies, does not come within Config.Timeout or NCCL fails, the communicator is aborted
// on every rank, and the error names the rank or has NCCL's own words.
package nccl

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/comm/nccl"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

// Name is the backend's name.
const Name = "nccl"

func init() {
	dist.Register(dist.Description{
		Name: Name, Help: "NVIDIA's NCCL, one GPU per rank",
		Capabilities: capabilities(),
		Hints: hints.Hints{Preferred: preferred,
			NoShrink: "an error aborts its communicator on every rank; close the group and join a new one with Init"},
	}, backend{})
}

func capabilities() dist.Capabilities {
	return dist.Capabilities{
		Ops: []dist.Collective{dist.AllReduce, dist.ReduceScatter, dist.AllGather, dist.Broadcast, dist.Reduce,
			dist.Gather, dist.Scatter, dist.AllToAll, dist.Barrier},
		DTypes: dtype.All(), Reductions: dtype.Reductions(),
		Features: []dist.Feature{dist.SymmetricMemory, dist.OnDevice},
	}
}

// preferred tells whether there is a GPU for each of several ranks, and NCCL.
func preferred(ranks int) bool {
	if ranks < 2 || cuda.Count(os.LookupEnv) < ranks {
		return false
	}
	_, err := nccl.Open()
	return err == nil
}

type backend struct{}

// Join meets the other ranks on this host and makes the communicator.
func (backend) Join(ctx context.Context, c dist.Config) (dist.Engine, error) {
	if err := oneHost(ctx, c); err != nil {
		return nil, err
	}
	// What is missing here is missing for all, who need not meet to learn it.
	lib, err := nccl.Open()
	if err != nil {
		return nil, err
	}
	device, err := deviceOf(c.Rank)
	if err != nil {
		return nil, err
	}
	a, err := shm.JoinCallChecker(ctx, shm.Identity{
		ID: c.ID + "/" + Name, Secret: c.Secret, Rank: c.Rank, Size: c.Size, Timeout: c.Timeout})
	if err != nil {
		return nil, err
	}
	return join(&engine{lib: lib, device: device, agreement: a, timeout: c.Timeout})
}

// oneHost refuses ranks of several hosts.
func oneHost(ctx context.Context, c dist.Config) error {
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
			return &dist.UnavailableError{Err: fmt.Errorf("ranks 0 and %d are on different hosts: backend %s is for ranks "+
				"of one host", rank, Name)}
		}
	}
	return nil
}

// deviceOf is the GPU of a rank, of those that this process may use.
func deviceOf(rank int) (*cuda.Context, error) {
	driver, err := cuda.Open()
	if cuda.Code(err) == cuda.CodeNoDevice {
		return nil, &dist.UnavailableError{Err: err}
	}
	if err != nil {
		return nil, err
	}
	list, err := driver.Devices()
	if err == nil && len(list) == 0 {
		err = &dist.UnavailableError{Err: errors.New("there is no GPU for this process")}
	}
	if err != nil {
		return nil, err
	}
	return contextOf(list[rank%len(list)])
}
