package mpi

import (
	"encoding/binary"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// half identifies a reduction of 16-bit floats.
type half struct {
	dtype dtype.DType
	op    vec.Op
}

// makeHalves adds the 16-bit floats to MPI: a two-byte type for each, and functions that combine two
// vectors in float32 and round at every step of the algorithm that MPI chooses.
//
//	int MPI_Type_contiguous(int count, MPI_Datatype oldtype, MPI_Datatype *newtype)
//	int MPI_Type_commit(MPI_Datatype *datatype)
//	int MPI_Op_create(MPI_User_function *user_fn, int commute, MPI_Op *op)
func (l *Library) makeHalves() error {
	l.halves = map[half]Op{}
	for _, d := range []dtype.DType{dtype.F16, dtype.BF16} {
		var t Datatype
		if err := l.call("MPI_Type_contiguous", integer(2), handle(l.bytes), field(&t)).Run(); err != nil {
			return err
		}
		if err := l.call("MPI_Type_commit", field(&t)).Run(); err != nil {
			return err
		}
		l.types[d] = t
		for _, op := range []vec.Op{vec.Sum, vec.Prod, vec.Min, vec.Max} {
			var made Op
			if err := l.call("MPI_Op_create", handle(combiner(d, op)), integer(1), field(&made)).Run(); err != nil {
				return err
			}
			l.halves[half{d, op}] = made
		}
	}
	return nil
}

// freeHalves releases what makeHalves created, as some libraries require before MPI_Finalize.
//
//	int MPI_Type_free(MPI_Datatype *datatype)
//	int MPI_Op_free(MPI_Op *op)
func (l *Library) freeHalves() {
	for made, op := range l.halves {
		_ = l.call("MPI_Op_free", field(&op)).Run()
		if t, ok := l.types[made.dtype]; ok {
			_ = l.call("MPI_Type_free", field(&t)).Run()
			delete(l.types, made.dtype)
		}
	}
	l.halves = nil
}

// combiner returns a reduction function for MPI:
//
//	typedef void MPI_User_function(void *invec, void *inoutvec, int *len, MPI_Datatype *datatype)
func combiner(d dtype.DType, op vec.Op) dynlib.Func {
	kernel := vec.Lookup(d, op)
	return dynlib.Callback(func(in, inout, count, _ uintptr) {
		n := d.Size() * int(binary.NativeEndian.Uint32(dynlib.Bytes(count, 4)))
		to := dynlib.Bytes(inout, n)
		kernel.Reduce(to, [][]byte{dynlib.Bytes(in, n), to})
	})
}
