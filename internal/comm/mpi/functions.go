package mpi

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// names lists the functions that this package calls.
var names = []string{
	"MPI_Init_thread", "MPI_Finalize", "MPI_Error_string", "MPI_Comm_rank", "MPI_Comm_size", "MPI_Comm_group",
	"MPI_Comm_create_group", "MPI_Comm_split", "MPI_Comm_dup", "MPI_Comm_free", "MPI_Group_free",
	"MPI_Comm_set_errhandler", "MPI_Type_contiguous", "MPI_Type_commit", "MPI_Op_create", "MPI_Type_free",
	"MPI_Op_free", "MPI_Reduce_local", "MPI_Allreduce", "MPI_Reduce_scatter", "MPI_Reduce_scatter_block",
	"MPI_Allgather", "MPI_Allgatherv", "MPI_Bcast", "MPI_Reduce", "MPI_Gather", "MPI_Gatherv", "MPI_Scatter", "MPI_Scatterv",
	"MPI_Alltoall", "MPI_Alltoallv", "MPI_Barrier", "MPI_Iallreduce", "MPI_Isend",
	"MPI_Iprobe", "MPI_Recv", "MPI_Test", "MPI_Get_count",
}

// threadMultiple is MPI_THREAD_MULTIPLE: any thread may call at any time.
const threadMultiple = 3

// Init starts MPI for calls from any thread at any time. Errors are returned and do not end the
// process. The same thread should call Finalize.
//
//	int MPI_Init_thread(int *argc, char ***argv, int required, int provided)
func (l *Library) Init() error {
	defer keepSignals()()
	var provided int32
	if err := l.call("MPI_Init_thread", Arg{}, Arg{}, integer(threadMultiple), field(&provided)).Run(); err != nil {
		return err
	}
	if provided != threadMultiple {
		return fmt.Errorf("%v was built without MPI_THREAD_MULTIPLE: it provides thread level %d, want %d", l,
			provided, threadMultiple)
	}
	if err := l.returnErrors(l.World); err != nil {
		return err
	}
	return l.makeOps()
}

// Finalize ends MPI. It waits for all ranks.
func (l *Library) Finalize() error {
	l.freeOps()
	return l.call("MPI_Finalize").Run()
}

// returnErrors makes calls on a communicator return their errors.
//
//	int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler errhandler)
func (l *Library) returnErrors(c Comm) error {
	return l.call("MPI_Comm_set_errhandler", handle(c), handle(l.errorsReturn)).Run()
}

// RankSize returns this process's rank in a communicator and the communicator's size.
//
//	int MPI_Comm_rank(MPI_Comm comm, int *rank)
//	int MPI_Comm_size(MPI_Comm comm, int *size)
func (l *Library) RankSize(c Comm) (rank, size int, err error) {
	var r, n int32
	if err := l.call("MPI_Comm_rank", handle(c), field(&r)).Run(); err != nil {
		return 0, 0, err
	}
	err = l.call("MPI_Comm_size", handle(c), field(&n)).Run()
	return int(r), int(n), err
}

// Create creates a communicator of all ranks of another one. Unlike Dup, several may be in progress at
// once, each with its own tag.
//
//	int MPI_Comm_group(MPI_Comm comm, MPI_Group *group)
//	int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *newcomm)
//	int MPI_Group_free(MPI_Group *group)
func (l *Library) Create(c Comm, tag int) (Comm, error) {
	var group uintptr
	if err := l.call("MPI_Comm_group", handle(c), field(&group)).Run(); err != nil {
		return 0, err
	}
	defer l.call("MPI_Group_free", field(&group)).Run()
	created := new(Comm)
	return l.newComm(created, l.call("MPI_Comm_create_group", handle(c), handle(group), integer(tag), field(created)))
}

// Dup duplicates a communicator.
//
//	int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *newcomm)
func (l *Library) Dup(c Comm) (Comm, error) {
	created := new(Comm)
	return l.newComm(created, l.call("MPI_Comm_dup", handle(c), field(created)))
}

// Split creates a communicator for the ranks of each color, ordered by key. With a negative color the
// result must not be used.
//
//	int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *newcomm)
func (l *Library) Split(c Comm, color, key int) (Comm, error) {
	created := new(Comm)
	if color < 0 {
		return 0, l.call("MPI_Comm_split", handle(c), integer(undefined), integer(key), field(created)).Run()
	}
	return l.newComm(created, l.call("MPI_Comm_split", handle(c), integer(color), integer(key), field(created)))
}

// newComm runs a call that creates the communicator *c, and makes calls on that return their errors.
func (l *Library) newComm(c *Comm, by *Call) (Comm, error) {
	if err := by.Run(); err != nil {
		return 0, err
	}
	return *c, l.returnErrors(*c)
}

// Free releases a communicator. In both libraries this is a local operation.
//
//	int MPI_Comm_free(MPI_Comm *comm)
func (l *Library) Free(c Comm) error {
	return l.call("MPI_Comm_free", field(&c)).Run()
}

// ReducesInPlace reports whether Reduce supports InPlace at a root. MPICH 4.0 reads from that address
// unless the root is rank 0.
func (l *Library) ReducesInPlace(root int) bool { return l.Family != MPICH || root == 0 }

// Type returns MPI's type for an element type.
func (l *Library) Type(d dtype.DType) Datatype { return l.types[d] }

// Op returns the operation that combines elements of a type: MPI's, or one that Init has created.
func (l *Library) Op(d dtype.DType, op vec.Op) Op {
	if made, ok := l.ownOps[combination{d, op}]; ok {
		return made
	}
	return l.ops[op]
}

// MostElements is the largest count that MPI's functions accept.
const MostElements = math.MaxInt32
