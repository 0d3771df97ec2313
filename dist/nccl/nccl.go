// Package nccl is the dist backend over NCCL, NVIDIA's library for collectives. The library is opened
// at run time. Importing the package enables the backend "nccl". The variable KERNBENCH_NCCL_LIB names
// another file to open. AMD's RCCL has the same functions, but has not been tried.
//
// A rank is a process. All ranks are on one host, each on its own GPU: rank r uses GPU r of the GPUs that
// its process sees. NCCL does not support ranks that share a GPU, so Join returns a
// dist.UnavailableError if there are fewer GPUs than ranks.
//
// Every operation is the NCCL call that a C program would make. NCCL chooses the algorithms, so there
// are none to name; its variables (NCCL_ALGO, NCCL_PROTO, NCCL_MIN_CTAS) have their usual effect.
// Operations that NCCL lacks are built as in nccl-tests: gather, scatter and all-to-all are grouped
// sends and receives, blocks of different lengths are grouped broadcasts or reductions, and a barrier
// is an all-reduce of one byte. NCCL averages by scaling every input before it adds. That equals the
// average of package dist only if the number of ranks is a power of two, so other groups do not offer
// dist.Avg.
//
// Alloc returns device memory, which the host cannot access directly: see Mirror and Update of
// dist.Buffer. Calls on host memory work too; the data is copied to the device and back.
//
// # Mistakes
//
// Before each call the ranks agree on it through shared memory, so a mistake is found before NCCL
// starts, and every rank gets the error that package dist promises. While NCCL works, the engine polls
// the communicator for errors and watches the other ranks. If a rank dies or does not start the call
// within Config.Timeout, or if NCCL fails, the communicator is aborted on every rank. The error names
// the rank or quotes NCCL.
package nccl

import (
	"context"
	"os"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/comm/nccl"
	"github.com/kernbench/kernbench/internal/dist/devicegroup"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

// Name is the backend's name.
const Name = "nccl"

func init() {
	dist.Register(dist.Description{
		Name: Name, Help: "NVIDIA's NCCL, one GPU per rank",
		Capabilities: capabilities(),
		Hints:        hints.Hints{Preferred: preferred},
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

// preferred reports whether NCCL is installed and each of several ranks can have its own GPU.
func preferred(ranks int) bool {
	if ranks < 2 || cuda.Count(os.LookupEnv) < ranks {
		return false
	}
	_, err := nccl.Open()
	return err == nil
}

type backend struct{}

// Join waits for the other ranks on this host and creates the communicator.
func (backend) Join(ctx context.Context, c dist.Config) (dist.Engine, error) {
	if err := devicegroup.CheckOneHost(ctx, c); err != nil {
		return nil, err
	}
	// Look for the library and the GPU first: if they are missing, they are missing for all ranks,
	// and none of them has to wait for the others to find out.
	lib, err := nccl.Open()
	if err != nil {
		return nil, err
	}
	gpu, err := devicegroup.OpenGPU(c.Rank)
	if err != nil {
		return nil, err
	}
	g, err := devicegroup.Join(ctx, c)
	if err != nil {
		return nil, err
	}
	g.GPU = gpu
	return join(&engine{Group: g, lib: lib})
}
