package schedule

func init() {
	Register(Algorithm{
		Info: Info{
			Collective: AllReduce,
			Name:       "chain",
			Help:       "sums go up the ranks one by one, the result comes down",
			Takes:      []string{"ChunkElems", "InPlace"},
			Order:      RankOrder, // rank 0 first; tests compare it with the steps
		},
		Steps: emitting(chain),
	})
}

// chain passes all pieces up before the first one comes down, so that they are pipelined.
func chain(e *emitter) {
	first, last := e.rank == 0, e.rank == e.Ranks-1
	for off, n := range e.pieces() {
		e.copy(in(off, n), out(off, n))
		if !first {
			e.recv(RecvReduce, e.rank-1, out(off, n))
		}
		if !last {
			e.send(e.rank+1, out(off, n))
		}
	}
	e.round++
	for off, n := range e.pieces() {
		if !last {
			e.recv(Recv, e.rank+1, out(off, n))
		}
		if !first {
			e.send(e.rank-1, out(off, n))
		}
	}
}
