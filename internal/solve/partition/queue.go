package partition

// queue is a priority queue of vertices, ordered by largest gain and then by first insertion. A vertex is in it at most
// once. Pushing it again changes its gain.
type queue struct {
	heap  []queued
	where []int32 // position in the heap plus one; 0 means absent
	count int
}

// queued is a vertex in the queue. order is the number of its first insertion.
type queued struct {
	gain, order int
	vertex      int32
}

// reset empties the queue and makes room for vertices 0..n-1.
func (q *queue) reset(n int) {
	if len(q.where) < n {
		q.where = make([]int32, n)
	}
	for _, e := range q.heap {
		q.where[e.vertex] = 0
	}
	q.heap, q.count = q.heap[:0], 0
}

// before reports whether a leaves the queue before b.
func (a queued) before(b queued) bool {
	return a.gain > b.gain || a.gain == b.gain && a.order < b.order
}

// push inserts a vertex, or changes its gain.
func (q *queue) push(v int32, gain int) {
	q.count++
	e := queued{gain, q.count, v}
	if at := int(q.where[v]) - 1; at >= 0 {
		e.order = q.heap[at].order
		q.heap[at] = e
		q.down(q.up(at))
		return
	}
	q.heap = append(q.heap, e)
	q.up(len(q.heap) - 1)
}

// pop removes and returns the vertex with the largest gain.
func (q *queue) pop() (int32, bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	v := q.heap[0].vertex
	q.remove(v)
	return v, true
}

// remove removes a vertex if it is present.
func (q *queue) remove(v int32) {
	at := int(q.where[v]) - 1
	if at < 0 {
		return
	}
	q.where[v] = 0
	last := len(q.heap) - 1
	moved := q.heap[last]
	q.heap = q.heap[:last]
	if at < last {
		q.heap[at] = moved
		q.down(q.up(at))
	}
}

// up moves the entry at a position towards the top until the heap is in order, and returns its new position.
func (q *queue) up(at int) int {
	e := q.heap[at]
	for at > 0 {
		parent := (at - 1) / 2
		if !e.before(q.heap[parent]) {
			break
		}
		q.set(at, q.heap[parent])
		at = parent
	}
	q.set(at, e)
	return at
}

// down moves the entry at a position away from the top until the heap is in order.
func (q *queue) down(at int) {
	e := q.heap[at]
	for {
		child := 2*at + 1
		if child >= len(q.heap) {
			break
		}
		if child+1 < len(q.heap) && q.heap[child+1].before(q.heap[child]) {
			child++
		}
		if !q.heap[child].before(e) {
			break
		}
		q.set(at, q.heap[child])
		at = child
	}
	q.set(at, e)
}

// set stores an entry at a position of the heap.
func (q *queue) set(at int, e queued) {
	q.heap[at] = e
	q.where[e.vertex] = int32(at) + 1
}
