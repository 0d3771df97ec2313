package imports

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// A log is evidence: what it says about the whole run must agree with its rows.

var (
	ncclRange   = regexp.MustCompile(`\bminBytes (\d+) maxBytes (\d+) step: (\d+)\((factor|bytes)\)`)
	ncclReduced = regexp.MustCompile(`Reducing maxBytes to (\d+)`)
	ncclAverage = regexp.MustCompile(`Avg bus bandwidth\s*:\s*([0-9.]+)`)

	// launcherFailure matches the messages of launchers and systems about a program that did not
	// end by itself.
	launcherFailure = regexp.MustCompile(`MPI_ABORT was invoked|MPI_Abort\(|BAD TERMINATION|` +
		`(?i:mpirun|prterun|mpiexec)\S* (?:noticed that process|has exited due to)|Primary job +terminated|` +
		`srun: error: |slurmstepd: error: |Segmentation fault|Caught signal \d+|CANCELLED AT|Out Of Memory`)
)

// sizeRange holds the sizes that a run was asked for. The zero value means that they are unknown.
type sizeRange struct {
	min, max, step int64
	factor         bool // step multiplies
}

// maxSizes limits the number of missing rows that a damaged header can ask for.
const maxSizes = 10000

// list returns the sizes in order.
func (s sizeRange) list() (sizes []int64) {
	if s.min < 1 || s.factor && s.step < 2 || s.step < 1 {
		return nil
	}
	for size := s.min; size <= s.max && len(sizes) < maxSizes; {
		sizes = append(sizes, size)
		if !s.factor {
			size += s.step
		} else if size > math.MaxInt64/s.step {
			break
		} else {
			size *= s.step
		}
	}
	return sizes
}

// ncclSizes updates the range from a comment of nccl-tests.
func (s *sizeRange) ncclSizes(line string) {
	number := func(text string) int64 { n, _ := strconv.ParseInt(text, 10, 64); return n }
	if m := ncclRange.FindStringSubmatch(line); m != nil {
		*s = sizeRange{number(m[1]), number(m[2]), number(m[3]), m[4] == "factor"}
	}
	if m := ncclReduced.FindStringSubmatch(line); m != nil {
		s.max = min(s.max, number(m[1]))
	}
}

// missingSizes returns the sizes that no line has. Tools round sizes down to whole elements for
// each rank, so the line of a size may have less by up to rounding bytes.
func missingSizes(sizes []int64, records []Record, rounding int64) (missing []int64) {
	left := map[int64]int{}     // number of lines of each size that no size has taken yet
	for i, r := range records { // a line has a record for each place
		if i == 0 || r.Line != records[i-1].Line || r.Size != records[i-1].Size {
			left[r.Size]++
		}
	}
	var inexact []int64
	for _, size := range sizes {
		if left[size] > 0 {
			left[size]--
		} else {
			inexact = append(inexact, size)
		}
	}
	for _, size := range inexact {
		found := int64(-1)
		for other, lines := range left {
			if lines > 0 && other < size && size-other <= rounding && other > found {
				found = other
			}
		}
		if found < 0 {
			missing = append(missing, size)
		} else {
			left[found]--
		}
	}
	return missing
}

func sizeSet(records []Record) map[int64]bool {
	set := map[int64]bool{}
	for _, r := range records {
		set[r.Size] = true
	}
	return set
}

// addMissing adds a record for each size that the run was asked for and the log does not have.
// They were not executed; if the run ended in a failure, the first of them failed. table has
// the records of one table, which are complete. last is the number of its last line.
func addMissing(table []Record, sizes []int64, last int, failure string) (out []Record) {
	type series struct{ dtype, reduction, extra string }
	groups := map[series][]Record{}
	var order []series
	places := map[bool]bool{}
	for _, r := range table {
		key := series{r.DType, r.Reduction, r.Extra.String()}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], r)
		places[r.InPlace] = true
	}
	for _, key := range order {
		like := groups[key][0]
		rounding := int64(16 * max(like.Ranks, 1)) // nccl-tests aligns parts to 16 bytes
		for _, size := range missingSizes(sizes, groups[key], rounding) {
			for _, inPlace := range []bool{false, true} {
				if !places[inPlace] {
					continue
				}
				r := like
				r.Line, r.Size, r.InPlace, r.Metrics = last, size, inPlace, map[string]float64{}
				r.Status, r.Samples, r.Count, r.Remarks = journal.NotExecuted, 0, "", nil
				r.Reason = fmt.Sprintf("the run covers this size, but the log ends at line %d without a row of it", last)
				if failure != "" {
					r.Reason = failure
					if len(out) == 0 && !slices.ContainsFunc(table, func(r Record) bool { return r.Reason == failure }) {
						r.Status = journal.Failed
					}
				}
				out = append(out, r)
			}
		}
	}
	return out
}

