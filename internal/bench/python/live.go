package python

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// isSocket reports whether a path is a socket. A running program listens on it: a notebook, a test, or any
// other process whose functions are to be timed.
func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&fs.ModeSocket != 0
}

// dial connects to a running program. The program speaks the same protocol as one that kernbench starts,
// once per connection, and continues to run when the connection ends.
func dial(path string) (*program, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", path, err)
	}
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	if err == nil {
		err = unix.SetNonblock(fd, true) // lets Close interrupt a read
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connecting to %s: %w", path, err)
	}
	socket := os.NewFile(uintptr(fd), path)
	return &program{kind: "python", socket: socket, lines: bufio.NewReader(socket)}, nil
}

// running reports whether the program was already running, so that this process must not end it.
func (p *program) running() bool { return p.cmd == nil }
