package mpi

// Slot is memory that calls about one message or one started collective write
// to. It keeps the memory of what was started with it, so it must stay reachable
// until that is done.
type Slot struct {
	started *Call
	request uint64
	status  [6]int32 // MPI_Status, the longer of the two families' forms
	flag    int32
	count   int32
}

// start prepares a call that returns before MPI is done with its memory.
func (s *Slot) start(c *Call) *Call {
	s.started = c
	return c
}

// Done tells what Iprobe or Test has found.
func (s *Slot) Done() bool { return s.flag != 0 }

// Source is the rank that sent the message that was found.
func (l *Library) Source(s *Slot) int { return int(s.status[l.statusSource]) }

// Tag is that message's tag.
func (l *Library) Tag(s *Slot) int { return int(s.status[l.statusTag]) }

// Bytes is what Count has found.
func (s *Slot) Bytes() int { return int(s.count) }

// Count finds the length of the message that Iprobe has found.
//
//	int MPI_Get_count(const MPI_Status *status, MPI_Datatype datatype, int *count)
func (l *Library) Count(s *Slot) *Call {
	return l.call("MPI_Get_count", field(&s.status), handle(l.bytes), field(&s.count))
}

// Isend starts to send a message.
//
//	int MPI_Isend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request)
func (l *Library) Isend(buf Arg, count int, t Datatype, to, tag int, c Comm, s *Slot) *Call {
	return s.start(l.call("MPI_Isend", buf, integer(count), handle(t), integer(to), integer(tag), handle(c),
		field(&s.request)))
}

// Iprobe looks for a message from a rank, whatever its tag.
//
//	int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
func (l *Library) Iprobe(from int, c Comm, s *Slot) *Call {
	return l.call("MPI_Iprobe", integer(from), integer(anyTag), handle(c), field(&s.flag), field(&s.status))
}

// IprobeAny looks for a message with a tag, from any rank; a negative tag is any.
func (l *Library) IprobeAny(tag int, c Comm, s *Slot) *Call {
	return l.call("MPI_Iprobe", integer(int(l.anySource)), integer(max(tag, anyTag)), handle(c), field(&s.flag),
		field(&s.status))
}

// Recv receives a message that is known to be on its way.
//
//	int MPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status *status)
func (l *Library) Recv(buf Arg, count int, t Datatype, from, tag int, c Comm, s *Slot) *Call {
	return l.call("MPI_Recv", buf, integer(count), handle(t), integer(from), integer(tag), handle(c), field(&s.status))
}

// Test looks whether what was started has ended.
//
//	int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
func (l *Library) Test(s *Slot) *Call {
	return l.call("MPI_Test", field(&s.request), field(&s.flag), field(&s.status))
}

// Iallreduce starts an Allreduce.
//
//	int MPI_Iallreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Request *request)
func (l *Library) Iallreduce(in, out Arg, count int, t Datatype, op Op, c Comm, s *Slot) *Call {
	return s.start(l.call("MPI_Iallreduce", in, out, integer(count), handle(t), handle(op), handle(c), field(&s.request)))
}

// Iallgather starts an Allgather.
//
//	int MPI_Iallgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
func (l *Library) Iallgather(in, out Arg, count int, t Datatype, c Comm, s *Slot) *Call {
	return s.start(l.call("MPI_Iallgather", in, integer(count), handle(t), out, integer(count), handle(t), handle(c),
		field(&s.request)))
}
