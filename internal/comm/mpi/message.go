package mpi

// Slot holds the memory that calls for one message or one non-blocking collective write to. It also
// keeps the memory of the operation alive, so it must stay reachable until the operation is done.
type Slot struct {
	started *Call
	request uint64
	status  [6]int32 // MPI_Status, with the size of the larger of the two families' layouts
	flag    int32
	count   int32
}

// start prepares a call that returns before MPI has finished with its memory.
func (s *Slot) start(c *Call) *Call {
	s.started = c
	return c
}

// Done reports the result of Iprobe or Test.
func (s *Slot) Done() bool { return s.flag != 0 }

// Source returns the rank that sent the probed message.
func (l *Library) Source(s *Slot) int { return int(s.status[l.statusSource]) }

// Tag returns the tag of the probed message.
func (l *Library) Tag(s *Slot) int { return int(s.status[l.statusTag]) }

// Bytes returns the result of Count.
func (s *Slot) Bytes() int { return int(s.count) }

// Count asks for the length of the message that Iprobe found.
//
//	int MPI_Get_count(const MPI_Status *status, MPI_Datatype datatype, int *count)
func (l *Library) Count(s *Slot) *Call {
	return l.call("MPI_Get_count", field(&s.status), handle(l.bytes), field(&s.count))
}

// Isend starts sending a message.
//
//	int MPI_Isend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request)
func (l *Library) Isend(buf Arg, count int, t Datatype, to, tag int, c Comm, s *Slot) *Call {
	return s.start(l.call("MPI_Isend", buf, integer(count), handle(t), integer(to), integer(tag), handle(c),
		field(&s.request)))
}

// Iprobe checks for a message from a rank, with any tag.
//
//	int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
func (l *Library) Iprobe(from int, c Comm, s *Slot) *Call {
	return l.call("MPI_Iprobe", integer(from), integer(anyTag), handle(c), field(&s.flag), field(&s.status))
}

// IprobeAny checks for a message from any rank, with any tag.
func (l *Library) IprobeAny(c Comm, s *Slot) *Call { return l.Iprobe(int(l.anySource), c, s) }

// Recv receives a message that Iprobe has found.
//
//	int MPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status *status)
func (l *Library) Recv(buf Arg, count int, t Datatype, from, tag int, c Comm, s *Slot) *Call {
	return l.call("MPI_Recv", buf, integer(count), handle(t), integer(from), integer(tag), handle(c), field(&s.status))
}

// Test checks whether an operation has completed.
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
