package connection

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
)

func TestParsePorts(t *testing.T) {
	for text, want := range map[string]PortRange{
		"": {}, "29500-29599": {29500, 29599}, "1-65535": {1, 65535},
		"29500": {}, "29599-29500": {}, "0-99": {}, "65500-65536": {}, "a-b": {}, "29500-b": {}, "a-29599": {}, "29500-99999999999999999999": {}, "100-200-300": {}, "29500-29505": {},
	} {
		got, err := ParsePortRange(text)
		if got != want || (err == nil) != (text == "" || want != PortRange{}) || err == nil && got.String() != text {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if _, err := PortRangeFromEnv([]string{"KERNBENCH_PORT_RANGE=1"}); err == nil ||
		!strings.Contains(err.Error(), "KERNBENCH_PORT_RANGE: port range") {
		t.Errorf("got %v", err)
	}
}

// Every port of a range can be used, and no other. FreePort leaves some ports of the range above it.
func TestPorts(t *testing.T) {
	p, at := PortRange{41_200, 41_219}, "127.0.0.77"
	for range 50 {
		if port, err := p.FreePort(at); err != nil || port < p.First || port > p.Last-10 {
			t.Errorf("port %d, %v", port, err)
		}
	}
	seen := map[int]bool{}
	for range p.Last - p.First + 1 {
		l := must.Get(p.Listen(at))(t)
		defer l.Close()
		seen[l.Addr().(*net.TCPAddr).Port] = true
	}
	for port := range seen {
		if port < p.First || port > p.Last {
			t.Errorf("port %d", port)
		}
	}
	if _, err := p.Listen(at); len(seen) != 20 || !errors.Is(err, syscall.EADDRINUSE) ||
		!strings.Contains(err.Error(), "41200 to 41219") {
		t.Errorf("%d ports were found, then %v", len(seen), err)
	}
	// reserved for documentation by RFC 5737
	if l, err := p.Listen("192.0.2.1"); err == nil || errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("at another host: %v, %v", l, err)
	}
}

func TestFreePort(t *testing.T) {
	own := must.Get(os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"))(t)
	first := firstEphemeralPort(string(own))
	for range 100 {
		if port, err := (PortRange{}).FreePort("127.0.0.1"); err != nil || port <= 0 ||
			first > defaultLastPort && port >= first {
			t.Errorf("port %d, %v; the kernel hands out those from %d", port, err, first)
		}
	}
	if first := firstEphemeralPort("32768\t60999\n"); first != 32768 || firstEphemeralPort("") != 0 {
		t.Errorf("the kernel hands out ports from %d", first)
	}
	if port, err := (PortRange{}).FreePort("192.0.2.1"); err == nil { // reserved for documentation by RFC 5737
		t.Errorf("port %d of another host", port)
	}
}

// ListenAt opens a port of the range at an address of this host only.
func TestListenAt(t *testing.T) {
	p := PortRange{41_230, 41_249}
	l := must.Get(p.ListenAt(t.Context(), "127.0.0.77"))(t)
	defer l.Close()
	if at := l.Addr().(*net.TCPAddr); at.IP.String() != "127.0.0.77" || at.Port < p.First || at.Port > p.Last {
		t.Errorf("listens at %v", at)
	}
	if l, err := p.ListenAt(t.Context(), "192.0.2.77"); !errors.Is(err, ErrNotLocal) { // reserved by RFC 5737
		t.Errorf("at another host: %v, %v", l, err)
	}
	if text := DescribeInterfaces(); !strings.Contains(text, "lo 127.0.0.1/8") {
		t.Errorf("interfaces: %s", text)
	}
}

// A pair of sockets is complete, or there is an error and nothing is left open.
func TestPairsWithoutDescriptors(t *testing.T) {
	open := func() int { return len(must.Get(os.ReadDir("/proc/self/fd"))(t)) }
	pairs := map[string]func() ([]io.Closer, error){
		"socket": func() ([]io.Closer, error) { a, b, err := SocketPair(); return []io.Closer{a, b}, err },
	}
	for name, pair := range pairs {
		failed := 0
		for most := range 24 {
			ends, err := pair() // also opens what the runtime keeps open
			must.Do(t, err)
			must.Do(t, errors.Join(ends[0].Close(), ends[1].Close()))
			before := open()
			var limit syscall.Rlimit
			must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
			must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(most), Max: limit.Max}))
			ends, err = pair()
			must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
			switch {
			case err == nil:
				must.Do(t, errors.Join(ends[0].Close(), ends[1].Close()))
			case !errors.Is(err, syscall.EMFILE):
				t.Errorf("%s with %d descriptors: %v", name, most, err)
			default:
				failed++
			}
			if after := open(); after != before {
				t.Fatalf("%s with %d descriptors: %d are open, before %d", name, most, after, before)
			}
		}
		if failed == 0 {
			t.Errorf("%s: no lack of descriptors", name)
		}
	}
}

