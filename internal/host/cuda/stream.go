package cuda

import (
	"cmp"
	"math"
	"unsafe"
)

// Stream is a queue of work that the device does in order.
type Stream struct {
	driver *Driver
	handle uintptr
}

const nonBlocking = 1 // not ordered with the default stream

// Stream creates a stream.
func (c *Context) Stream() (*Stream, error) {
	handle := new(uintptr)
	err := c.driver.call("cuStreamCreate", uintptr(unsafe.Pointer(handle)), nonBlocking)
	return &Stream{c.driver, *handle}, err
}

// mostUrgent lies outside every GPU's range of priorities; the driver clamps it.
const mostUrgent = -100

// UrgentStream creates a stream of the highest priority: its waiting blocks are scheduled first.
func (c *Context) UrgentStream() (*Stream, error) {
	handle, priority := new(uintptr), int32(mostUrgent)
	err := c.driver.call("cuStreamCreateWithPriority", uintptr(unsafe.Pointer(handle)), nonBlocking,
		uintptr(uint32(priority)))
	return &Stream{c.driver, *handle}, err
}

// Handle returns the stream's CUstream, for other libraries.
func (s *Stream) Handle() uintptr { return s.handle }

// Destroy releases the stream once its work is done.
func (s *Stream) Destroy() error {
	return s.driver.call("cuStreamDestroy_v2", s.handle)
}

// Synchronize waits for the stream's work. It blocks the thread; poll Done instead to be able to
// react to other events.
func (s *Stream) Synchronize() error {
	return s.driver.call("cuStreamSynchronize", s.handle)
}

// Done reports whether all work of the stream is done.
func (s *Stream) Done() (bool, error) {
	return s.driver.ready("cuStreamQuery", s.handle)
}

// ready calls a query function, for which "not ready" is no error.
func (d *Driver) ready(query string, handle uintptr) (bool, error) {
	result := d.result(query, handle)
	if int32(result) == codeNotReady {
		return false, nil
	}
	return int32(result) == 0, d.check(query, result)
}

// Event marks a position in a stream's work.
type Event struct {
	driver *Driver
	handle uintptr
}

// Event creates an event.
func (c *Context) Event() (*Event, error) {
	handle := new(uintptr)
	err := c.driver.call("cuEventCreate", uintptr(unsafe.Pointer(handle)), 0)
	return &Event{c.driver, *handle}, err
}

// Destroy releases the event.
func (e *Event) Destroy() error {
	return e.driver.call("cuEventDestroy_v2", e.handle)
}

// Record places the event after the stream's work so far.
func (e *Event) Record(s *Stream) error {
	return e.driver.call("cuEventRecord", e.handle, s.handle)
}

// Done reports whether the work before the event is done.
func (e *Event) Done() (bool, error) {
	return e.driver.ready("cuEventQuery", e.handle)
}

// Since returns the time from an earlier event to this one, in microseconds. Both must be done. The
// resolution is about half a microsecond.
func (e *Event) Since(start *Event) (float64, error) {
	ms := new(float32)
	err := e.driver.call("cuEventElapsedTime", uintptr(unsafe.Pointer(ms)), start.handle, e.handle)
	if err != nil {
		return math.NaN(), err
	}
	return 1000 * float64(*ms), nil
}

// Wait makes later work of the stream wait for the event.
func (s *Stream) Wait(e *Event) error {
	return s.driver.call("cuStreamWaitEvent", s.handle, e.handle, 0)
}

// Graph is captured work that is launched as a whole.
type Graph struct {
	driver *Driver
	exec   uintptr
}

const captureThread = 1 // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL

// Capture records the work that f starts on the stream, without running it.
func (s *Stream) Capture(f func() error) (*Graph, error) {
	d := s.driver
	if err := d.call("cuStreamBeginCapture_v2", s.handle, captureThread); err != nil {
		return nil, err
	}
	failed := f()
	graph, exec := new(uintptr), new(uintptr)
	err := d.call("cuStreamEndCapture", s.handle, uintptr(unsafe.Pointer(graph)))
	if err := cmp.Or(failed, err); err != nil {
		return nil, err
	}
	err = d.call("cuGraphInstantiateWithFlags", uintptr(unsafe.Pointer(exec)), *graph, 0)
	return &Graph{d, *exec}, cmp.Or(err, d.call("cuGraphDestroy", *graph))
}

// Start launches the graph on a stream.
func (g *Graph) Start(s *Stream) error {
	return g.driver.call("cuGraphLaunch", g.exec, s.handle)
}

// Destroy releases the graph.
func (g *Graph) Destroy() error {
	return g.driver.call("cuGraphExecDestroy", g.exec)
}
