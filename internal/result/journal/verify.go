package journal

import (
	"fmt"
	"math"
	"strings"
)

// sums lists metrics that are the sum of others by definition.
var sums = []struct {
	total string
	parts []string
}{
	// The causes of the time of a simulated all-reduce.
	{"crit_ns", []string{"wire_ns", "overhead_ns", "queueing_ns", "slot_ns", "compute_ns", "memory_ns"}},
}

// tolerance is the relative difference above which two numbers of a row contradict each other. Numbers
// are stored with all their digits, so only another order of additions makes them differ.
const tolerance = 1e-9

func differ(a, b float64) bool { return math.Abs(a-b) > tolerance*max(math.Abs(a), math.Abs(b)) }

// checkNumbers recomputes the numbers of an ok row that follow from other numbers of the row. It returns
// an error if one of them is different, which names both.
func checkNumbers(r *Row) error {
	if r.Status != OK {
		return nil
	}
	us, has := r.Metrics["time_us"]
	if us < 0 {
		return fmt.Errorf("time_us is %v: no time is below zero", us)
	}
	if s, sampled := r.Stats.Find("time_us"); has && sampled && s.Max > 0 { // some rows have only an interval
		// Bodies that take their own samples, such as solves, record the fastest.
		if differ(us, s.P50) && differ(us, s.Min) {
			return fmt.Errorf("time_us is %v, but the median of its samples is %v", us, s.P50)
		}
		if s.Min > s.P50 || s.P50 > s.P90 || s.P90 > s.P99 || s.P99 > s.Max {
			return fmt.Errorf("the percentiles of time_us are not in order: %v", []float64{s.Min, s.P50, s.P90, s.P99, s.Max})
		}
	}
	for _, s := range sums {
		total, has := r.Metrics[s.total]
		if !has {
			continue
		}
		if r.Kind == Simulated && us != 0 && differ(1000*us, total) {
			return fmt.Errorf("time_us is %v, but %s is %v", us, s.total, total)
		}
		sum, all := 0.0, true
		for _, name := range s.parts {
			v, has := r.Metrics[name]
			sum, all = sum+v, all && has
		}
		if all && differ(total, sum) {
			return fmt.Errorf("%s is %v, but its parts %s add up to %v", s.total, total, strings.Join(s.parts, ", "), sum)
		}
	}
	return nil
}