// DialRetry retries after a crowded service closed the connection, but not after a refusal.
func TestReach(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	go func() {
		for shown := 0; ; shown++ {
			c, err := l.Accept()
			switch {
			case err != nil:
				return
			case shown < 3:
				c.Close()
			default:
				go service.ServerHandshake(c)
			}
		}
	}()
	c := must.Get(service.DialRetry(t.Context(), "tcp", l.Addr().String()))(t)
	c.Close()
	other := Service{Banner: service.Banner, Secret: []byte("a guess at the secret")}
	if _, err := other.DialRetry(t.Context(), "tcp", l.Addr().String()); !errors.Is(err, ErrWrongSecret) {
		t.Errorf("with another secret: %v", err)
	}
}

// Names and literal addresses are resolved. Addresses of this host are distinguished from foreign ones.
func TestResolve(t *testing.T) {
	own := map[string]bool{"127.0.0.1": true, "127.0.0.77": true, "0.0.0.0": true, "localhost": true,
		"192.0.2.77": false, "2001:db8::7": false} // reserved for documentation by RFC 5737 and RFC 3849
	for _, a := range must.Get(InterfaceAddrs(""))(t) {
		own[a.String()] = true
	}
	for host, want := range own {
		addrs := must.Get(Resolve(t.Context(), host))(t)
		if literal, err := netip.ParseAddr(host); err == nil && (len(addrs) != 1 || addrs[0] != literal) ||
			err != nil && !slices.ContainsFunc(addrs, netip.Addr.IsLoopback) {
			t.Errorf("%s is %v", host, addrs)
		}
		if _, got := ownAddr(addrs); got != want {
			t.Errorf("%s belongs to this host: %v, want %v", host, got, want)
		}
	}
	for host, want := range map[string]string{"localhost": "127.0.0.1", "127.0.0.77": "127.0.0.77"} {
		if got, err := bindAddr(t.Context(), host); got != want && got != "::1" || err != nil {
			t.Errorf("%s: listens on %q (%v), want %q", host, got, err, want)
		}
	}
}

func TestAddresses(t *testing.T) {
	of := func(name string, up bool, addrs ...string) networkInterface {
		return networkInterface{name, up, lists.Map(addrs, netip.MustParseAddr)}
	}
	all := []networkInterface{of("lo", true, "127.0.0.1", "::1"), of("eth0", true, "10.0.0.7", "fe80::7"),
		of("ib0", true, "10.1.0.7"), of("eth1", false, "10.2.0.7"), of("usb0", true, "169.254.3.1"), of("eth2", true)}
	for _, c := range []struct {
		all        []networkInterface
		name, want string
	}{
		{all, "", "[10.0.0.7 10.1.0.7]"},
		{all, "eth0", "[10.0.0.7]"},
		{all, "lo", "[127.0.0.1 ::1]"},
		{all, "eth1", `network interface "eth1" has no address that other hosts could use`},
		{all, "usb0", `network interface "usb0" has no address that other hosts could use`},
		{all, "eth2", `network interface "eth2" has no address that other hosts could use`},
		{all[3:4], "nowhere0", `no network interface "nowhere0": this host has [eth1]`},
		{all[:1], "", "no address by which other hosts reach this one (network interfaces [lo])"},
	} {
		got, err := reachableAddrs(c.all, c.name)
		if text := fmt.Sprint(got); text != c.want && (err == nil || err.Error() != c.want) {
			t.Errorf("%q: %v (%v), want %s", c.name, got, err, c.want)
		}
	}
	if a, err := InterfaceAddrs("lo"); err != nil || !slices.Contains(a, netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("loopback, which was named, has %v (%v)", a, err)
	}
}
