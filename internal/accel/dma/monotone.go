package dma

import (
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// monotoneFactors are the factors by which each number of a topology is changed. They keep powers of two valid.
var monotoneFactors = []float64{2, 0.5}

// Monotone doubles and halves every number of the topology file that should make transfers faster or slower, and
// returns a sentence for each case in which the opposite happens, and how many numbers it changed. The sentence names
// the link with the most to do, how it is shared, and the times of the fastest and the slowest transfer, which tell who
// gains and who loses.
func (p *Plan) Monotone(file []byte) (found []string, varied int, err error) {
	all, err := topo.Parameters(p.report.Topology, file)
	if err != nil {
		return nil, 0, err
	}
	parameters := lists.Filter(all, func(n topo.Parameter) bool { return topo.Effect(n.Key) != 0 })
	for _, c := range p.cases {
		if c.table != congestionTable && c.table != idleTable || c.missing != "" {
			continue
		}
		size := c.sizes[0]
		before, err := newMachine(p.topo).measure(c.transfers(size))
		if err != nil {
			return nil, 0, err
		}
		if before.Transfers > maxMonotone {
			continue
		}
		for _, parameter := range parameters {
			direction := topo.Effect(parameter.Key)
			for _, factor := range monotoneFactors {
				t, values, err := topo.Vary(p.report.Topology, file, parameter.Key, factor)
				if err != nil {
					continue // it is 0, or the changed number is not valid
				}
				t.Fabric = p.topo.Fabric
				after, err := newMachine(t).measure(c.transfers(size))
				if err != nil {
					return nil, 0, fmt.Errorf("%s with %s %s: %w", c.name, parameter.Key, values[0], err)
				}
				slower := (direction > 0) == (factor > 1)
				if change := after.Time - before.Time; change != 0 && (change > 0) != slower {
					found = append(found, p.exception(c, parameter, values, &before, &after))
				}
			}
		}
	}
	return found, len(parameters), nil
}

// maxMonotone is the largest number of transfers of a case that Monotone repeats for every number.
const maxMonotone = 16

// exception returns the sentence for a number that has the opposite of the expected effect.
func (p *Plan) exception(c testCase, n topo.Parameter, values []string, before, after *Row) string {
	ratio := 100 * (float64(after.Time)/float64(before.Time) - 1)
	rule := topo.QueueingOf(p.topo).Rule
	if rule == "" {
		rule = topo.FIFO
	}
	times := func(r *Row) string {
		return fmt.Sprintf("%.3f to %.3f ns", event.Time(r.Fastest).Nanoseconds(), event.Time(r.Time).Nanoseconds())
	}
	return fmt.Sprintf("%s: %s %s instead of %s changes the slowest of %d transfers by %+.2g %%; most has to go over %s, "+
		"shared by %s arbitration: the transfers take %s instead of %s", c.name, n.Key, strings.Join(values, ", "),
		strings.Join(n.Values, ", "), before.Transfers, ratio, after.Bottleneck, rule, times(after), times(before))
}
