package cuda

import (
	"runtime"
	"unsafe"
)

// Context is a device's primary context in this process.
type Context struct {
	driver *Driver
	device *Device
	handle uintptr
}

// Context makes the device's context, which Close gives back.
func (d *Device) Context() (*Context, error) {
	handle := new(uintptr)
	if err := d.driver.check("cuDevicePrimaryCtxRetain",
		d.driver.f.primaryCtxRetain.Call(uintptr(unsafe.Pointer(handle)), uintptr(d.handle))); err != nil {
		return nil, err
	}
	return &Context{driver: d.driver, device: d, handle: *handle}, nil
}

// Device is the context's device.
func (c *Context) Device() *Device { return c.device }

// Close gives the context back. Nothing of it may be used afterwards.
func (c *Context) Close() error {
	return c.driver.check("cuDevicePrimaryCtxRelease", c.driver.f.primaryCtxRelease.Call(uintptr(c.device.handle)))
}

// Do runs f on a thread where the context is current.
func (c *Context) Do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.driver.check("cuCtxSetCurrent", c.driver.f.ctxSetCurrent.Call(c.handle)); err != nil {
		return err
	}
	return f()
}
