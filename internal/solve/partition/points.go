package partition

// point is a row with its place.
type point struct {
	at  [3]float64
	row int32
}

// bisectPoints is coordinate bisection of points that lie anywhere.
func bisectPoints(n int, locate func(int) [3]float64, ranks int) *Table {
	points := make([]point, n)
	for i := range points {
		points[i] = point{locate(i), int32(i)}
	}
	t := newTable(n, ranks)
	bisect(points, 0, ranks, n, t)
	return t
}

// bisect gives the points to the ranks from, ..., to-1 of a table of n rows.
func bisect(points []point, from, to, n int, t *Table) {
	if to-from == 1 {
		for _, p := range points {
			t.owners[p.row] = int32(from)
		}
		return
	}
	mid := (from + to) / 2
	left := rowsBefore(mid, n, t.ranks) - rowsBefore(from, n, t.ranks)
	if left > 0 && left < len(points) {
		selectFirst(points, left, longest(points))
	}
	bisect(points[:left], from, mid, n, t)
	bisect(points[left:], mid, to, n, t)
}

// longest is the axis along which the points extend most.
func longest(points []point) int {
	lo, hi := points[0].at, points[0].at
	for _, p := range points {
		for axis, v := range p.at {
			lo[axis], hi[axis] = min(lo[axis], v), max(hi[axis], v)
		}
	}
	best := 0
	for axis := range lo {
		if hi[axis]-lo[axis] > hi[best]-lo[best] {
			best = axis
		}
	}
	return best
}

// selectFirst moves the n first points along an axis to the front (Hoare's
// selection). Points at the same place go by their row, so the result does not
// depend on the order they came in.
func selectFirst(points []point, n, axis int) {
	less := func(a, b point) bool {
		return a.at[axis] < b.at[axis] || a.at[axis] == b.at[axis] && a.row < b.row
	}
	for len(points) > 1 {
		a, b, c := points[0], points[len(points)/2], points[len(points)-1]
		if less(b, a) {
			a, b = b, a
		}
		pivot := b // the median of three
		if less(c, a) {
			pivot = a
		} else if less(c, b) {
			pivot = c
		}
		i, j := 0, len(points)-1
		for i <= j {
			for less(points[i], pivot) {
				i++
			}
			for less(pivot, points[j]) {
				j--
			}
			if i <= j {
				points[i], points[j] = points[j], points[i]
				i++
				j--
			}
		}
		switch { // points[:j+1] come before points[i:]
		case n <= j:
			points = points[:j+1]
		case n > i:
			points, n = points[i:], n-i
		default:
			return
		}
	}
}
