package export

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// sampleStep is the resolution of stored samples, in microseconds.
const sampleStep = 1e-6

// VerifyRow recomputes time_us of a row from its samples in the RUN folder dir: the median over
// iterations of the maximum over ranks. done is false if the row has no such samples.
func VerifyRow(dir string, r *journal.Row) (done bool, err error) {
	us, timed := r.Metrics[headline]
	if r.Status != journal.OK || !timed || r.Raw == "" || strings.HasSuffix(r.Raw, ".json") {
		return false, nil
	}
	raw, err := journal.ReadRaw(dir, r.Raw)
	if err != nil {
		return false, err
	}
	var m measure.Matrix
	if err := m.UnmarshalBinary(raw); err != nil {
		return false, fmt.Errorf("samples/%s: %w", r.Raw, err)
	}
	var slowest []float64
	for k := range m.Iterations() {
		slowest = append(slowest, float64(slices.Max(m.Row(k)))/1e6)
	}
	if len(slowest) == 0 {
		return false, fmt.Errorf("samples/%s has no samples", r.Raw)
	}
	if median := stats.Median(slowest); math.Abs(median-us) > max(sampleStep, 1e-9*us) {
		return true, fmt.Errorf("%s is %v, but the median of its samples in samples/%s is %v", headline, us, r.Raw, median)
	}
	return true, nil
}
