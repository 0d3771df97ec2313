package export

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// sampleStep is the resolution of stored samples, in microseconds.
const sampleStep = 1e-6

// Verifier recomputes the numbers of rows from their samples in a RUN folder.
type Verifier struct {
	dir     string
	samples samples // the latest file of a program, which many rows may share
}

// NewVerifier returns a Verifier for the rows of the RUN folder dir.
func NewVerifier(dir string) *Verifier { return &Verifier{dir: dir} }

// Verify recomputes the times of a row that ranks have measured: the median over iterations of the
// maximum over ranks. Of a row that a program printed it recomputes the median of every metric. done
// is false if the row has no stored samples.
func (v *Verifier) Verify(r *journal.Row) (done bool, err error) {
	if r.Status != journal.OK {
		return false, nil
	}
	if strings.HasSuffix(r.Raw, ".json") {
		return v.verifyPrinted(r)
	}
	if r.Raw != "" {
		if done, err = v.verifyTimed(r, headline, r.Raw); err != nil {
			return done, err
		}
	}
	for _, metric := range slices.Sorted(maps.Keys(r.Raws)) {
		also, err := v.verifyTimed(r, metric, r.Raws[metric])
		if done = done || also; err != nil {
			return done, err
		}
	}
	return done, nil
}

// verifyTimed recomputes a time, in microseconds, from the samples of all ranks.
func (v *Verifier) verifyTimed(r *journal.Row, metric, file string) (done bool, err error) {
	us, timed := r.Metrics[metric]
	if !timed {
		return false, nil
	}
	m, err := readMatrix(v.dir, file)
	if err != nil {
		return false, err
	}
	var slowest []float64
	for k := range m.Iterations() {
		slowest = append(slowest, float64(slices.Max(m.Row(k)))/1e6)
	}
	return true, compareMedian(metric, us, file, slowest, sampleStep)
}

// verifyPrinted recomputes the metrics of a row from the values that its program printed.
func (v *Verifier) verifyPrinted(r *journal.Row) (done bool, err error) {
	if err := v.samples.read(v.dir, r.Raw); err != nil {
		return false, err
	}
	printed, has := v.samples.printed[r.Key]
	if !has {
		return false, fmt.Errorf("samples/%s has no samples of this row", r.Raw)
	}
	longest := 0
	for _, metric := range slices.Sorted(maps.Keys(printed)) {
		values := slices.Concat(printed[metric]...)
		longest = max(longest, len(values))
		stored, has := r.Metrics[metric]
		switch {
		case len(values) == 0:
		case !has:
			err = fmt.Errorf("%s is missing, but samples/%s has %d samples of it", metric, r.Raw, len(values))
		default:
			err = compareMedian(metric, stored, r.Raw, values, 0)
		}
		if err != nil {
			return true, err
		}
	}
	if longest != r.Samples {
		return true, fmt.Errorf("the row has %d samples, but samples/%s has %d", r.Samples, r.Raw, longest)
	}
	return true, nil
}

// compareMedian returns an error that names both numbers if a metric is not the median of its samples
// in a file. step is the resolution of the samples.
func compareMedian(metric string, stored float64, file string, values []float64, step float64) error {
	if len(values) == 0 {
		return fmt.Errorf("samples/%s has no samples", file)
	}
	if median := stats.Median(values); math.Abs(median-stored) > max(step, 1e-9*math.Abs(stored)) {
		return fmt.Errorf("%s is %v, but the median of its samples in samples/%s is %v", metric, stored, file, median)
	}
	return nil
}
