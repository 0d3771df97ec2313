package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reset breaks a TCP connection of a process as a failing network would: the
// socket is borrowed and disconnected, whereupon the kernel sends a reset. It
// reports whether there was one.
func reset(pid, pick int) (bool, error) {
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return false, err
	}
	process, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("opening process %d: %w", pid, err)
	}
	defer unix.Close(process)
	var sockets []int
	defer func() {
		for _, fd := range sockets {
			unix.Close(fd)
		}
	}()
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
		kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
		if _, peer := unix.Getpeername(fd); err != nil || kind != unix.IPPROTO_TCP || peer != nil {
			unix.Close(fd)
			continue
		}
		sockets = append(sockets, fd)
	}
	if len(sockets) == 0 {
		return false, nil
	}
	// connect(2) to no address at all disconnects. The library has no type for it.
	var none unix.RawSockaddr // its family is AF_UNSPEC
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(sockets[pick%len(sockets)]), uintptr(unsafe.Pointer(&none)), unsafe.Sizeof(none))
	if errno != 0 {
		return false, fmt.Errorf("disconnecting: %w", errno)
	}
	return true, nil
}