// missingNote describes the sizes that a table lacks, "" if there is none.
func missingNote(missing []Record) string {
	if len(missing) == 0 {
		return ""
	}
	sizes := slices.Sorted(maps.Keys(sizeSet(missing)))
	return fmt.Sprintf("%s from %s to %s are missing in the log", unit.Counted(len(sizes), "size", "sizes"),
		unit.FormatBytes(sizes[0]), unit.FormatBytes(sizes[len(sizes)-1]))
}

// checkCount describes a contradiction between the column count and the size, "" if there is
// none. Operations that exchange parts count the elements of one rank's part.
func (r *Record) checkCount() string {
	count, err := strconv.ParseInt(r.Count, 10, 64)
	d, unknown := dtype.Parse(r.DType)
	if err != nil || unknown != nil || count < 0 || count > math.MaxInt64/int64(d.Size())/int64(max(r.Ranks, 1)) {
		return ""
	}
	bytes := count * int64(d.Size())
	vector := bytes
	switch r.Op {
	case "allgather", "reduce_scatter", "alltoall", "gather", "scatter":
		vector = bytes * int64(r.Ranks)
	}
	if r.Size == bytes || r.Size == vector {
		return ""
	}
	return fmt.Sprintf("the size is %d bytes, but a count of %d elements of %s is %d bytes: one of them is wrong", r.Size,
		count, r.DType, vector)
}

// average is the mean bus bandwidth at the end of a run.
type average struct {
	line  int
	value float64
}

// check marks all records as failed if their mean bus bandwidth differs from the one that the tool
// printed, because it is unknown which record was changed.
func (a average) check(records []Record) {
	sum, n := 0.0, 0
	for _, r := range records {
		if r.contradiction() != "" {
			return // this record is the wrong one
		}
		if v, has := r.Metrics["busbw"]; has {
			sum += v
			n++
		}
	}
	// The numbers are rounded, and the tool prints six digits of large ones.
	if a.line == 0 || n == 0 || math.Abs(sum/float64(n)-a.value) <= 2*printed+1e-4*a.value {
		return
	}
	for i := range records {
		if r := &records[i]; r.Status == journal.OK {
			r.Status = journal.Failed
			r.Reason = fmt.Sprintf("line %d: the average bus bandwidth is %s GB/s, but the rows have an average of %s GB/s: "+
				"rows were removed or changed", a.line, unit.FormatSig(a.value, 4), unit.FormatSig(sum/float64(n), 4))
		}
	}
}

// inOrder describes a contradiction between the least, the mean and the greatest time, "" if
// there is none.
func (r *Record) inOrder() string {
	avg, has := r.Metrics["avg_us"]
	if !has {
		return ""
	}
	lowest, highest := avg, avg
	if v, has := r.Metrics["min_us"]; has {
		lowest = v
	}
	if v, has := r.Metrics["max_us"]; has {
		highest = v
	}
	if lowest <= avg+printed && avg <= highest+printed {
		return ""
	}
	return fmt.Sprintf("the times are not in order: min %s µs, avg %s µs, max %s µs", unit.FormatSig(lowest, 4),
		unit.FormatSig(avg, 4), unit.FormatSig(highest, 4))
}

// logNote returns a note about how many lines of NCCL's log were skipped, or "" if none was.
func logNote(skipped int) string {
	if skipped == 0 {
		return ""
	}
	return unit.Counted(skipped, "line of NCCL's log was skipped", "lines of NCCL's log were skipped")
}
