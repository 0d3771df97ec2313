package imports

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/bandwidth"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
)

// tags matches the prefixes that launchers put before each line of a rank's output:
// mpirun --tag-output writes "[1,0]<stdout>:", and PRRTE adds the name of the job.
var tags = regexp.MustCompile(`(?m)^\[(?:[^\]\s]*@)?\d+,\s?\d+\](?:\[[^\]\n]*\])?<std(?:out|err|diag)>: ?`)

// Signs of a damaged file: a template that was never filled in, and UTF-8 that was decoded
// with another encoding.
var (
	unfilled  = regexp.MustCompile(`\$\([^()\n]+\)|\$\{\w+\}`)
	misread   = regexp.MustCompile("\uFFFD|‚Ä|√ó|â€|Ã[\u0080-\u00BF]")
	aboutText = []struct {
		sign *regexp.Regexp
		says string
	}{
		{unfilled, "was never filled in: the file does not say what it stands for"},
		{misread, "is text in a wrong encoding: the file went through a program that changed it"},
	}
)

// damaged returns a note with the line number for each kind of damage in the text.
func damaged(text string) (notes []string) {
	for _, a := range aboutText {
		if at := a.sign.FindStringIndex(text); at != nil {
			notes = append(notes, fmt.Sprintf("line %d: %q %s", 1+strings.Count(text[:at[0]], "\n"), text[at[0]:at[1]], a.says))
		}
	}
	return notes
}

// check marks records that contradict themselves as failed, because it is unknown which of their numbers
// is wrong. It warns about bandwidths that no link reaches, and notes repeated points.
func (f *File) check() {
	first := map[string]int{}
	again, example := 0, ""
	for i := range f.Records {
		r := &f.Records[i]
		if r.Status != journal.OK {
			continue
		}
		if fault := r.contradiction(); fault != "" {
			r.Status, r.Reason = journal.Failed, fmt.Sprintf("line %d: %s", r.Line, fault)
			continue
		}
		if text := r.beyondLinks(); text != "" {
			r.Remarks = append(r.Remarks, journal.Remarkf("line %d: %s", r.Line, text))
		}
		key := fmt.Sprint(r.point(), r.Ranks, r.Backend)
		at, twice := first[key]
		if !twice {
			first[key] = r.Line
			continue
		}
		if again++; again == 1 {
			example = fmt.Sprintf("on lines %d and %d", at, r.Line)
		}
	}
	if again > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%s of points measured more than once (first %s): they are "+
			"trials of one point, and their median time counts", unit.Plural(again, "result"), example))
	}
}

// Tolerances between a printed bandwidth and the one computed from size and time.
const (
	printed = 0.006 // half of the last printed digit, in GB/s and us
	rounded = 0.02  // relative rounding by people
)

// contradiction describes which numbers of the record cannot all be true, "" if they can.
func (r *Record) contradiction() string {
	us, timed := r.Metrics["time_us"]
	switch {
	case !timed:
		return ""
	case us == 0:
		return "the time is 0: nothing was timed, or its digits were cut off"
	case r.High > 0 && (r.Low > us || r.High < us):
		return fmt.Sprintf("the interval from %s to %s does not contain the time, %s", unit.FormatMicros(r.Low),
			unit.FormatMicros(r.High), unit.FormatMicros(us))
	case r.inOrder() != "":
		return r.inOrder()
	case r.checkCount() != "":
		return r.checkCount()
	case r.Size == 0:
		return ""
	}
	expect := bandwidth.Alg(r.Size, us)
	for _, column := range []string{"algbw", "busbw"} {
		if column == "busbw" {
			factor, known := bandwidth.Factor(r.Op, r.Ranks)
			if !known {
				continue
			}
			expect *= factor
		}
		got, has := r.Metrics[column]
		if has && math.Abs(got-expect) > printed+expect*(rounded+printed/us) {
			return fmt.Sprintf("%s is %s GB/s, but %d bytes in %s give %s GB/s: one of them is wrong",
				column, unit.FormatSig(got, 4), r.Size, unit.FormatMicros(us), unit.FormatSig(expect, 4))
		}
	}
	return ""
}

// beyondLinks returns a warning if no known link is fast enough for the record's time. For
// an all-reduce it assumes the least traffic that any algorithm needs.
func (r *Record) beyondLinks() string {
	factor, known := bandwidth.Factor(r.Op, r.Ranks)
	if !known || r.Ranks < 2 || r.Size == 0 || r.Kind != journal.Measured || dist.Describe(r.Backend).HostMemory {
		return ""
	}
	traffic := factor * float64(r.Size)
	if r.Op == "allreduce" {
		traffic = model.LeastTraffic(r.Ranks, r.Size)
	}
	fastest := model.FastestLink()
	rate := traffic / r.Metrics["time_us"] / 1e3
	if rate <= fastest.Raw {
		return ""
	}
	return fmt.Sprintf("%s GB/s for each rank is more than any known link carries (%s, %s GB/s raw): check the time, "+
		"its unit and the size",
		unit.FormatSig(rate, 4), fastest.Name, unit.FormatSig(fastest.Raw, 3))
}
