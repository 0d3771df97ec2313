package machine

import (
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/dist/instrument"
)

// faultOptions returns the kinds of faults that the machines of some backend may have: names and help.
func faultOptions() [][2]string {
	for _, name := range dist.Backends(nil) {
		if r, ok := dist.As[instrument.FaultReader](name); ok {
			return r.FaultOptions()
		}
	}
	return nil
}

// FaultOptions declares the options for faults of a simulated machine. Each can be swept.
func FaultOptions() (out []bench.Clause) {
	for _, kind := range faultOptions() {
		out = append(out, bench.Sweepable(bench.Option(kind[0], bench.KindString, "",
			"on a simulated network: "+kind[1]+"; none for a healthy machine")))
	}
	return out
}

// FaultMetrics documents the metrics of simulated networks.
func FaultMetrics() []bench.Clause {
	return []bench.Clause{bench.Reports("fault_cost_us", "us", "time that all faults of the machine cost"),
		bench.Reports("energy_uj", "uJ", "energy, if the network file has energies")}
}

// noFault is the value of an option for a healthy machine, for sweeps over it and faults.
const noFault = "none"

// faultsOf returns the faults of a point as an arrangement, and the name of an option that has one.
func faultsOf(p, options bench.Point) (text, option string) {
	var list []string
	for _, kind := range faultOptions() {
		if v := point.ValueOf(p, options, kind[0]); v.String() != "" && v.String() != noFault {
			list, option = append(list, kind[0]+"="+v.String()), kind[0]
		}
	}
	return strings.Join(list, ";"), option
}

// Faults returns the faults of a point's machine, in the notation of an arrangement, and the name of an option that has
// one. Both are "" for a healthy machine.
func Faults(p, options bench.Point) (text, option string) {
	if text, option = arrangement(p, options); option != Arrangement {
		return text, option
	}
	return "", ""
}

// IsFault reports whether an option is for faults.
func IsFault(option string) bool {
	return slices.ContainsFunc(faultOptions(), func(kind [2]string) bool { return kind[0] == option })
}

// Explain records the other results of a simulated call in the row.
func Explain(s *bench.State, g *dist.Group, p dist.Plan) error {
	more, err := instrument.Explain(g, p)
	Record(s, more)
	return err
}

// Record records an explanation in the row.
func Record(s *bench.State, more instrument.Explanation) {
	for _, m := range more.Metrics {
		s.Report(m.Name, m.Value, m.Unit, m.Better)
	}
	for name, text := range more.Details {
		s.Detail(name, text)
	}
}
