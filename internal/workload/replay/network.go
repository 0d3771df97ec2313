package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/accel/loggp"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// Network is the Machine of a simulated network: collectives are the library's schedules.
type Network struct {
	*loggp.Machine
	choose func(SizedCall) string
	built  map[SizedCall]schedule.Schedule
	used   map[string]bool
}

// Auto selects the default algorithm of each collective.
const Auto = "auto"

// OnNetwork returns a machine that runs collectives by the algorithm that choose returns.
func OnNetwork(m *loggp.Machine, choose func(SizedCall) string) *Network {
	return &Network{Machine: m, choose: choose, built: map[SizedCall]schedule.Schedule{}, used: map[string]bool{}}
}

// Choice returns a function that chooses an algorithm: the named one for all collectives that have it for that
// number of ranks, and the default one for all others.
func Choice(name string) func(SizedCall) string {
	return func(c SizedCall) string {
		if _, err := Schedule(c, name); err == nil {
			return name
		}
		return defaultAlgorithm(c)
	}
}

// defaultAlgorithm returns the ring, which moves the fewest bytes, or the first algorithm that is registered. One ring
// through several switches would use a single link between two of them. So an all-reduce of equal islands takes rings
// within the islands and then as many rings between them.
func defaultAlgorithm(c SizedCall) string {
	names := schedule.Names(c.Collective)
	switch {
	case c.Island > 0 && slices.Contains(names, torus):
		return torus
	case slices.Contains(names, ring):
		return ring
	}
	return names[0]
}

const (
	ring  = "ring"
	torus = "torus"
)

// Algorithms returns the algorithms that some collective has.
func Algorithms() []string {
	var all []string
	for _, c := range schedule.Collectives() {
		all = append(all, schedule.Names(c)...)
	}
	slices.Sort(all)
	return lists.Distinct(all)
}

// Collective implements Machine. A schedule is proved before it is used for the first time.
func (n *Network) Collective(key int64, c Call, members []int32) (loggp.ID, error) {
	sized := SizedCall{c, len(members), n.island(members)}
	s, ok := n.built[sized]
	if !ok {
		var err error
		if s, err = Schedule(sized, n.choose(sized)); err != nil {
			return 0, err
		}
		if err := prove(s); err != nil {
			return 0, fmt.Errorf("proving the schedule: %w", err)
		}
		n.built[sized] = s
		n.used[s.Collective()+" "+s.Name()] = true
	}
	return n.Machine.Collective(key, s, 1, members)
}

// island returns SizedCall.Island of a group: the number of consecutive members below one switch, or 0 if the switches
// do not divide the members evenly.
func (n *Network) island(members []int32) int {
	at := func(i int) int32 { return n.Switch(int(members[i])) }
	size := 1
	for size < len(members) && at(size) == at(0) {
		size++
	}
	if size == 1 || size == len(members) || len(members)%size != 0 || at(0) < 0 {
		return 0
	}
	for i := size; i < len(members); i++ {
		if first := i%size == 0; first == (at(i) == at(i-1)) {
			return 0
		}
	}
	return size
}

// Schedule returns the schedule of a collective in bytes. All-reduces run in place, as in PyTorch.
func Schedule(c SizedCall, algorithm string) (schedule.Schedule, error) {
	if c.Collective == schedule.AllReduce && algorithm == directName {
		return direct{params: schedule.Params{Ranks: c.Ranks, Count: int(c.Bytes), InPlace: true}}, nil
	}
	info, err := schedule.Lookup(c.Collective, algorithm)
	if err != nil {
		return nil, err
	}
	takes := func(option string) bool { return slices.Contains(info.Takes, option) }
	p := schedule.Params{Ranks: c.Ranks, Count: int(c.Bytes), Root: c.Root,
		InPlace: c.Collective == schedule.AllReduce && takes("InPlace")}
	if takes("Width") {
		p.Width = c.Island
	}
	if takes("GroupSize") {
		p.GroupSize = c.Island
	}
	return schedule.New(c.Collective, algorithm, p)
}

// prove proves a schedule.
func prove(s schedule.Schedule) error {
	if d, ok := s.(direct); ok {
		d.handshake = true
		return schedule.Check(d) // Prove looks for races only in schedules that are registered
	}
	return schedule.Prove(s)
}

// Used lists the collectives that ran, each with its algorithm.
func (n *Network) Used() string { return strings.Join(slices.Sorted(maps.Keys(n.used)), ", ") }

var _ Machine = (*Network)(nil)
