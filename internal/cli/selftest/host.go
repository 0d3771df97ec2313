package selftest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// host tests what runs need from this machine.
func (s session) host() {
	s.check("host", "shared memory", func() (string, error) { return "anonymous memory mapped twice", shareMemory() })
	s.check("host", "sockets", func() (string, error) {
		name := fmt.Sprintf("@kernbench-selftest-%d", os.Getpid())
		return "unix and TCP loopback", errors.Join(echo("unix", name), echo("tcp", "127.0.0.1:0"))
	})
}

// shareMemory writes through one mapping and reads through another.
func shareMemory() error {
	const size = 1 << 20
	fd, err := unix.MemfdCreate("kernbench-selftest", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, size); err != nil {
		return fmt.Errorf("ftruncate: %w", err)
	}
	var views [2][]byte
	for i := range views {
		if views[i], err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
			return fmt.Errorf("mmap: %w", err)
		}
		defer unix.Munmap(views[i])
	}
	for i := range size {
		views[0][i] = byte(i * 7)
	}
	if !bytes.Equal(views[0], views[1]) {
		return errors.New("two mappings of one memory differ")
	}
	return nil
}

// echo sends a message through a socket and back.
func echo(network, address string) error {
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	defer l.Close()
	limit := time.Now().Add(5 * time.Second)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.SetDeadline(limit)
		io.Copy(conn, conn)
	}()
	conn, err := net.DialTimeout(network, l.Addr().String(), time.Until(limit))
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(limit)
	sent, got := bytes.Repeat([]byte("kernbench"), 1000), make([]byte, 9000)
	if _, err := conn.Write(sent); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, got); err != nil {
		return fmt.Errorf("reading from a %s socket: %w", network, err)
	}
	if !bytes.Equal(sent, got) {
		return fmt.Errorf("a %s socket returned other bytes", network)
	}
	return nil
}
