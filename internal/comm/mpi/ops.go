package mpi

import (
	"encoding/binary"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// combination identifies an operation on elements of a type.
type combination struct {
	dtype dtype.DType
	op    vec.Op
}

// makeOps creates the types and operations that MPI lacks, and operations that replace wrong ones of the library.
func (l *Library) makeOps() error {
	l.ownOps = map[combination]Op{}
	if err := l.makeHalves(); err != nil {
		return err
	}
	signed, err := l.comparesBytesSigned()
	if err != nil || !signed {
		return err
	}
	l.SignedBytes = true
	return l.makeOp(dtype.U8, vec.Min, vec.Max)
}

// makeHalves adds the 16-bit floats to MPI: a two-byte type for each, and operations that combine two
// vectors in float32 and round at every step of the algorithm that MPI chooses.
//
//	int MPI_Type_contiguous(int count, MPI_Datatype oldtype, MPI_Datatype *newtype)
//	int MPI_Type_commit(MPI_Datatype *datatype)
func (l *Library) makeHalves() error {
	for _, d := range []dtype.DType{dtype.F16, dtype.BF16} {
		var t Datatype
		if err := l.call("MPI_Type_contiguous", integer(2), handle(l.bytes), field(&t)).Run(); err != nil {
			return err
		}
		if err := l.call("MPI_Type_commit", field(&t)).Run(); err != nil {
			return err
		}
		l.types[d] = t
		l.ownTypes = append(l.ownTypes, d)
		if err := l.makeOp(d, vec.Sum, vec.Prod, vec.Min, vec.Max); err != nil {
			return err
		}
	}
	return nil
}

// makeOp creates operations on elements of a type, with kernbench's own kernels.
//
//	int MPI_Op_create(MPI_User_function *user_fn, int commute, MPI_Op *op)
func (l *Library) makeOp(d dtype.DType, ops ...vec.Op) error {
	for _, op := range ops {
		var created Op
		if err := l.call("MPI_Op_create", handle(combiner(d, op)), integer(1), field(&created)).Run(); err != nil {
			return err
		}
		l.ownOps[combination{d, op}] = created
	}
	return nil
}

// comparesBytesSigned reports whether the library compares unsigned bytes as if they had a sign. MPICH 4.0.2 does: its
// maximum of 1 and 255 is 1.
//
//	int MPI_Reduce_local(const void *inbuf, void *inoutbuf, int count, MPI_Datatype datatype, MPI_Op op)
func (l *Library) comparesBytesSigned() (bool, error) {
	small, large := []byte{1}, []byte{255}
	err := l.call("MPI_Reduce_local", Memory(small), Memory(large), integer(1), handle(l.types[dtype.U8]),
		handle(l.ops[vec.Max])).Run()
	return large[0] != 255, err
}

// freeOps releases what makeOps created, as some libraries require before MPI_Finalize.
//
//	int MPI_Type_free(MPI_Datatype *datatype)
//	int MPI_Op_free(MPI_Op *op)
func (l *Library) freeOps() {
	for _, op := range l.ownOps {
		_ = l.call("MPI_Op_free", field(&op)).Run()
	}
	for _, d := range l.ownTypes {
		t := l.types[d]
		_ = l.call("MPI_Type_free", field(&t)).Run()
		delete(l.types, d)
	}
	l.ownOps, l.ownTypes = nil, nil
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
