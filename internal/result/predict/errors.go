package predict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// Ways to measure the error of a prediction, from the easiest to the hardest. Each states which times were
// left out of the fit.
const (
	ByInterpolation = "interpolation between measured sizes"
	ByRankCount     = "left-out rank count"
	ByNodeCount     = "left-out node count"
	ByGPU           = "left-out GPU kind"
	ByGeneration    = "left-out generation of NVLink"
)

// NotValidated labels predictions whose error has not been measured.
const NotValidated = "not validated"

// ErrorStats summarises the relative errors |prediction/time - 1| on times that the fit has
// not seen.
type ErrorStats struct {
	By     string  `json:"by"` // what was left out of the fit
	Op     string  `json:"op,omitempty"`
	Points int     `json:"points"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"` // 90th percentile
}

// String returns the errors as a sentence.
func (e ErrorStats) String() string {
	return fmt.Sprintf("median error %.0f %%, 90th percentile %.0f %%, on %s (%s)", 100*e.Median, 100*e.P90,
		unit.Plural(e.Points, "time"), e.By)
}

func newErrorStats(by string, errors []float64) ErrorStats {
	errors = slices.Sorted(slices.Values(errors))
	return ErrorStats{By: by, Points: len(errors), Median: stats.Median(errors),
		P90: errors[min(len(errors)-1, len(errors)*9/10)]}
}

// Validation is the error to expect of a prediction, or the reason why it is not known.
type Validation struct {
	ErrorStats
	Reason string // "" if the error is known
}

// Known reports whether the error is known.
func (v Validation) Known() bool { return v.Reason == "" }

// String returns the error as a sentence, or why it is not known.
func (v Validation) String() string {
	if !v.Known() {
		return NotValidated + ": " + v.Reason
	}
	return v.ErrorStats.String()
}

// maxBeyond limits how far a prediction may lie beyond the measured node counts and still
// count as validated: by one doubling.
const maxBeyond = 1.0

// Validate returns the error to expect of a prediction. ownChoice means that it is for the
// library's own choice of algorithm and protocol, which is all that was measured. The 90th
// percentile grows with the distance from the measured node counts.
func (c *Cluster) Validate(op string, bytes int64, ownChoice bool) Validation {
	if c.Calibration != nil && ownChoice {
		return c.Calibration.validate(c, op)
	}
	by, beyond, reason := c.basis(op, bytes, ownChoice)
	if reason != "" {
		return Validation{Reason: reason}
	}
	e, ok := lists.First(fitted().Errors, func(e ErrorStats) bool { return e.By == by && e.Op == op })
	if !ok {
		return Validation{Reason: "no measured " + op + " to leave out"}
	}
	e.P90 *= 1 + beyond
	return Validation{ErrorStats: e}
}

// basis returns the way in which a prediction's error was measured, and how many doublings
// of the node count lie between the prediction and the measured times.
func (c *Cluster) basis(op string, bytes int64, ownChoice bool) (by string, beyond float64, reason string) {
	if !ownChoice {
		return "", 0, "the measured times are of the library's own choice of algorithm and protocol"
	}
	same := c.Measured(op)
	related := same
	if len(related) == 0 {
		related = lists.Filter(Points(), func(p Point) bool { return p.Op == op && (p.Nodes > 1) == (c.Nodes > 1) })
	}
	if len(related) > 0 && (bytes < related[0].Bytes || bytes > related[len(related)-1].Bytes) {
		return "", 0, fmt.Sprintf("measured sizes go from %s to %s", unit.FormatBytes(related[0].Bytes),
			unit.FormatBytes(related[len(related)-1].Bytes))
	}
	switch {
	case len(same) > 0:
		return ByInterpolation, 0, ""
	case c.Nodes > 1:
		return c.networkBasis(op)
	}
	if c.GPUs > maxMeasuredGPUs {
		return "", 0, fmt.Sprintf("no measured times of more than %d GPUs in a node", maxMeasuredGPUs)
	}
	fits := fitted().GPUs
	if !slices.ContainsFunc(fits, func(g gpuFit) bool { return g.Kind == c.GPU }) {
		if slices.ContainsFunc(fits, func(g gpuFit) bool { return g.NVLink == c.NVLink }) {
			return ByGPU, 0, ""
		}
		return ByGeneration, 0, ""
	}
	return ByRankCount, 0, ""
}

// maxMeasuredGPUs is the largest number of GPUs in a node of Points.
const maxMeasuredGPUs = 8

// networkBasis is basis for several nodes that were not measured themselves.
func (c *Cluster) networkBasis(op string) (by string, beyond float64, reason string) {
	maxNodes := 0
	for _, p := range Points() {
		if p.Nodes > 1 && p.Op == op && c.likeNetworkOf(p.GPU) && p.Ranks/p.Nodes == c.GPUs {
			maxNodes = max(maxNodes, p.Nodes)
		}
	}
	if maxNodes == 0 {
		return "", 0, fmt.Sprintf("no measured %s between nodes like these", op)
	}
	beyond = max(0, math.Log2(float64(c.Nodes)/float64(maxNodes)))
	if beyond > maxBeyond {
		return "", 0, fmt.Sprintf("measured times reach %d nodes", maxNodes)
	}
	return ByNodeCount, beyond, ""
}

// likeNetworkOf reports whether nodes have the links and the network of a built-in kind.
func (c *Cluster) likeNetworkOf(kind string) bool {
	other := nodeOf(kind)
	return c.NVLink == other.NVLink && c.Network == other.Network && c.NICs == other.NICs && c.NICGBs == other.NICGBs
}

// SystemErrors holds the errors of one system that was left out of the fit.
type SystemErrors struct {
	By     string
	System string
	Op     string
	errors []float64
}

