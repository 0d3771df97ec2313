package dma

import (
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// monotoneFactors are the factors by which each number of a topology is changed. They keep powers of two valid.
var monotoneFactors = []float64{2, 0.5}

// Monotone doubles and halves every number of the topology file that should make transfers faster or slower, and
// returns a sentence for each case in which the opposite happens, and how many numbers it changed. The sentence names
// the busiest link, how it is shared, and the times of the fastest and the slowest transfer, which show whether some
// transfers gain at the expense of others.
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
		for _, size := range c.sizes {
			list, err := p.opposite(c, size, parameters, file)
			if err != nil {
				return nil, 0, err
			}
			found = append(found, list...)
		}
	}
	return found, len(parameters), nil
}

// opposite is Monotone for transfers of one case and size.
func (p *Plan) opposite(c testCase, size int, parameters []topo.Parameter, file []byte) (found []string, err error) {
	before, err := newMachine(p.topo).measure(c.transfers(size))
	if err != nil || before.Transfers > maxMonotone {
		return nil, err
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
				return nil, fmt.Errorf("%s with %s %s: %w", c.name, parameter.Key, values[0], err)
			}
			slower := (direction > 0) == (factor > 1)
			if change := after.Time - before.Time; change != 0 && (change > 0) != slower {
				found = append(found, p.exception(c, parameter, values, &before, &after))
			}
		}
	}
	return found, nil
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
	name := c.name
	if len(c.sizes) > 1 {
		name += " of " + unit.FormatBytes(int64(before.Bytes))
	}
	return fmt.Sprintf("%s: %s %s instead of %s changes the slowest of %d transfers by %+.2g %%; most has to go over %s, "+
		"shared by %s arbitration: the transfers take %s instead of %s", name, n.Key, strings.Join(values, ", "),
		strings.Join(n.Values, ", "), before.Transfers, ratio, after.Bottleneck, rule, times(after), times(before))
}
