package rankhost

import (
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// FullHost is a host with more ranks than cores that they may use together.
type FullHost struct {
	Name         string
	Ranks, Cores int
}

// Oversubscribed lists the hosts with more ranks than cores.
func (l *Leader) Oversubscribed() []FullHost {
	return oversubscribed(l.coordinator.group.Members, l.coordinator.cpus)
}

// oversubscribed compares each host's number of ranks with the cores that they may use together.
func oversubscribed(members []*connection.Member, cpus map[int][]int) (full []FullHost) {
	for _, host := range lists.Distinct(lists.Map(members, func(m *connection.Member) string { return m.Host })) {
		there := lists.Filter(members, func(m *connection.Member) bool { return m.Host == host })
		own := map[int]bool{}
		for _, m := range there {
			for _, cpu := range cpus[m.Peer] {
				own[cpu] = true
			}
		}
		if len(own) > 0 && len(there) > len(own) {
			full = append(full, FullHost{host, len(there), len(own)})
		}
	}
	return full
}
