package dist

// Shape is how the ranks of a backend come to be, and what its times depend on.
// The zero Shape is a process per rank, measured.
type Shape struct {
	// InProcess: all ranks of a group are goroutines of one process.
	InProcess bool
	// Simulated: its clock is simulated time, so that nothing else that this
	// host does changes what it says.
	Simulated bool
}

// Shaped is a backend whose ranks are not processes, or whose time is not real.
type Shaped interface{ Shape() Shape }

// ShapeOf is the shape that a backend declares. One that declares none, or that
// this program was not built with, has the zero Shape.
func ShapeOf(backend string) Shape {
	backends.Lock()
	defer backends.Unlock()
	if s, ok := backends.byName[backend].(Shaped); ok {
		return s.Shape()
	}
	return Shape{}
}
