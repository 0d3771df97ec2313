package partition

import "math/rand/v2"

// refine moves vertices between parts to reduce the cut and to balance the parts (Fiduccia and Mattheyses 1982,
// extended to any number of parts). A pass always makes the best available move, even if it enlarges the cut, and moves
// no vertex twice. In the end it returns to the best state that it saw. So it can leave small local minima.
func refine(g *graph, part []int32, targets []int, rng *rand.Rand) {
	r := &refiner{g: g, part: part, weights: make([]int, len(targets)), limits: make([]int, len(targets)),
		conn: make([]int, len(targets))}
	for v := range int32(g.size()) {
		r.weights[part[v]] += g.vertexWeight(v)
	}
	for i, t := range targets {
		// Coarse vertices are heavy, so half of the heaviest is tolerated.
		r.limits[i] = max(t+(t*tolerance)/1000, t+g.largest/2)
	}
	r.queue.reset(g.size())
	r.locked = make([]bool, g.size())
	r.findHubs()
	r.rebalance(rng)
	const passes = 10
	for range passes {
		if r.pass(rng) <= 0 {
			return
		}
	}
}

// refiner is the state of a refinement.
type refiner struct {
	g       *graph
	part    []int32 // part of each vertex
	weights []int   // weight of each part
	limits  []int   // largest weight of each part
	queue   queue   // vertices that may be moved, by gain
	locked  []bool  // vertices that were moved in this pass
	moved   []move  // the moves of this pass, to take back those after the best state

	conn    []int // weight of a vertex's edges to each part; zero between uses
	touched []int32
	hubs    [][]int // conn of vertices with many edges, kept up to date; nil if there are none
}

// move is a move of a vertex out of a part.
type move struct{ vertex, from int32 }

// findHubs finds the vertices with so many edges that rescanning them after each move of a neighbour would dominate the
// run time.
func (r *refiner) findHubs() {
	many := int32(max(256, 8*len(r.weights)))
	for v := range int32(r.g.size()) {
		if r.g.ptr[v+1]-r.g.ptr[v] <= many {
			continue
		}
		if r.hubs == nil {
			r.hubs = make([][]int, r.g.size())
		}
		r.hubs[v] = make([]int, len(r.weights))
		r.connect(v, r.hubs[v])
	}
}

// connect adds the weight of a vertex's edges to each part to conn.
func (r *refiner) connect(v int32, conn []int) {
	for e := r.g.ptr[v]; e < r.g.ptr[v+1]; e++ {
		p := r.part[r.g.adj[e]]
		if conn[p] == 0 {
			r.touched = append(r.touched, p)
		}
		conn[p] += r.g.edgeWeight(e)
	}
}

// target returns the best part for v to move to, and the gain. It considers only adjacent parts with room. ok is false
// if there is none.
func (r *refiner) target(v int32) (to int32, gain int, ok bool) {
	conn := r.conn
	r.touched = r.touched[:0]
	hub := r.hubs != nil && r.hubs[v] != nil
	if hub {
		conn = r.hubs[v]
		for p := range conn {
			r.touched = append(r.touched, int32(p))
		}
	} else {
		r.connect(v, conn)
	}
	own, w := r.part[v], r.g.vertexWeight(v)
	best := 0
	for _, p := range r.touched {
		if p == own || r.weights[p]+w > r.limits[p] {
			continue
		}
		if c := conn[p]; c > best || c == best && c > 0 && r.spare(p) > r.spare(to) {
			best, to = c, p
		}
	}
	gain = best - conn[own]
	if !hub {
		for _, p := range r.touched {
			conn[p] = 0
		}
	}
	return to, gain, best > 0
}

// spare returns the room left in a part.
func (r *refiner) spare(p int32) int { return r.limits[p] - r.weights[p] }

