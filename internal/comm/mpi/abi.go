package mpi

import (
	"errors"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// Handles identify communicators, types and operations: the address of an object in Open MPI, a 32-bit
// number in MPICH. Memory for a handle that a function writes has 8 zeroed bytes, so that both can be
// read the same way.
type (
	Comm     uintptr
	Datatype uintptr
	Op       uintptr
)

// constants are the values of mpi.h in one family.
type constants struct {
	World        Comm
	InPlace      Arg     // replaces a buffer's address
	errorsReturn uintptr // the error handler MPI_ERRORS_RETURN
	types        map[dtype.DType]Datatype
	ops          map[vec.Op]Op
	bytes        Datatype
	anySource    int32
	statusTag    int // index of MPI_TAG in the status
	statusSource int
}

// anyTag and undefined are the same in both families.
const (
	anyTag    = -1
	undefined = -32766
)

func constantsOf(f Family, symbol func(string) (uintptr, error)) (constants, error) {
	if f == MPICH {
		return constants{
			World: 0x44000000, InPlace: Arg{number: ^uintptr(0)}, errorsReturn: 0x54000001, anySource: -2, statusSource: 2,
			statusTag: 3,
			bytes:     0x4c00010d,
			types: map[dtype.DType]Datatype{dtype.F64: 0x4c00080b, dtype.F32: 0x4c00040a, dtype.I64: 0x4c00083a,
				dtype.I32: 0x4c000439, dtype.U8: 0x4c00013b},
			ops: map[vec.Op]Op{vec.Max: 0x58000001, vec.Min: 0x58000002, vec.Sum: 0x58000003, vec.Prod: 0x58000004},
		}, nil
	}
	var faults []error
	address := func(name string) uintptr {
		addr, err := symbol("ompi_" + name)
		if err != nil {
			faults = append(faults, err)
		}
		return addr
	}
	c := constants{
		World: Comm(address("mpi_comm_world")), InPlace: Arg{number: 1}, errorsReturn: address("mpi_errors_return"),
		anySource: -1, statusSource: 0, statusTag: 1,
		bytes: Datatype(address("mpi_byte")),
		types: map[dtype.DType]Datatype{
			dtype.F64: Datatype(address("mpi_double")), dtype.F32: Datatype(address("mpi_float")),
			dtype.I64: Datatype(address("mpi_int64_t")), dtype.I32: Datatype(address("mpi_int32_t")),
			dtype.U8: Datatype(address("mpi_uint8_t")),
		},
		ops: map[vec.Op]Op{
			vec.Max: Op(address("mpi_op_max")), vec.Min: Op(address("mpi_op_min")),
			vec.Sum: Op(address("mpi_op_sum")), vec.Prod: Op(address("mpi_op_prod")),
		},
	}
	return c, errors.Join(faults...)
}
