package netns

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Relay is a cable that runs through this process, which can lose and delay its packets. It consists
// of a TAP device at each end. (The kernel's own module for that, netem, is often missing.)
type Relay struct {
	loss  atomic.Int64 // packets lost, per thousand
	delay atomic.Int64 // nanoseconds, in each direction
	ends  [2]*os.File
}

// Lose sets the share of packets that are lost in each direction.
func (r *Relay) Lose(share float64) { r.loss.Store(int64(share * 1000)) }

// Delay sets how long every packet takes in each direction.
func (r *Relay) Delay(d time.Duration) { r.delay.Store(int64(d)) }

// Relay replaces the cable of the host. Call it before anything runs on the host.
func (h *Host) Relay() *Relay {
	n := h.net
	n.Helper()
	r := new(Relay)
	n.run("ip", "-n", h.Space, "link", "del", "eth0") // the other end goes with it
	hub := &Host{Name: "hub", Space: n.hub, net: n}
	for i, end := range []struct {
		at   *Host
		name string
	}{{h, "eth0"}, {hub, h.cable}} {
		err := end.at.Within(func() (err error) { r.ends[i], err = openTap(end.name); return err })
		if err != nil {
			n.Fatalf("a device for host %s: %v", h.Name, err)
		}
	}
	n.run("ip", "-n", n.hub, "link", "set", h.cable, "master", "br0", "up")
	n.run("ip", "-n", h.Space, "link", "set", "eth0", "up")
	n.run("ip", "-n", h.Space, "addr", "add", h.Four+"/24", "dev", "eth0")
	n.run("ip", "-n", h.Space, "addr", "add", h.Six+"/64", "dev", "eth0", "nodad")
	go r.copy(0)
	go r.copy(1)
	n.Cleanup(func() { r.ends[0].Close(); r.ends[1].Close() })
	return r
}

// copy forwards the packets of one direction until the devices are closed.
func (r *Relay) copy(from int) {
	buf := make([]byte, 64<<10)
	for {
		size, err := r.ends[from].Read(buf)
		if err != nil {
			return
		}
		if rand.Int64N(1000) < r.loss.Load() {
			continue
		}
		delay := time.Duration(r.delay.Load())
		if delay == 0 {
			r.ends[1-from].Write(buf[:size]) // a packet that cannot be delivered is lost
			continue
		}
		packet := append([]byte(nil), buf[:size]...)
		time.AfterFunc(delay, func() { r.ends[1-from].Write(packet) })
	}
}

// openTap makes a TAP device in the namespace of this thread.
func openTap(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("opening /dev/net/tun: %w", err)
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("making the device %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}
