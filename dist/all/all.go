// Package all registers every backend of this program when it is imported. A new
// backend is its package and a line here; nothing else names it.
package all

import (
	_ "github.com/kernbench/kernbench/dist/ahbm" // the simulated accelerator
	_ "github.com/kernbench/kernbench/dist/cpu"  // this host's processors
	_ "github.com/kernbench/kernbench/dist/cuda" // NVIDIA GPUs
	_ "github.com/kernbench/kernbench/dist/flat" // a simulated network
	_ "github.com/kernbench/kernbench/dist/mpi"  // Open MPI or MPICH
	_ "github.com/kernbench/kernbench/dist/nccl" // NVIDIA's NCCL
)
