package schedule

import "math/bits"

// This file holds the building blocks of algorithms. All ranks of a team call a block for the same part [off, off+n)
// of the vector. It works in the output buffer unless noted otherwise. It advances the round by the same number on
// every rank, because the round is the tag by which messages are matched.

// index returns the position of this rank in a team.
func (e *emitter) index(team Peers) int { return (e.rank - team.First) / team.Stride }

// teamPart returns the i-th of the team's shares of [off, off+n). i is taken modulo the team size.
func teamPart(team Peers, off, n, i int) (int, int) {
	if i %= team.N; i < 0 {
		i += team.N
	}
	at, size := Split(n, team.N, i)
	return off + at, size
}

// ringReduce passes partial sums to the next rank until member i holds the sum of part i. Part p starts at
// member p+1 and ends at member p.
func (e *emitter) ringReduce(team Peers, off, n int) {
	i := e.index(team)
	right, left := team.At((i+1)%team.N), team.At((i+team.N-1)%team.N)
	src := out(teamPart(team, off, n, i-1))
	for k := 1; k < team.N; k++ {
		dst := out(teamPart(team, off, n, i-k-1))
		e.exchange(right, src, RecvReduce, left, dst)
		e.round++
		src = dst
	}
}

// ringCollect passes finished parts to the next rank until all ranks have all parts.
func (e *emitter) ringCollect(team Peers, off, n int) {
	e.collectRound(team, func(i int) (int, int) { return teamPart(team, off, n, i) })
}

// collectRound is ringCollect with arbitrary parts. i is between -N and N-1.
func (e *emitter) collectRound(team Peers, part func(i int) (off, n int)) {
	i := e.index(team)
	right, left := team.At((i+1)%team.N), team.At((i+team.N-1)%team.N)
	src := out(part(i))
	for k := range team.N - 1 {
		dst := out(part(i - k - 1))
		e.exchange(right, src, Recv, left, dst)
		e.round++
		src = dst
	}
}

// fold reduces a team to a power of two members (Rabenseifner; Thakur et al. 2005, section 4.5). Of the first
// 2*extra members, the even ones send their data to the odd ones, which add it, and pause until unfold. fold
// returns the number of active members and this rank's position among them, which is negative if it pauses.
func (e *emitter) fold(team Peers, off, n int) (members, id int) {
	members = 1 << (bits.Len(uint(team.N)) - 1)
	extra := team.N - members
	i := e.index(team)
	id = i - extra
	if i < 2*extra {
		if i%2 == 0 {
			e.send(team.At(i+1), out(off, n))
			id = -1
		} else {
			e.recv(RecvReduce, team.At(i-1), out(off, n))
			id = i / 2
		}
	}
	e.round++
	return members, id
}

// unfold sends the result to the members that paused.
func (e *emitter) unfold(team Peers, members, off, n int) {
	extra := team.N - members
	if i := e.index(team); i < 2*extra {
		if i%2 == 0 {
			e.recv(Recv, team.At(i+1), out(off, n))
		} else {
			e.send(team.At(i-1), out(off, n))
		}
	}
	e.round++
}

// unfolded returns the rank that has position id among the active members after fold.
func unfolded(team Peers, members, id int) int {
	if extra := team.N - members; id >= extra {
		return team.At(id + extra)
	}
	return team.At(2*id + 1)
}

// double leaves the sum on every member by exchanging whole vectors at distances 1, 2, 4... (recursive
// doubling). Received data goes through scratch, because the range being sent must not change.
func (e *emitter) double(team Peers, off, n int) {
	members, id := e.fold(team, off, n)
	for distance := 1; distance < members; distance *= 2 {
		if id >= 0 {
			partner := unfolded(team, members, id^distance)
			e.exchange(partner, out(off, n), Recv, partner, scratch(0, n))
			e.reduce(scratch(0, n), out(off, n))
		}
		e.round++
	}
	e.unfold(team, members, off, n)
}

// halve leaves the sum on every member (recursive halving and doubling). At distances p/2, p/4... 1 a member
// keeps the half of its window that contains its own position and sends the other half; then it collects the
// windows in the opposite order. Windows are counted in shares of the p members that are active after fold.
func (e *emitter) halve(team Peers, off, n int) {
	members, id := e.fold(team, off, n)
	window := func(first, count int) Range {
		from, _ := Split(n, members, first)
		last, size := Split(n, members, first+count-1)
		return out(off+from, last+size-from)
	}
	for distance := members / 2; distance > 0; distance /= 2 {
		if id >= 0 {
			mine, theirs := id&^(distance-1), (id^distance)&^(distance-1)
			partner := unfolded(team, members, id^distance)
			e.exchange(partner, window(theirs, distance), RecvReduce, partner, window(mine, distance))
		}
		e.round++
	}
	for distance := 1; distance < members; distance *= 2 {
		if id >= 0 {
			mine, theirs := id&^(distance-1), (id^distance)&^(distance-1)
			partner := unfolded(team, members, id^distance)
			e.exchange(partner, window(mine, distance), Recv, partner, window(theirs, distance))
		}
		e.round++
	}
	e.unfold(team, members, off, n)
}

// The binary tree over all ranks is laid out like a heap: the children of place i are places 2i+1 and 2i+2. The root
// rank has place 0, and the ranks after it follow, modulo Ranks.

func (e *emitter) treePlace() int         { return (e.rank - e.Root + e.Ranks) % e.Ranks }
func (e *emitter) treeRank(place int) int { return (place + e.Root) % e.Ranks }
func (e *emitter) treeLeaf() bool         { return 2*e.treePlace()+1 >= e.Ranks }

// reduceUp sums the piece [off, off+n) of all inputs at the root of the tree. The root and the inner ranks accumulate
// in acc. Leaves send their input.
func (e *emitter) reduceUp(off, n int, acc Range) {
	place := e.treePlace()
	src := in(off, n)
	if place == 0 || !e.treeLeaf() {
		e.copy(src, acc)
		src = acc
	}
	for child := 2*place + 1; child <= 2*place+2 && child < e.Ranks; child++ {
		e.recv(RecvReduce, e.treeRank(child), acc)
	}
	if place > 0 {
		e.send(e.treeRank((place-1)/2), src)
	}
}

// broadcastDown sends a piece from the root to the output of every other rank. src is where the root has it.
func (e *emitter) broadcastDown(off, n int, src Range) {
	place := e.treePlace()
	if place > 0 {
		src = out(off, n)
		e.recv(Recv, e.treeRank((place-1)/2), src)
	}
	for child := 2*place + 1; child <= 2*place+2 && child < e.Ranks; child++ {
		e.send(e.treeRank(child), src)
	}
}

// teamReduce stores the sum of the team's inputs for this rank's part in its output. The inputs must be ready.
func (e *emitter) teamReduce(team Peers, off, n int) {
	at, size := teamPart(team, off, n, e.index(team))
	e.getReduce(team, in(at, size), out(at, size))
}

// teamCollect reads the other members' parts from their outputs, each as soon as its owner signals that it is
// finished. Every rank starts with its next neighbour, to spread the load.
func (e *emitter) teamCollect(team Peers, off, n int) {
	e.signal(team)
	i := e.index(team)
	for k := 1; k < team.N; k++ {
		at, size := teamPart(team, off, n, i+k)
		peer := team.At((i + k) % team.N)
		e.wait(One(peer))
		e.get(peer, out(at, size), out(at, size))
	}
	e.round++
}
