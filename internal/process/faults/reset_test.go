package faults

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reset breaks a TCP connection of a process like a failing network: it duplicates the socket and
// disconnects it, and the kernel sends a reset. It reports whether there was a connection.
func reset(pid, pick int) (bool, error) {
	sockets, err := borrow(pid, func(fd int) bool {
		kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
		_, peer := unix.Getpeername(fd)
		return err == nil && kind == unix.IPPROTO_TCP && peer == nil
	})
	defer giveBack(sockets)
	if err != nil || len(sockets) == 0 {
		return false, err
	}
	// connect(2) with family AF_UNSPEC disconnects. The library has no type for that address.
	var none unix.RawSockaddr // family 0 is AF_UNSPEC
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(sockets[pick%len(sockets)]), uintptr(unsafe.Pointer(&none)),
		unsafe.Sizeof(none))
	if errno != 0 {
		return false, fmt.Errorf("disconnecting: %w", errno)
	}
	return true, nil
}

// flood connects strangers, silent and talkative, to every socket on which a process of the run listens,
// until the run is over. mpirun may break down under them by itself: Open MPI's does at 1,024
// connections.
func flood(s *scene) bool {
	own, err := os.Executable()
	if err != nil {
		return false
	}
	const most = 4000
	var crowd sync.WaitGroup
	defer crowd.Wait()
	begun := map[string]bool{}
	for !s.over() {
		for _, p := range s.mark.Processes() {
			if program, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID)); program != own {
				continue
			}
			on := s.hostOf(p.PID)
			for _, address := range listeners(p.PID) {
				if name := on.name + address.Network() + address.String(); !begun[name] {
					begun[name] = true
					crowd.Go(func() { besiege(on.dial, address, most, s.over) })
				}
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return len(begun) > 0
}

// dialler connects to an address on a named host.
type dialler struct {
	name string
	dial func(address net.Addr) (net.Conn, error)
}

// hostOf returns the host of a process. Unix sockets belong to a host, too.
func (s *scene) hostOf(pid int) dialler {
	dial := func(a net.Addr) (net.Conn, error) { return net.DialTimeout(a.Network(), a.String(), time.Second) }
	if s.network == nil {
		return dialler{"", dial}
	}
	for _, h := range s.network.Hosts {
		if h.Has(pid) {
			return dialler{h.Name, func(a net.Addr) (c net.Conn, err error) {
				err = h.Within(func() (err error) { c, err = dial(a); return err })
				return c, err
			}}
		}
	}
	return dialler{"", dial}
}

// besiege connects again and again, and keeps some of the connections open.
func besiege(dial func(net.Addr) (net.Conn, error), address net.Addr, most int, over func() bool) {
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for i := 0; i < most && !over(); i++ {
		c, err := dial(address)
		if err != nil {
			return // the run, or this part of it, is over
		}
		if open = append(open, c); i%3 == 0 {
			c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		}
		if len(open) > 500 {
			open[0].Close()
			open = open[1:]
		}
	}
}

// listeners returns the addresses on which a process listens.
func listeners(pid int) (addresses []net.Addr) {
	sockets, _ := borrow(pid, func(fd int) bool { // none if the process has ended
		listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		return err == nil && listens == 1
	})
	defer giveBack(sockets)
	for _, fd := range sockets {
		switch at, _ := unix.Getsockname(fd); at := at.(type) {
		case *unix.SockaddrUnix:
			addresses = append(addresses, &net.UnixAddr{Net: "unix", Name: at.Name})
		case *unix.SockaddrInet4:
			addresses = append(addresses, &net.TCPAddr{IP: at.Addr[:], Port: at.Port})
		case *unix.SockaddrInet6:
			addresses = append(addresses, &net.TCPAddr{IP: at.Addr[:], Port: at.Port})
		}
	}
	return addresses
}

// borrow duplicates the wanted sockets of a process.
func borrow(pid int, want func(fd int) bool) (sockets []int, err error) {
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return nil, err
	}
	process, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening process %d: %w", pid, err)
	}
	defer unix.Close(process)
	for _, path := range fds {
		if target, err := os.Readlink(path); err != nil || len(target) < 6 || target[:6] != "socket" {
			continue
		}
		theirs, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		fd, err := unix.PidfdGetfd(process, theirs, 0)
		if err != nil {
			continue // closed meanwhile
		}
		if !want(fd) {
			unix.Close(fd)
			continue
		}
		sockets = append(sockets, fd)
	}
	return sockets, nil
}

func giveBack(sockets []int) {
	for _, fd := range sockets {
		unix.Close(fd)
	}
}
