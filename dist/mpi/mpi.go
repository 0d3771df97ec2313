// Package mpi is the dist backend over an MPI library: Open MPI or MPICH, opened
// at run time, whichever the process's launcher belongs to (mpirun, mpiexec, or
// srun with either's plug-in). Importing it enables the backend "mpi". The variable
// KERNBENCH_MPI_LIB names another file to open; a library that is neither of
// the two is refused with what it calls itself.
//
//	mpirun -n 4 program   // in which every rank joins with its rank and size
//
// A process is one rank of MPI's world, and a group has all of them; Split makes
// smaller ones. MPI starts at the first Join and, because it cannot start
// twice, ends only when the program says so, before it ends itself: see
// dist.End. A launcher takes a rank that just exits for a failure.
//
// Every operation is the MPI call that a C program would make, on the caller's
// memory, so MPI chooses the algorithms and there are none to name. Blocks that
// do not divide go to the calls for unequal ones. The 16-bit floats, which MPI
// lacks, are combined by a function of ours, in float32 and rounded at every
// step. Alloc gives ordinary memory: nothing is shared that MPI does not share.
// Counts above 2^31-1 are an error.
//
// # Mistakes
//
// MPI itself may hang, or add up what does not belong together, when ranks do not
// make the same call. So before each collective the ranks agree on it, and only
// then enter MPI's own: a mistake is found beforehand, and is the error that
// package dist promises, on every rank. On one host they agree through shared
// memory (package shm), for some tenths of a microsecond. Across hosts
// they do so by MPI messages, which costs about one small all-reduce more.
//
// Sends and receives are checked by what the message itself says. Waiting ends
// with Config.Timeout and when a peer leaves, or dies on the same host. What has
// no limit is MPI's own collective once all ranks have agreed on it: a rank that
// stops right there stops the others, until the launcher ends the job.
package mpi

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/comm/hints"
)

// Name is the backend's name.
const Name = "mpi"

func init() {
	dist.Register(dist.Description{
		Name: Name, Help: "Open MPI or MPICH, by the calls that a C program makes",
		Capabilities: capabilities(),
		Hints: hints.Hints{Network: true,
			Launcher: &hints.Launcher{Kind: "MPI", Command: "mpirun", Install: "Debian: openmpi-bin, or mpich"},
			NoShrink: "the installed MPI ends the whole job when the first rank dies"},
	}, backend{})
}

type backend struct{}

// Join meets the other ranks of MPI's world.
func (backend) Join(ctx context.Context, c dist.Config) (dist.Engine, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	p, err := world(ctx)
	if err != nil {
		return nil, err
	}
	if c.Rank != p.rank || c.Size != p.size {
		return nil, fmt.Errorf("this process is rank %d of %d in the world of %v: groups have all of its ranks, each with "+
			"its number there"+
			" (a world of 1 is that of a process that %s's launcher did not start)", p.rank, p.size, p.lib, p.lib.Family)
	}
	m := meeting{id: c.ID, secret: c.Secret, rank: c.Rank, timeout: c.Timeout, hosts: p.hosts,
		world: lists.Range[int](c.Size)}
	// No rank may enter a call of MPI that others do not make: first they meet.
	var b coordinator
	if m.oneHost() {
		b, err = meetLocal(ctx, m)
	} else {
		err = p.meetRemote(ctx, m)
	}
	if err != nil {
		return nil, err
	}
	return p.newEngine(m, b, func() (comm, error) { return p.lib.Create(p.lib.World, tagOf(c.ID)) })
}

// Close finalizes MPI in this process.
func (backend) Close() error { return endWorld() }

// tagOf gives groups that are joined at the same time different tags, within
// what MPI guarantees.
func tagOf(id string) int {
	h := fnv.New32a()
	h.Write([]byte(id))
	return int(h.Sum32() & 0x7fff)
}
