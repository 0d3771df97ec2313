package doctor

import (
	"net"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Interface is a network interface.
type Interface struct {
	Name      string
	Up        bool
	Addresses []string // with the size of their networks
	Default   bool     // leads to hosts that no other one is nearer to
}

// networks says by which interfaces other hosts can be reached, and which is taken
// unless the user says otherwise.
func (m Machine) networks() (findings []Finding) {
	all, err := m.Interfaces()
	if err != nil {
		return []Finding{{"network", "interfaces", No, err.Error()}}
	}
	for _, i := range all {
		f := Finding{"network", i.Name, Yes, strings.Join(i.Addresses, ", ")}
		switch {
		case !i.Up:
			f.State, f.Detail = No, "down"
		case len(i.Addresses) == 0:
			f.State, f.Detail = No, "no address"
		case i.Default:
			f.Detail += "; used unless the rendezvous is nearer to another, or --interface names one"
		}
		findings = append(findings, f)
	}
	return findings
}

func localInterfaces() ([]Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	own := outward()
	var found []Interface
	for _, d := range all {
		i := Interface{Name: d.Name, Up: d.Flags&net.FlagUp != 0}
		addrs, err := d.Addrs()
		if err != nil {
			continue // it has just gone
		}
		i.Addresses = lists.Map(addrs, net.Addr.String)
		i.Default = own != "" && slices.ContainsFunc(i.Addresses, func(a string) bool {
			return strings.HasPrefix(a, own+"/")
		})
		found = append(found, i)
	}
	return found, nil
}

// outward is this host's address on the way to hosts elsewhere, "" without such a way.
// Nothing is sent: the kernel only looks for the route.
func outward() string {
	c, err := net.Dial("udp", "192.0.2.1:9") // of nobody, by RFC 5737
	if err != nil {
		return ""
	}
	defer c.Close()
	host, _, _ := net.SplitHostPort(c.LocalAddr().String())
	return host
}
