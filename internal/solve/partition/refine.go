package partition

import "math/rand/v2"

// refine moves vertices between parts to make the cut smaller and the parts
// even (Fiduccia and Mattheyses 1982, between any number of parts). A pass
// always makes the best move there is, even one that makes the cut larger,
// moves no vertex twice, and in the end goes back to the best point it saw. So
// it gets over small hills.
func refine(g *graph, part []int32, targets []int, rng *rand.Rand) {
	r := &refiner{g: g, part: part, weights: make([]int, len(targets)), limits: make([]int, len(targets)),
		conn: make([]int, len(targets))}
	for v := range int32(g.size()) {
		r.weights[part[v]] += g.vertexWeight(v)
	}
	for i, t := range targets {
		// Coarse vertices are heavy; half of one is allowed on top.
		r.limits[i] = max(t+(t*tolerance)/1000, t+g.largest/2)
	}
	r.queue.reset(g.size())
	r.locked = make([]bool, g.size())
	r.findHubs()
	r.even(rng)
	const passes = 10
	for range passes {
		if r.pass(rng) <= 0 {
			return
		}
	}
}

type refiner struct {
	g       *graph
	part    []int32
	weights []int
	limits  []int
	queue   queue
	locked  []bool
	moved   []move

	conn    []int // weight of a vertex's edges to each part; zero between uses
	touched []int32
	hubs    [][]int // the same for those with so many edges that it is kept up to date; nil where there are none
}

type move struct{ vertex, from int32 }

// findHubs finds the vertices that have so many edges that to go through them whenever one of their neighbours
// has moved would take longer than all the rest.
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

// connect adds to conn the weight of a vertex's edges to each part.
func (r *refiner) connect(v int32, conn []int) {
	for e := r.g.ptr[v]; e < r.g.ptr[v+1]; e++ {
		p := r.part[r.g.adj[e]]
		if conn[p] == 0 {
			r.touched = append(r.touched, p)
		}
		conn[p] += r.g.edgeWeight(e)
	}
}

// target is the part that v would best go to, and what that gains. Only parts
// with room that v is next to count; if there is none, ok is false.
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

// spare is how much room a part has.
func (r *refiner) spare(p int32) int { return r.limits[p] - r.weights[p] }

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

// pass returns by how much it made the cut smaller.
func (r *refiner) pass(rng *rand.Rand) int {
	r.queue.reset(r.g.size())
	start := 0
	if n := r.g.size(); n > 0 {
		start = rng.IntN(n)
	}
	for i := range r.g.size() { // from a random vertex on, so that ties differ
		v := int32((start + i) % r.g.size())
		if r.boundary(v) {
			if _, gain, ok := r.target(v); ok {
				r.queue.push(v, gain)
			}
		}
	}
	// Hills of this many moves are climbed before giving up.
	patience := max(50, min(1000, len(r.queue.heap)/4))
	r.moved = r.moved[:0]
	sum, best, bestAt := 0, 0, 0
	bestLoad := r.load()
	for len(r.moved)-bestAt < patience {
		v, ok := r.queue.pop()
		if !ok {
			break
		}
		to, gain, ok := r.target(v) // room may have changed since
		if !ok {
			continue
		}
		r.moved = append(r.moved, move{v, r.part[v]})
		r.locked[v] = true
		r.apply(v, to)
		sum += gain
		if load := r.load(); sum > best || sum == best && load < bestLoad {
			best, bestAt, bestLoad = sum, len(r.moved), load
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

// load is the weight of the heaviest part against its limit, negative while it
// fits.
func (r *refiner) load() int {
	worst := r.weights[0] - r.limits[0]
	for p, w := range r.weights {
		worst = max(worst, w-r.limits[p])
	}
	return worst
}

// even moves vertices out of parts that are too heavy, those first that cost
// least. Where no neighbouring part has room, the emptiest part takes it.
func (r *refiner) even(rng *rand.Rand) {
	for p := range r.weights {
		if r.weights[p] <= r.limits[p] {
			continue
		}
		r.queue.reset(r.g.size())
		for _, i := range shuffled(r.g.size(), rng) {
			if r.part[i] == int32(p) {
				_, gain, ok := r.target(i)
				if !ok {
					gain = -1 << 40 // after all that have a neighbour elsewhere
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

func (r *refiner) emptiest() int32 {
	best := int32(0)
	for p := range int32(len(r.weights)) {
		if r.spare(p) > r.spare(best) {
			best = p
		}
	}
	return best
}
