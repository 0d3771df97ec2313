package dist

// The operations as methods. Each prepares the call anew: a loop should call
// Prepare once. For in place, give one buffer twice.

// AllReduce gives every rank the combination of all ranks' in.
func (g *Group) AllReduce(out, in Buffer, r Reduction, options ...Option) error {
	return g.call(Call{Op: AllReduce, In: in, Out: out, Reduction: r}, options)
}

// ReduceScatter gives each rank its block of the combination of all ranks' in.
func (g *Group) ReduceScatter(out, in Buffer, r Reduction, options ...Option) error {
	return g.call(Call{Op: ReduceScatter, In: in, Out: out, Reduction: r}, options)
}

// AllGather gives every rank all ranks' blocks in rank order.
func (g *Group) AllGather(out, in Buffer, options ...Option) error {
	return g.call(Call{Op: AllGather, In: in, Out: out}, options)
}

// Broadcast gives every rank what the root has in b.
func (g *Group) Broadcast(b Buffer, root int, options ...Option) error {
	c := Call{Op: Broadcast, Out: b, Root: root}
	if g.Rank() == root {
		c.In = b
	}
	return g.call(c, options)
}

// Reduce gives the root the combination of all ranks' in. Others need no out.
func (g *Group) Reduce(out, in Buffer, r Reduction, root int, options ...Option) error {
	return g.call(Call{Op: Reduce, In: in, Out: out, Reduction: r, Root: root}, options)
}

// Gather gives the root all ranks' blocks in rank order. Others need no out.
func (g *Group) Gather(out, in Buffer, root int, options ...Option) error {
	return g.call(Call{Op: Gather, In: in, Out: out, Root: root}, options)
}

// Scatter gives each rank its block of the root's in. Others need no in.
func (g *Group) Scatter(out, in Buffer, root int, options ...Option) error {
	return g.call(Call{Op: Scatter, In: in, Out: out, Root: root}, options)
}

// AllToAll gives rank r block r of every rank's in, in rank order.
func (g *Group) AllToAll(out, in Buffer, options ...Option) error {
	return g.call(Call{Op: AllToAll, In: in, Out: out}, options)
}

// Barrier returns once every rank has called it.
func (g *Group) Barrier(options ...Option) error { return g.call(Call{Op: Barrier}, options) }

// Send sends b to a rank, which receives as much.
func (g *Group) Send(b Buffer, to int) error { return g.call(Call{Op: Send, In: b, Peer: to}, nil) }

// Recv receives b from a rank.
func (g *Group) Recv(b Buffer, from int) error {
	return g.call(Call{Op: Recv, Out: b, Peer: from}, nil)
}

// Isend starts a Send. The buffer must stay as it is until Wait has returned.
func (g *Group) Isend(b Buffer, to int) (*Handle, error) {
	return g.start(Call{Op: Send, In: b, Peer: to}, nil)
}

// Irecv starts a Recv.
func (g *Group) Irecv(b Buffer, from int) (*Handle, error) {
	return g.start(Call{Op: Recv, Out: b, Peer: from}, nil)
}

// AllReduceAsync starts an AllReduce; collectives keep the order of their calls,
// started or not.
func (g *Group) AllReduceAsync(out, in Buffer, r Reduction, options ...Option) (*Handle, error) {
	return g.start(Call{Op: AllReduce, In: in, Out: out, Reduction: r}, options)
}
