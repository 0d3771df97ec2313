package cuda

import (
	"cmp"
	"math"
	"unsafe"
)

// Stream is work that the device does in order.
type Stream struct {
	driver *Driver
	handle uintptr
}

const nonBlocking = 1 // not ordered with the default stream

// Stream makes a stream.
func (c *Context) Stream() (*Stream, error) {
	handle := new(uintptr)
	err := c.driver.check("cuStreamCreate", c.driver.f.streamCreate.Call(uintptr(unsafe.Pointer(handle)), nonBlocking))
	return &Stream{c.driver, *handle}, err
}

// mostUrgent is beyond every GPU's range, to the end of which the driver moves it.
const mostUrgent = -100

// UrgentStream makes a stream whose blocks go before those of others that wait for room.
func (c *Context) UrgentStream() (*Stream, error) {
	handle, priority := new(uintptr), int32(mostUrgent)
	err := c.driver.check("cuStreamCreateWithPriority",
		c.driver.f.streamCreateWithPriority.Call(uintptr(unsafe.Pointer(handle)), nonBlocking, uintptr(uint32(priority))))
	return &Stream{c.driver, *handle}, err
}

// Handle is the stream as other libraries know it.
func (s *Stream) Handle() uintptr { return s.handle }

// Destroy gives the stream back when its work is done.
func (s *Stream) Destroy() error {
	return s.driver.check("cuStreamDestroy", s.driver.f.streamDestroy.Call(s.handle))
}

// Synchronize waits for the stream's work. It blocks its thread: poll Done to
// notice other things too.
func (s *Stream) Synchronize() error {
	return s.driver.check("cuStreamSynchronize", s.driver.f.streamSynchronize.Call(s.handle))
}

// Done tells whether all work of the stream is done.
func (s *Stream) Done() (bool, error) {
	return s.driver.ready("cuStreamQuery", s.driver.f.streamQuery.Call(s.handle))
}

func (d *Driver) ready(call string, result uintptr) (bool, error) {
	if int32(result) == codeNotReady {
		return false, nil
	}
	return int32(result) == 0, d.check(call, result)
}

// Event is a moment in a stream's work.
type Event struct {
	driver *Driver
	handle uintptr
}

// Event makes an event.
func (c *Context) Event() (*Event, error) {
	handle := new(uintptr)
	err := c.driver.check("cuEventCreate", c.driver.f.eventCreate.Call(uintptr(unsafe.Pointer(handle)), 0))
	return &Event{c.driver, *handle}, err
}

// Destroy gives the event back.
func (e *Event) Destroy() error {
	return e.driver.check("cuEventDestroy", e.driver.f.eventDestroy.Call(e.handle))
}

// Record puts the event behind the stream's work so far.
func (e *Event) Record(s *Stream) error {
	return e.driver.check("cuEventRecord", e.driver.f.eventRecord.Call(e.handle, s.handle))
}

// Done tells whether the work before the event is done.
func (e *Event) Done() (bool, error) {
	return e.driver.ready("cuEventQuery", e.driver.f.eventQuery.Call(e.handle))
}

// Since is the time from an earlier event to this one, in microseconds. Both
// must be done. The device counts in steps of about half a microsecond.
func (e *Event) Since(start *Event) (float64, error) {
	ms := new(float32)
	err := e.driver.check("cuEventElapsedTime",
		e.driver.f.eventElapsed.Call(uintptr(unsafe.Pointer(ms)), start.handle, e.handle))
	if err != nil {
		return math.NaN(), err
	}
	return 1000 * float64(*ms), nil
}

// Wait makes the stream's further work wait for the event.
func (s *Stream) Wait(e *Event) error {
	return s.driver.check("cuStreamWaitEvent", s.driver.f.streamWaitEvent.Call(s.handle, e.handle, 0))
}

// Graph is recorded work that is started as a whole.
type Graph struct {
	driver *Driver
	exec   uintptr
}

const captureThread = 1 // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL

// Capture records what f starts on the stream instead of doing it.
func (s *Stream) Capture(f func() error) (*Graph, error) {
	d := s.driver
	if err := d.check("cuStreamBeginCapture", d.f.streamBeginCapture.Call(s.handle, captureThread)); err != nil {
		return nil, err
	}
	failed := f()
	graph, exec := new(uintptr), new(uintptr)
	err := d.check("cuStreamEndCapture", d.f.streamEndCapture.Call(s.handle, uintptr(unsafe.Pointer(graph))))
	if err := cmp.Or(failed, err); err != nil {
		return nil, err
	}
	err = d.check("cuGraphInstantiate", d.f.graphInstantiate.Call(uintptr(unsafe.Pointer(exec)), *graph, 0))
	return &Graph{d, *exec}, cmp.Or(err, d.check("cuGraphDestroy", d.f.graphDestroy.Call(*graph)))
}

// Start starts the graph on a stream.
func (g *Graph) Start(s *Stream) error {
	return g.driver.check("cuGraphLaunch", g.driver.f.graphLaunch.Call(g.exec, s.handle))
}

// Destroy gives the graph back.
func (g *Graph) Destroy() error {
	return g.driver.check("cuGraphExecDestroy", g.driver.f.graphExecDestroy.Call(g.exec))
}