// apply moves v to a part, and updates the part weights and the edge sums of hubs.
func (r *refiner) apply(v, to int32) {
	from, w := r.part[v], r.g.vertexWeight(v)
	r.weights[from] -= w
	r.weights[to] += w
	r.part[v] = to
	if r.hubs == nil {
		return
	}
	for e := r.g.ptr[v]; e < r.g.ptr[v+1]; e++ {
		if conn := r.hubs[r.g.adj[e]]; conn != nil {
			conn[from] -= r.g.edgeWeight(e)
			conn[to] += r.g.edgeWeight(e)
		}
	}
}

// boundary reports whether v has a neighbour in another part.
func (r *refiner) boundary(v int32) bool {
	for _, u := range r.g.adj[r.g.ptr[v]:r.g.ptr[v+1]] {
		if r.part[u] != r.part[v] {
			return true
		}
	}
	return false
}

// pass makes one pass and returns the reduction of the cut.
func (r *refiner) pass(rng *rand.Rand) int {
	r.queue.reset(r.g.size())
	start := 0
	if n := r.g.size(); n > 0 {
		start = rng.IntN(n)
	}
	for i := range r.g.size() { // start at a random vertex, so that ties are broken differently
		v := int32((start + i) % r.g.size())
		if r.boundary(v) {
			if _, gain, ok := r.target(v); ok {
				r.queue.push(v, gain)
			}
		}
	}
	// Give up after this many moves without improvement.
	patience := max(50, min(1000, len(r.queue.heap)/4))
	r.moved = r.moved[:0]
	sum, best, bestAt := 0, 0, 0
	bestOverload := r.overload()
	for len(r.moved)-bestAt < patience {
		v, ok := r.queue.pop()
		if !ok {
			break
		}
		to, gain, ok := r.target(v) // the room may have changed since it was pushed
		if !ok {
			continue
		}
		r.moved = append(r.moved, move{v, r.part[v]})
		r.locked[v] = true
		r.apply(v, to)
		sum += gain
		if over := r.overload(); sum > best || sum == best && over < bestOverload {
			best, bestAt, bestOverload = sum, len(r.moved), over
		}
		for _, u := range r.g.adj[r.g.ptr[v]:r.g.ptr[v+1]] {
			if r.locked[u] {
				continue
			}
			if _, gain, ok := r.target(u); ok {
				r.queue.push(u, gain)
			} else {
				r.queue.remove(u)
			}
		}
	}
	for i := len(r.moved) - 1; i >= 0; i-- {
		r.locked[r.moved[i].vertex] = false
		if i >= bestAt {
			r.apply(r.moved[i].vertex, r.moved[i].from)
		}
	}
	return best
}

// overload returns the largest excess of a part over its limit. It is negative if all parts fit.
func (r *refiner) overload() int {
	worst := r.weights[0] - r.limits[0]
	for p, w := range r.weights {
		worst = max(worst, w-r.limits[p])
	}
	return worst
}

// rebalance moves vertices out of parts that are too heavy, the cheapest moves first. If no adjacent part has room, the
// emptiest part takes the vertex.
func (r *refiner) rebalance(rng *rand.Rand) {
	for p := range r.weights {
		if r.weights[p] <= r.limits[p] {
			continue
		}
		r.queue.reset(r.g.size())
		for _, i := range shuffled(r.g.size(), rng) {
			if r.part[i] == int32(p) {
				_, gain, ok := r.target(i)
				if !ok {
					gain = -1 << 40 // last, after all vertices with a neighbour in another part
				}
				r.queue.push(i, gain)
			}
		}
		for r.weights[p] > r.limits[p] {
			v, ok := r.queue.pop()
			if !ok {
				break
			}
			to, _, ok := r.target(v)
			if !ok {
				to = r.emptiest()
			}
			if to == int32(p) {
				continue
			}
			r.apply(v, to)
			for _, u := range r.g.adj[r.g.ptr[v]:r.g.ptr[v+1]] {
				if r.part[u] == int32(p) {
					if _, gain, ok := r.target(u); ok {
						r.queue.push(u, gain)
					}
				}
			}
		}
	}
}

// emptiest returns the part with the most room.
func (r *refiner) emptiest() int32 {
	best := int32(0)
	for p := range int32(len(r.weights)) {
		if r.spare(p) > r.spare(best) {
			best = p
		}
	}
	return best
}
