package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// By compares values of an axis, a variable or an option within one run: the first one
// with each of the others. spec is its name, or NAME=A,B for these values in this order.
// The chance of a false verdict is shared among the comparisons.
func By(run Run, spec string, opts Options) ([]Report, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	name, list, chosen := strings.Cut(spec, "=")
	if known := rowset.CoordNames(run.Rows); !slices.Contains(known, name) {
		return nil, suggest.Unknown("coordinate of this run", name, known)
	}
	parts := map[string]*Run{}
	var values []string
	for i := range run.Rows {
		value, has := rowset.CoordText(&run.Rows[i], name)
		if !has {
			continue
		}
		if parts[value] == nil {
			parts[value] = &Run{Header: run.Header, Name: name + "=" + value}
			values = append(values, value)
		}
		parts[value].Rows = append(parts[value].Rows, run.Rows[i])
	}
	if chosen {
		asked := strings.Split(list, ",")
		for _, value := range asked {
			if parts[value] == nil {
				return nil, suggest.Unknown("value of "+name, value, values)
			}
		}
		values = asked
	}
	if len(values) < 2 {
		return nil, fmt.Errorf("%s has no two values to compare, only %s", name, strings.Join(values, ", "))
	}
	opts.Ignore = append(slices.Clip(opts.Ignore), name)
	opts.Alpha /= float64(len(values) - 1)
	var reports []Report
	for _, value := range values[1:] {
		report, err := Compare(*parts[values[0]], *parts[value], opts)
		if err != nil {
			return nil, err
		}
		if run.Incomplete != "" { // of the run as a whole: which value lacks points is in the table
			report.Warnings = slices.Insert(report.Warnings, 0, "the run: "+run.Incomplete)
		}
		reports = append(reports, report)
	}
	return reports, nil
}
