package mpi

// The collectives. A buffer is the address of its first element, or InPlace if MPI allows it. All
// elements of a call have the same type.

// Allreduce combines the vectors of all ranks.
//
//	int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
func (l *Library) Allreduce(in, out Arg, count int, t Datatype, op Op, c Comm) *Call {
	return l.call("MPI_Allreduce", in, out, integer(count), handle(t), handle(op), handle(c))
}

// ReduceScatter combines the vectors; each rank gets its block.
//
//	int MPI_Reduce_scatter(const void *sendbuf, void *recvbuf, const int recvcounts[], MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
func (l *Library) ReduceScatter(in, out Arg, b Blocks, t Datatype, op Op, c Comm) *Call {
	return l.call("MPI_Reduce_scatter", in, out, Memory(b.Counts), handle(t), handle(op), handle(c))
}

// ReduceScatterBlock is ReduceScatter with blocks of equal length.
//
//	int MPI_Reduce_scatter_block(const void *sendbuf, void *recvbuf, int recvcount, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
func (l *Library) ReduceScatterBlock(in, out Arg, count int, t Datatype, op Op, c Comm) *Call {
	return l.call("MPI_Reduce_scatter_block", in, out, integer(count), handle(t), handle(op), handle(c))
}

// Allgather gives every rank all blocks, which have equal length.
//
//	int MPI_Allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
func (l *Library) Allgather(in, out Arg, count int, t Datatype, c Comm) *Call {
	return l.call("MPI_Allgather", in, integer(count), handle(t), out, integer(count), handle(t), handle(c))
}

// Allgatherv gives every rank all blocks.
//
//	int MPI_Allgatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, const int recvcounts[], const int displs[], MPI_Datatype recvtype, MPI_Comm comm)
func (l *Library) Allgatherv(in, out Arg, count int, b Blocks, t Datatype, c Comm) *Call {
	return l.call("MPI_Allgatherv", in, integer(count), handle(t), out, Memory(b.Counts), Memory(b.Offsets), handle(t),
		handle(c))
}

// Bcast gives every rank the root's vector.
//
//	int MPI_Bcast(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm)
func (l *Library) Bcast(buffer Arg, count int, t Datatype, root int, c Comm) *Call {
	return l.call("MPI_Bcast", buffer, integer(count), handle(t), integer(root), handle(c))
}

// Reduce combines the vectors at the root.
//
//	int MPI_Reduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm)
func (l *Library) Reduce(in, out Arg, count int, t Datatype, op Op, root int, c Comm) *Call {
	return l.call("MPI_Reduce", in, out, integer(count), handle(t), handle(op), integer(root), handle(c))
}

// Gather collects blocks of equal length at the root.
//
//	int MPI_Gather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm)
func (l *Library) Gather(in, out Arg, count int, t Datatype, root int, c Comm) *Call {
	return l.call("MPI_Gather", in, integer(count), handle(t), out, integer(count), handle(t), integer(root), handle(c))
}

// Gatherv collects the blocks at the root.
//
//	int MPI_Gatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, const int recvcounts[], const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm)
func (l *Library) Gatherv(in, out Arg, count int, b Blocks, t Datatype, root int, c Comm) *Call {
	return l.call("MPI_Gatherv", in, integer(count), handle(t), out, Memory(b.Counts), Memory(b.Offsets), handle(t),
		integer(root), handle(c))
}

// Scatter gives each rank its block of the root's vector; all blocks have equal length.
//
//	int MPI_Scatter(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm)
func (l *Library) Scatter(in, out Arg, count int, t Datatype, root int, c Comm) *Call {
	return l.call("MPI_Scatter", in, integer(count), handle(t), out, integer(count), handle(t), integer(root), handle(c))
}

// Scatterv gives each rank its block of the root's vector.
//
//	int MPI_Scatterv(const void *sendbuf, const int sendcounts[], const int displs[], MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm)
func (l *Library) Scatterv(in, out Arg, count int, b Blocks, t Datatype, root int, c Comm) *Call {
	return l.call("MPI_Scatterv", in, Memory(b.Counts), Memory(b.Offsets), handle(t), out, integer(count), handle(t),
		integer(root), handle(c))
}

// Alltoall exchanges blocks of equal length between all ranks.
//
//	int MPI_Alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
func (l *Library) Alltoall(in, out Arg, count int, t Datatype, c Comm) *Call {
	return l.call("MPI_Alltoall", in, integer(count), handle(t), out, integer(count), handle(t), handle(c))
}

// Alltoallv exchanges blocks between all ranks.
//
//	int MPI_Alltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype, void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm)
func (l *Library) Alltoallv(in, out Arg, send, receive Blocks, t Datatype, c Comm) *Call {
	return l.call("MPI_Alltoallv", in, Memory(send.Counts), Memory(send.Offsets), handle(t),
		out, Memory(receive.Counts), Memory(receive.Offsets), handle(t), handle(c))
}

// Barrier waits for all ranks.
//
//	int MPI_Barrier(MPI_Comm comm)
func (l *Library) Barrier(c Comm) *Call { return l.call("MPI_Barrier", handle(c)) }
