package accuracy

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// TestDocumented compares the tables of docs/workload.md with the results. The larger step takes too long for a test,
// so only its published time is compared.
func TestDocumented(t *testing.T) {
	doc := string(must.Get(os.ReadFile("../../../docs/workload.md"))(t))
	if table := Table(must.Get(Collectives())(t)); !strings.Contains(doc, table) {
		t.Errorf("docs/workload.md does not have this table of 'kernbench predict errors --simulated':\n%s", table)
	}
	small := must.Get(compare(steps[0]))(t)
	if row := stepRow(small); !strings.Contains(doc, row) {
		t.Errorf("docs/workload.md does not have the step %s", row)
	}
	for _, s := range steps {
		published := Comparison{System: s.cluster, What: s.step.Model.Title, Published: 1e6 * s.seconds}
		if row, _, _ := strings.Cut(stepRow(published), " 0.00 s"); !strings.Contains(doc, row) {
			t.Errorf("docs/workload.md does not have %s", row)
		}
	}
}

// TestTable checks the medians of known differences.
func TestTable(t *testing.T) {
	var list []Comparison
	for _, c := range []struct {
		bytes int64
		us    float64
	}{{1 << 10, 110}, {64 << 10, 120}, {64<<10 + 1, 50}, {16 << 20, 100}} {
		list = append(list, Comparison{System: "x", What: "allreduce", Bytes: c.bytes, Published: 100, Simulated: c.us})
	}
	want := "| x | allreduce | 4 | +15 % | -50 % | +0 % | 15 % | 50 % |\n"
	if got := Table(list); !strings.HasSuffix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestUtilization checks the published steps against the model FLOPs utilization that the same paper publishes:
// 72 B s l h² (1 + s/6h + V/12lh) operations over the time and 312 TFLOP/s of each GPU (its appendix A). It finds a
// mistyped digit.
func TestUtilization(t *testing.T) {
	for i, want := range []float64{0.415, 0.514} {
		s := steps[i]
		m := s.step.Model
		b, seq := float64(s.step.Batch*s.step.MicroBatches), float64(s.step.Sequence)
		l, h := float64(m.Layers), float64(m.Hidden)
		ops := 72 * b * seq * l * h * h * (1 + seq/(6*h) + 51200/(12*l*h))
		if got := ops / (s.seconds * 312e12 * float64(s.step.Ranks())); math.Abs(got-want) > 0.002 {
			t.Errorf("%s: %.4f, published %g", m.Title, got, want)
		}
	}
}
