package jobenv

import "strings"

// InterfaceVar names the network interface by which the ranks of a job reach each
// other. It is gloo's, so that both take the same.
const InterfaceVar = "GLOO_SOCKET_IFNAME"

// PortsVar holds the ports, A-B, on which the processes of a job may listen for other
// hosts.
const PortsVar = "KERNBENCH_PORT_RANGE"

// Reach are the variables by which the ranks of a job, and the libraries they use, take
// one interface and some ports to reach each other; "" leaves it to them.
func Reach(iface, ports string) map[string]string {
	set := map[string]string{}
	if iface != "" {
		set["NCCL_SOCKET_IFNAME"] = "=" + iface // NCCL takes a bare name for a prefix
		set[InterfaceVar] = iface
	}
	if ports != "" {
		set[PortsVar] = ports
	}
	return set
}

// Variable looks a name up in an environment.
func Variable(environ []string, name string) string { return Variables(environ)[name] }

// Variables are those of an environment by name. As in exec, the last entry counts.
func Variables(environ []string) map[string]string {
	env := map[string]string{}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	return env
}
