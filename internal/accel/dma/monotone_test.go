package dma

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/texttab"
)

// monotoneFactors are the factors by which each number of a topology is changed. They keep powers of two valid.
var monotoneFactors = []float64{2, 0.5}

// Doubling and halving every number finds the ones that make contended transfers faster where they should be slower,
// because order of arrival divides a chain of merges unequally. That happens with PEs scattered over the cube and
// one UCIe connection, not with the built-in machine.
func TestMonotone(t *testing.T) {
	scattered := []byte(strings.NewReplacer("connections: 4 ", "connections: 1 ",
		"[1.5, 1.25]", "[7.5, 13.75]", "[4.5, 1.25]", "[1.5, 1.25]", "[13.5, 1.25]", "[13.5, 8.75]",
		"[16.5, 1.25]", "[4.5, 1.25]", "[1.5, 13.75]", "[7.5, 3.75]", "[4.5, 13.75]", "[4.5, 6.25]",
		"[13.5, 13.75]", "[1.5, 13.75]", "[16.5, 13.75]", "[13.5, 11.25]").Replace(string(file(t))))
	for _, c := range []struct {
		file       []byte
		name, want string
	}{{scattered, "one-port-8", "one-port-8: cube.hbm.pseudo_channels 4 instead of 8 changes the slowest of 8 " +
		"transfers by -0.19 %; most has to go over sip0.cube1.r2c0 -> ucie-W.conn0, shared by fifo arbitration: " +
		"the transfers take"},
		{file(t), "one-port-8", ""}} {
		found := must.Get(parse(t, c.file).monotone(c.file, c.name))(t)
		if c.want != "" {
			golden.Shown(t, "monotone", texttab.Wrap(strings.Fields(found[0]), 118, ""))
		}
		if got := strings.Join(found, "\n"); !strings.Contains(got, c.want) || (c.want == "") != (len(found) == 0) {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// monotone doubles and halves every number of the topology file that should make the transfers of a case faster or
// slower, and returns a sentence for each number that does the opposite. The sentence names the busiest link, how it is
// shared, and the times of the fastest and the slowest transfer, which show whether some transfers gain at the expense
// of others.
func (m *Machine) monotone(file []byte, name string) (found []string, err error) {
	all, err := topo.Parameters("built-in", file)
	if err != nil {
		return nil, err
	}
	parameters := lists.Filter(all, func(n topo.Parameter) bool { return topo.Effect(n.Key) != 0 })
	c := m.Case(name)
	before, err := m.measure(c.transfers(16 << 10))
	if err != nil {
		return nil, err
	}
	for _, parameter := range parameters {
		direction := topo.Effect(parameter.Key)
		for _, factor := range monotoneFactors {
			t, values, err := topo.Vary("built-in", file, parameter.Key, factor)
			if err != nil {
				continue // it is 0, or the changed number is not valid
			}
			t.Fabric = m.Fabric
			after, err := New(t).measure(c.transfers(16 << 10))
			if err != nil {
				return nil, fmt.Errorf("%s with %s %s: %w", name, parameter.Key, values[0], err)
			}
			slower := (direction > 0) == (factor > 1)
			if change := after.Time - before.Time; change != 0 && (change > 0) != slower {
				found = append(found, m.exception(name, parameter, values, &before, &after))
			}
		}
	}
	return found, nil
}

// exception returns the sentence for a number that has the opposite of the expected effect.
func (m *Machine) exception(name string, n topo.Parameter, values []string, before, after *Row) string {
	ratio := 100 * (float64(after.Time)/float64(before.Time) - 1)
	rule := topo.QueueingOf(m.Topology).Rule
	if rule == "" {
		rule = topo.FIFO
	}
	times := func(r *Row) string {
		return fmt.Sprintf("%.3f to %.3f ns", r.Fastest.Nanoseconds(), r.Time.Nanoseconds())
	}
	return fmt.Sprintf("%s: %s %s instead of %s changes the slowest of %d transfers by %+.2g %%; most has to go over %s, "+
		"shared by %s arbitration: the transfers take %s instead of %s", name, n.Key, strings.Join(values, ", "),
		strings.Join(n.Values, ", "), before.Transfers, ratio, after.Bottleneck, rule, times(after), times(before))
}
