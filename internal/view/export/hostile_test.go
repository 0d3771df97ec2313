package export

import (
	"encoding/csv"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TestForgedLines puts line ends, tabs and escape sequences into every text of two rows: no format may
// print a line that the text forges, or a control character.
func TestForgedLines(t *testing.T) {
	const evil = "x\nFORGED 1 ok\r\nFORGED\x1b[31m\u2028FORGED\tFORGED\u202e\u009b|`<b>"
	var rows []journal.Row
	for i := range 2 {
		varying := evil + strings.Repeat("!", i)
		rows = append(rows, journal.Row{Bench: evil, Part: evil, Backend: evil, Status: journal.OK, Kind: journal.Measured,
			Point: point.Point{{Name: evil, Value: point.StringValue(varying)},
				{Name: "constant", Value: point.StringValue(evil)}},
			Env:     point.Env{{Name: evil, Value: varying, Set: true}, {Name: evil + "2", Value: evil, Set: true}},
			Options: point.Point{{Name: evil, Value: point.StringValue(varying)}}, Host: evil, Key: evil,
			Metrics: map[string]float64{evil: 1, "time_us": 2}, Units: map[string]string{evil: evil},
			Limits: map[string]float64{evil: 3}, Conditions: []journal.Condition{journal.Remarkf("%s", evil)},
			Details: map[string]string{journal.TopologyDetail: evil},
			Samples: 3, Sampling: &journal.Sampling{Stopped: evil}})
	}
	failed := rows[0]
	failed.Status, failed.Reason, failed.Phase, failed.Metrics = journal.Failed, evil, evil, nil
	failed.Point = point.Point{{Name: evil, Value: point.StringValue("third")}}
	rows = append(rows, failed)
	header := &journal.Header{Run: evil, Bench: evil, Axes: []journal.AxisInfo{{Name: evil, Kind: point.String}},
		Envs: []string{evil}, Metrics: []journal.MetricInfo{{Name: evil, Unit: evil, Better: "lower"}}}
	for _, h := range []*journal.Header{header, nil} {
		for _, name := range lists.Filter(Formats.Names(), func(name string) bool { return name != "logfmt" }) { // of a test
			for _, opts := range []Options{{}, {Width: 60}, {PerTrial: true}} {
				var b strings.Builder
				if err := Write(&b, name, Input{Header: h, Rows: dataset.All(rows)}, opts); err != nil {
					if name != "nccl-tests" { // which needs collectives
						t.Errorf("%s: %v", name, err)
					}
					continue
				}
				text := b.String()
				if name == "csv" { // a quoted field may have several lines
					records := must.Get(csv.NewReader(strings.NewReader(text)).ReadAll())(t)
					if len(records) != len(rows)+1 || strings.ContainsAny(text, "\x1b\u202e\u009b") {
						t.Errorf("csv has %d records:\n%q", len(records), text)
					}
					continue
				}
				for line := range strings.Lines(text) {
					if strings.HasPrefix(strings.TrimLeft(line, " |*#-"), "FORGED") ||
						strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\x1b\r\n\u2028") ||
						!strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") && // JSON is for programs
							strings.ContainsAny(line, "\u202e\u009b") {
						t.Errorf("%s %+v prints %q", name, opts, line)
					}
				}
			}
		}
	}
}
