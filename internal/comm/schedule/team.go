package schedule

import "math/bits"

// The building blocks: each works on a team of ranks that all call it for the
// same part [off, off+n) of the vector, in the output buffer unless it says
// otherwise, and each advances the round by the same number on all of them.

// index is the place of this rank in a team.
func (e *emitter) index(team Peers) int { return (e.rank - team.First) / team.Stride }

// teamPart is the i-th of the team's shares of [off, off+n).
func teamPart(team Peers, off, n, i int) (int, int) {
	if i %= team.N; i < 0 {
		i += team.N
	}
	at, size := Split(n, team.N, i)
	return off + at, size
}

// ringReduce passes partial sums to the next rank until member i holds the
// sum of part i. Part p starts at member p+1 and ends at home.
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

// ringCollect passes finished parts to the next rank until all have all.
func (e *emitter) ringCollect(team Peers, off, n int) {
	e.collectRound(team, func(i int) (int, int) { return teamPart(team, off, n, i) })
}

// collectRound is ringCollect of any parts; i goes from -N to N-1, round the team.
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

// fold brings a team to a power of two (Rabenseifner; Thakur et al. 2005,
// section 4.5): of the first 2*extra members, the even ones add theirs to
// the odd ones' and sit out until unfold. It gives the number of members left
// and this one's place among them, negative when it sits out.
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

// unfold gives those who sat out the result.
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

// unfolded is the rank that has the given place after fold.
func unfolded(team Peers, members, id int) int {
	if extra := team.N - members; id >= extra {
		return team.At(id + extra)
	}
	return team.At(2*id + 1)
}

// double makes every member of the team hold the whole sum, by exchanging all
// of it at distances 1, 2, 4... What arrives goes through scratch, since the
// range that is being sent cannot be added to at the same time.
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

// halve makes every member of the team hold the whole sum: at distances
// p/2, p/4... 1 it keeps the half of its window in which its own place lies and sends
// the other, and then collects the windows in the opposite order. Windows are
// counted in the shares of the p members left after fold.
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

// The binary tree over all ranks has the shape of a heap, its places counted
// from the root on.

func (e *emitter) treePlace() int         { return (e.rank - e.Root + e.Ranks) % e.Ranks }
func (e *emitter) treeRank(place int) int { return (place + e.Root) % e.Ranks }
func (e *emitter) treeLeaf() bool         { return 2*e.treePlace()+1 >= e.Ranks }

// up sums the piece [off, off+n) of the inputs at the root. Inner ranks add up in acc; a
// leaf sends its input as it is.
func (e *emitter) up(off, n int, acc Range) {
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

// down gives every rank's output the piece that the root has in src.
func (e *emitter) down(off, n int, src Range) {
	place := e.treePlace()
	if place > 0 {
		src = out(off, n)
		e.recv(Recv, e.treeRank((place-1)/2), src)
	}
	for child := 2*place + 1; child <= 2*place+2 && child < e.Ranks; child++ {
		e.send(e.treeRank(child), src)
	}
}

// teamReduce puts the sum of the team's inputs into the output of the member
// whose part it is. The inputs must be known to be there.
func (e *emitter) teamReduce(team Peers, off, n int) {
	at, size := teamPart(team, off, n, e.index(team))
	e.getReduce(team, in(at, size), out(at, size))
}

// teamCollect reads the other members' parts from their outputs, each as
// soon as its owner says it is finished. They start one rank further on each
// to spread the load.
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
