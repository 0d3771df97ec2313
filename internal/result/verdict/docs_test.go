package verdict

import (
	"bytes"
	"testing"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TestDocumentedCheck compares the example in docs/baseline.md with the output of a check of simulated
// rows. -update rewrites it.
func TestDocumentedCheck(t *testing.T) {
	runs := nights(9)
	each(runs, -1, func(r *journal.Row) {
		size := point.BytesValue(64 << 10 << (2 * r.Point[0].Value.Int()))
		r.Bench, r.Point = "memory", point.Point{{Name: "op", Value: point.StringValue("copy")}, {Name: "size", Value: size}}
	})
	var out bytes.Buffer
	must.Do(t, must.Get(Check(runs[:8], runs[8:], Options{}))(t).Write(&out, "table", "", 0))
	golden.Shown(t, "baseline-check", out.String())
}