// LeaveOut fits the model again and again, each time without one rank count, GPU kind, node
// count or every second size, and returns the errors on the times left out by system and
// operation. It takes some seconds.
func LeaveOut() []SystemErrors {
	one := lists.Filter(Points(), func(p Point) bool { return p.Nodes == 1 })
	several := lists.Filter(Points(), func(p Point) bool { return p.Nodes > 1 })
	var out []SystemErrors
	test := func(by, system string, inFit func(p Point) bool) {
		m := fit(lists.Filter(one, inFit))
		left := lists.Filter(one, func(p Point) bool { return !inFit(p) })
		out = append(out, m.errorsOn(by, system, left)...)
	}
	for _, n := range lists.Distinct(lists.Map(one, func(p Point) int { return p.Ranks })) {
		test(ByRankCount, fmt.Sprintf("%d ranks of all GPUs", n), func(p Point) bool { return p.Ranks != n })
	}
	for _, kind := range measuredKinds() {
		test(ByGPU, kind, func(p Point) bool { return p.GPU != kind })
	}
	for _, g := range lists.GroupBy(measuredKinds(), func(kind string) int { return nodeOf(kind).NVLink }) {
		test(ByGeneration, fmt.Sprintf("NVLink %d", g.Key), func(p Point) bool { return !slices.Contains(g.Items, p.GPU) })
	}
	m := fit(one)
	for _, n := range lists.Distinct(lists.Map(several, func(p Point) int { return p.Nodes })) {
		left := lists.Filter(several, func(p Point) bool { return p.Nodes == n })
		out = append(out, m.errorsOn(ByNodeCount, fmt.Sprintf("%s of %s", unit.Plural(n, "node"), left[0].GPU), left)...)
	}
	return append(out, interpolationErrors(Points())...)
}

// errorsOn returns the errors of the plain model on points, by operation.
func (m *costModel) errorsOn(by, system string, points []Point) (out []SystemErrors) {
	for _, g := range lists.GroupBy(points, func(p Point) string { return p.Op }) {
		out = append(out, SystemErrors{by, system, g.Key, lists.Map(g.Items, func(p Point) float64 {
			c := p.cluster()
			cost, _ := m.gpu(c.GPU, c.NVLink)
			return math.Abs(c.best(&cost, &m.Library, p.Op, Best, Best, p.Bytes).US/p.US - 1)
		})})
	}
	return out
}

// cluster returns the system on which a point was measured.
func (p Point) cluster() *Cluster {
	c := *nodeOf(p.GPU)
	c.Nodes, c.GPUs = p.Nodes, p.Ranks/p.Nodes
	return &c
}

// interpolationErrors leaves out every second size of each series, if it lies between two others, fits and interpolates
// the rest, and returns the errors on the sizes left out.
func interpolationErrors(points []Point) (out []SystemErrors) {
	type series struct {
		gpu, op      string
		nodes, ranks int
	}
	groups := lists.GroupBy(points, func(p Point) series { return series{p.GPU, p.Op, p.Nodes, p.Ranks} })
	for half := range 2 {
		var training, test []Point
		for _, g := range groups {
			for i, p := range g.Items {
				if i%2 == half || i == 0 || i == len(g.Items)-1 {
					training = append(training, p)
				} else {
					test = append(test, p)
				}
			}
		}
		m := fit(training)
		for _, g := range lists.GroupBy(test, func(p Point) series { return series{p.GPU, p.Op, p.Nodes, p.Ranks} }) {
			around := lists.Filter(training, func(p Point) bool {
				return g.Key == series{p.GPU, p.Op, p.Nodes, p.Ranks}
			})
			c := g.Items[0].cluster()
			cost, _ := m.gpu(c.GPU, c.NVLink)
			out = append(out, SystemErrors{ByInterpolation, "every second size", g.Key.op,
				lists.Map(g.Items, func(p Point) float64 {
					us := c.best(&cost, &m.Library, p.Op, Best, Best, p.Bytes).US * m.correction(c, p.Op, around, p.Bytes)
					return math.Abs(us/p.US - 1)
				})})
		}
	}
	return out
}

// ErrorTable returns the errors as a Markdown table: each system that was left out over all
// operations, then all systems by operation.
func ErrorTable(list []SystemErrors) string {
	return errorTable(summarizeSystems(list), summarizeOps(list))
}

func errorTable(systems, ops []ErrorStats) string {
	var b strings.Builder
	b.WriteString("| validated by | left out | times | median error | 90th percentile |\n|---|---|---|---|---|\n")
	for _, e := range slices.Concat(systems, ops) {
		fmt.Fprintf(&b, "| %s | %s | %d | %.1f %% | %.1f %% |\n", e.By, e.Op, e.Points, 100*e.Median, 100*e.P90)
	}
	return b.String()
}

// summarizeOps returns the errors of everything that was left out in the same way, for each
// operation.
func summarizeOps(list []SystemErrors) []ErrorStats {
	return summarize(list, func(l SystemErrors) string { return l.Op })
}

// summarizeSystems returns the errors of each system that was left out, over all operations.
// The name of the system is in the field Op.
func summarizeSystems(list []SystemErrors) []ErrorStats {
	return summarize(list, func(l SystemErrors) string { return l.System })
}

// summarize summarizes the errors by what was left out and a key.
func summarize(list []SystemErrors, key func(SystemErrors) string) []ErrorStats {
	type group struct{ by, key string }
	groups := lists.GroupBy(list, func(l SystemErrors) group { return group{l.By, key(l)} })
	return lists.Map(groups, func(g lists.Group[group, []SystemErrors]) ErrorStats {
		var all []float64
		for _, l := range g.Items {
			all = append(all, l.errors...)
		}
		e := newErrorStats(g.Key.by, all)
		e.Op = g.Key.key
		return e
	})
}
