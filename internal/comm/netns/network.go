// Package netns provides hosts for tests: network namespaces with cables to a common switch. The cables can be cut and
// slowed down. It needs root and iproute2. Only tests use it.
package netns

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Host is a network namespace that acts as a host: it has its own interfaces, addresses and name.
type Host struct {
	Name  string
	Space string // name of the namespace
	Four  string // IPv4 address; Six is the IPv6 address
	Six   string
	cable string // name of the switch's end of the cable
	net   *Network
}

// Network is a set of hosts on one switch. The switch is a namespace too, so the network of this machine is not
// touched.
type Network struct {
	testing.TB
	Hosts []*Host
	hub   string
}

var networks atomic.Int32

// New returns a network that is removed when the test ends. It is an error of the test if processes
// still run on a host then.
func New(t testing.TB, hosts int) *Network {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil || os.Getuid() != 0 {
		t.Fatalf("this test makes network namespaces: it needs root (uid %d) and ip (Debian: iproute2; %v); -short "+
			"leaves it out", os.Getuid(), err)
	}
	id := fmt.Sprintf("kw%d-%d", os.Getpid(), networks.Add(1))
	n := &Network{TB: t, hub: id + "hub"}
	t.Cleanup(n.remove)
	n.run("ip", "netns", "add", n.hub)
	n.run("ip", "-n", n.hub, "link", "add", "br0", "type", "bridge")
	n.run("ip", "-n", n.hub, "link", "set", "br0", "up")
	for i := range hosts {
		h := &Host{Name: fmt.Sprintf("kb%d", i), Space: fmt.Sprintf("%s-%d", id, i), cable: fmt.Sprintf("port%d", i),
			Four: fmt.Sprintf("10.77.0.%d", i+1), Six: fmt.Sprintf("fd77::%d", i+1), net: n}
		n.Hosts = append(n.Hosts, h)
		n.run("ip", "netns", "add", h.Space)
		n.run("ip", "-n", h.Space, "link", "add", "eth0", "type", "veth", "peer", "name", h.cable, "netns", n.hub)
		n.run("ip", "-n", n.hub, "link", "set", h.cable, "master", "br0", "up")
		for _, dev := range []string{"lo", "eth0"} {
			n.run("ip", "-n", h.Space, "link", "set", dev, "up")
		}
		n.run("ip", "-n", h.Space, "addr", "add", h.Four+"/24", "dev", "eth0")
		// Without nodad the address could not be used for two seconds.
		n.run("ip", "-n", h.Space, "addr", "add", h.Six+"/64", "dev", "eth0", "nodad")
	}
	return n
}

func (n *Network) run(argv ...string) {
	n.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		n.Fatalf("%s: %v: %s", strings.Join(argv, " "), err, out)
	}
}

// remove kills the processes that still run in the namespaces, and removes these.
func (n *Network) remove() {
	spaces := []string{n.hub}
	for _, h := range n.Hosts {
		spaces = append(spaces, h.Space)
	}
	for _, space := range spaces {
		if out, err := exec.Command("ip", "netns", "pids", space).Output(); err == nil {
			for _, field := range strings.Fields(string(out)) {
				var pid int
				fmt.Sscan(field, &pid)
				n.Errorf("process %d was still in %s", pid, space)
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
					n.Error(err)
				}
			}
		}
		if out, err := exec.Command("ip", "netns", "del", space).CombinedOutput(); err != nil {
			n.Errorf("removing %s: %v: %s", space, err, out)
		}
	}
}

// Command returns a command that runs on the host.
func (h *Host) Command(argv ...string) *exec.Cmd {
	enter := []string{"netns", "exec", h.Space, "sh", "-c", `echo "$1" > /proc/sys/kernel/hostname; shift; exec "$@"`,
		"sh", h.Name}
	cmd := exec.Command("ip", append(enter, argv...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUTS}
	return cmd
}

// RemoteShell writes a program that runs a command on a host of the network, like ssh, for the launchers of MPI. Hosts
// are named by their IPv4 addresses.
func (h *Host) RemoteShell() (path string) {
	n := h.net
	n.Helper()
	script := "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\ncase $1 in\n"
	for _, h := range n.Hosts {
		script += fmt.Sprintf("%s) space=%s name=%s ;;\n", h.Four, h.Space, h.Name)
	}
	script += `esac
shift
exec unshare --uts ip netns exec "$space" sh -c 'echo "$1" > /proc/sys/kernel/hostname; shift; exec sh -c "$*"' sh "$name" "$@"
`
	path = filepath.Join(n.TempDir(), "remote-shell")
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		n.Fatal(err)
	}
	return path
}

// Listen opens a TCP port on the host.
func (h *Host) Listen(address string) (l net.Listener, err error) {
	err = h.Within(func() (err error) { l, err = net.Listen("tcp", address); return err })
	return l, err
}

// Within calls open in the namespace of the host. Only this thread enters the namespace, and only for
// the call. A socket stays in the namespace in which it was opened.
func (h *Host) Within(open func() error) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer home.Close()
	there, err := os.Open("/run/netns/" + h.Space)
	if err != nil {
		return err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering the network of host %s: %w", h.Name, err)
	}
	defer func() { err = errors.Join(err, unix.Setns(int(home.Fd()), unix.CLONE_NEWNET)) }()
	return open()
}

// Has reports whether a process runs on the host.
func (h *Host) Has(pid int) bool {
	there, err := os.Stat("/run/netns/" + h.Space)
	own, ownErr := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid))
	return err == nil && ownErr == nil && os.SameFile(there, own)
}

// Cut disconnects the cable of the host. Neither side is notified.
func (h *Host) Cut() {
	h.net.Helper()
	h.net.run("ip", "-n", h.net.hub, "link", "set", h.cable, "down")
}

// Slow limits the rate at which the host sends, such as "20mbit".
func (h *Host) Slow(rate string) {
	h.net.Helper()
	h.net.run("tc", "-n", h.Space, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "64kb", "latency",
		"100ms")
}

// DropFour removes the IPv4 address of the host.
func (h *Host) DropFour() {
	h.net.Helper()
	h.net.run("ip", "-n", h.Space, "addr", "del", h.Four+"/24", "dev", "eth0")
}
