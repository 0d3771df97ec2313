package jobenv

import "strings"

// InterfaceVar names the network interface by which the ranks of a job reach each
// other. It is gloo's, so that both take the same.
const InterfaceVar = "GLOO_SOCKET_IFNAME"

// Variable looks a name up in an environment. As in exec, the last entry counts.
func Variable(environ []string, name string) (value string) {
	for _, entry := range environ {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}
