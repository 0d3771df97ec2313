package imports

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/nccltable"
)

func init() {
	Formats.Register(Format{Name: "nccl-tests",
		Help: "tables or JSON of nccl-tests and rccl-tests, and kernbench's own of that format", Read: readNCCLTests,
		Example: "all_reduce.txt --out out/nccl --link nvlink-h100"})
}

// The output of nccl-tests and rccl-tests, and of kernbench's own format of that name,
// consists of tables (package nccltable) with comment lines above them:
//
//	# nThread 1 nGpus 8 ... iters: 20 ...
//	# Using devices
//	#  Rank  0 Group  0 Pid  123 on host device  0 [0x0f] NVIDIA H100

var (
	ncclPerf  = regexp.MustCompile(`\b([a-z_]+)_perf\b`)
	ncclRank  = regexp.MustCompile(`^#\s+Rank\s+(\d+)\b.*?\bPid\s+(?:\d+|N/A) on\s+(\S+) device\s+\d+ \[[^\]]*\]\s*(.*)$`)
	ncclIters = regexp.MustCompile(`[^a-z] iters: (\d+)`)
	// ncclOutside matches the footer of a run with wrong values.
	ncclOutside = regexp.MustCompile(`Out of bounds values\s*:\s*\d+\s+FAILED`)
	ncclWord    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*=`)
)

// ncclPreamble holds the content of the comments before a table.
type ncclPreamble struct {
	op      string
	ranks   map[int]bool // listed ranks
	count   int          // num_ranks in kernbench's own heading; 0 otherwise
	host    string
	device  string
	iters   int
	rccl    bool
	time    string      // meaning of the column time
	own     point.Point // coordinates in kernbench's own heading
	sizes   sizeRange
	average average
	failure string // the message with which the run ended; "" if it ended well
	line    int    // number of the last line of the run
}

// ncclMean describes the times of nccl-tests itself.
const ncclMean = "mean over iterations issued back to back, as nccl-tests reports it"

func readNCCLTests(text string, g Given) (File, error) {
	if ncclJSON(text) {
		return readNCCLJSON(text, g)
	}
	f, err := readNCCLTables(text, g)
	if at, is := errors.AsType[*nccltable.Fault](err); is {
		err = LineError(at.Line, "%w", at.Err)
	}
	return f, err
}

// readNCCLTables reads all tables of a file. The comments above a table describe it until another
// run begins.
func readNCCLTables(text string, g Given) (f File, err error) {
	text, skipped := nccltable.WithoutLog(text)
	lines, err := nccltable.Read(text)
	if err != nil {
		return f, err
	}
	f.Notes = lists.NonEmpty(logNote(skipped))
	pre := ncclPreamble{ranks: map[int]bool{}, time: ncclMean}
	headAt := 0  // line of the current table's header; 0 before the first
	tableAt := 0 // index of its first record
	endTable := func() error {
		notes, err := pre.settle(f.Records[tableAt:], g, headAt)
		f.Notes = append(f.Notes, notes...)
		if err == nil {
			pre.checkTable(&f, tableAt)
		}
		tableAt = len(f.Records)
		return err
	}
	for _, l := range lines {
		if !l.Ends && l.Header == nil {
			pre.line = l.Number
		}
		switch {
		case l.Header != nil:
			if err := endTable(); err != nil {
				return f, err
			}
			if headAt = l.Number; !l.Header.HasKey("type") {
				return f, LineError(l.Number, "the header has no column type")
			}
		case l.Row != nil:
			records, err := ncclRecords(l.Row, l.Number)
			if err != nil {
				return f, err
			}
			f.Records = append(f.Records, records...)
		case l.Failure != "":
			pre.failed(&f, tableAt, l)
		case l.Comment():
			if l.Ends {
				if err := endTable(); err != nil {
					return f, err
				}
				pre = ncclPreamble{ranks: map[int]bool{}, op: pre.op, rccl: pre.rccl, iters: pre.iters, time: pre.time}
			}
			pre.comment(strings.TrimSpace(l.Text))
			pre.sizes.ncclSizes(l.Text)
			if m := ncclAverage.FindStringSubmatch(l.Text); m != nil {
				pre.average.line = l.Number
				pre.average.value, _ = strconv.ParseFloat(m[1], 64)
			}
			if m := ncclOutside.FindStringSubmatch(l.Text); m != nil {
				outOfBounds(f.Records[tableAt:], fmt.Sprintf("line %d: %s", l.Number, m[0]))
			}
		default:
			pre.log(l.Text) // may contain the command
			if launcherFailure.MatchString(l.Text) {
				pre.failed(&f, tableAt, nccltable.Line{Number: l.Number, Text: l.Text, Failure: strings.TrimSpace(l.Text)})
			}
		}
	}
	return f, endTable()
}

// ncclRecords returns the results of a table line, one for each place that was run.
func ncclRecords(row *nccltable.Row, line int) (out []Record, err error) {
	base := ncclBase(line, row.Size, row.Key("type"), row.Key("redop"), row.Key("root"))
	base.Count = row.Key("count")
	for _, place := range nccltable.Places {
		metrics := map[string]float64{}
		for _, m := range ncclMetrics {
			v, has, err := row.Number(place, m.column)
			if err != nil {
				return nil, err
			}
			if has {
				metrics[m.name] = v
			}
		}
		if r, ran := base.ncclPlaced(place == nccltable.InPlace, metrics); ran {
			out = append(out, r)
		}
	}
	return out, nil
}

// ncclMetrics maps metrics to the columns of the table.
var ncclMetrics = []struct{ name, column string }{{"time_us", nccltable.Time}, {"algbw", nccltable.AlgBW},
	{"busbw", nccltable.BusBW}, {"wrong", nccltable.Wrong}, {"min_us", nccltable.IterMin}, {"max_us", nccltable.IterMax},
	{"p99_us", nccltable.IterP99}, {"cv_pct", nccltable.IterCV}}

// outOfBounds marks all records as failed if the tool counted wrong values but no row shows any, because
// it is unknown which rows are right.
func outOfBounds(records []Record, evidence string) {
	if slices.ContainsFunc(records, func(r Record) bool { return r.Status == journal.Failed }) {
		return
	}
	for i := range records {
		records[i].Status, records[i].Reason = journal.Failed, evidence+", and no row says which"
	}
}

// failed records that the tool gave up. The row that it was printing becomes a failed
// record, and the other rows of the table get a warning that the rest is missing.
func (p *ncclPreamble) failed(f *File, tableAt int, l nccltable.Line) {
	p.log(l.Text)
	text := fmt.Sprintf("line %d: the run ended in a failure (%s)", l.Number, l.Failure)
	if p.failure != "" {
		return // a message of a calling function about the same failure
	}
	p.failure, f.Failure = text, text
	for i := range f.Records[tableAt:] {
		r := &f.Records[tableAt+i]
		r.Remarks = append(r.Remarks,
			journal.Remarkf("%s: the rest is missing, and the tool gave no verdict on these rows", text))
	}
	if l.Begun != nil && l.Begun.Key("type") != "" {
		r := ncclBase(l.Number, l.Begun.Size, l.Begun.Key("type"), l.Begun.Key("redop"), l.Begun.Key("root"))
		r.Status, r.Reason, r.Metrics = journal.Failed, text, map[string]float64{}
		f.Records = append(f.Records, r)
	}
	f.Notes = append(f.Notes, text)
}

// checkTable compares the records of a table with what the log says about the whole run, and adds
// records for the sizes that are missing.
func (p *ncclPreamble) checkTable(f *File, tableAt int) {
	table := f.Records[tableAt:]
	if len(table) == 0 {
		return
	}
	missing := addMissing(table, p.sizes.list(), p.line, p.failure)
	if len(missing) == 0 {
		p.average.check(table)
	}
	f.Notes = append(f.Notes, lists.NonEmpty(missingNote(missing))...)
	f.Records = append(f.Records, missing...)
}

// comment takes the settings of the run from a comment line.
func (p *ncclPreamble) comment(line string) {
	if m := ncclRank.FindStringSubmatch(line); m != nil {
		rank, _ := strconv.Atoi(m[1])
		p.ranks[rank] = true
		if p.host == "" {
			p.host, p.device = m[2], m[3]
		}
		return
	}
	if m := ncclIters.FindStringSubmatch(line); m != nil {
		p.iters, _ = strconv.Atoi(m[1])
	}
	if text, own := strings.CutPrefix(line, "# kernbench, format nccl-tests: time is the "); own {
		p.time = text
	}
	p.log(line)
	fields := strings.Fields(line)
	if len(fields) < 3 || !strings.Contains(line, " num_ranks=") {
		return
	}
	// kernbench's own heading has the bench, then NAME=VALUE fields.
	if name, _, _ := strings.Cut(fields[1], "/"); p.op == "" {
		if op, known := opNamed(name); known {
			p.op = op
		}
	}
	for _, word := range fields[2:] {
		name, value, ok := strings.Cut(word, "=")
		switch {
		case !ok || !ncclWord.MatchString(word):
		case name == "num_ranks":
			p.count, _ = strconv.Atoi(value)
		case name == "op":
			if op, known := opNamed(value); known {
				p.op = op
			}
		case name != "dtype" && name != "reduction":
			p.own = append(p.own, point.Coord{Name: name, Value: point.StringValue(value)})
		}
	}
}

// log takes the operation from the name of the program, if the line contains it.
func (p *ncclPreamble) log(line string) {
	if strings.Contains(line, "rccl") {
		p.rccl = true
	}
	for _, m := range ncclPerf.FindAllStringSubmatch(line, -1) {
		if op, known := opNamed(m[1]); known {
			p.op = op
		}
	}
}

// settle completes the records of one table from its preamble and the user's flags.
func (p *ncclPreamble) settle(records []Record, g Given, line int) (notes []string, err error) {
	if len(records) == 0 {
		return nil, nil
	}
	op, ranks, notes, err := p.group(records, g)
	if err != nil {
		return nil, LineError(line, "%w", err)
	}
	for i := range records {
		r := &records[i]
		r.Op, r.Ranks, r.Host, r.Samples = op, ranks, p.host, p.iters
		if err := p.complete(r, g); err != nil {
			return nil, LineError(line, "%w", err)
		}
		if g.DType != "" && g.DType != r.DType {
			return nil, LineError(r.Line, "the file says dtype %s, --dtype says %s", r.DType, g.DType)
		}
	}
	return notes, nil
}

// group returns the operation and the number of ranks of a table, from the file, the user's
// flags and the ratio of its bandwidths.
func (p *ncclPreamble) group(records []Record, g Given) (op string, ranks int, notes []string, err error) {
	op = p.op
	if op == "" && g.Op == "" {
		if op = ncclGuess(records); op == "" {
			return "", 0, nil, errors.New("the file does not say which operation this is: give --op")
		}
		notes = append(notes, fmt.Sprintf("the file does not name the operation; by its columns it is %s", op))
	}
	if op, err = settle("op", op, g.Op); err != nil {
		return "", 0, nil, err
	}
	listed := cmp.Or(p.count, len(p.ranks))
	if by, sure := ncclRanks(records, op); sure {
		switch {
		case listed > by && listed%by == 0:
			notes = append(notes, fmt.Sprintf("the header lists %d ranks, but busbw/algbw fits %d: the groups were "+
				"split, so %d ranks are assumed", listed, by, by))
			listed = by
		case listed > 0 && listed != by:
			contradictRanks(records, listed, by)
		default:
			listed = by
		}
	}
	if ranks, err = settle("ranks", listed, g.Ranks); err != nil {
		return "", 0, nil, err
	}
	if ranks == 0 {
		return "", 0, nil, errors.New("the file does not say how many ranks there were: give --ranks")
	}
	return op, ranks, notes, nil
}

// contradictRanks marks the records as failed because their bandwidths fit another number of
// ranks than the header lists.
func contradictRanks(records []Record, listed, by int) {
	for i := range records {
		if r := &records[i]; r.Status == journal.OK {
			r.Status = journal.Failed
			r.Reason = fmt.Sprintf("line %d: the header lists %d ranks, but busbw/algbw fits %d", r.Line, listed, by)
		}
	}
}

// complete adds the properties of the whole table to a record.
func (p *ncclPreamble) complete(r *Record, g Given) (err error) {
	r.Details = map[string]string{"tool": "nccl-tests", "time": p.time}
	if p.device != "" {
		r.Details["device"] = p.device
		// Our own tables name the kind of times that nobody measured.
		if kind, _, ok := strings.Cut(p.device, " "); ok && (kind == string(journal.Simulated) ||
			kind == string(journal.Modelled)) {
			r.Kind = journal.Kind(kind)
		}
	}
	for _, c := range p.own {
		switch c.Name {
		case "algorithm":
			r.Algorithm = c.Value.String()
		case "backend":
			r.Backend = c.Value.String()
		default:
			r.Extra = r.Extra.With(c.Name, c.Value)
		}
	}
	if r.Algorithm, err = settle("algorithm", r.Algorithm, g.Algorithm); err != nil {
		return err
	}
	if r.Backend, err = settle("backend", r.Backend, g.Backend); err != nil {
		return err
	}
	if r.Algorithm == "" {
		r.Algorithm = "nccl"
		if p.rccl {
			r.Algorithm = "rccl"
		}
	}
	r.Backend = cmp.Or(r.Backend, "nccl")
	return nil
}

// ncclGuess returns the operation that the columns imply, or "". Only an all-reduce reduces
// and has a bus bandwidth above its algorithm bandwidth.
func ncclGuess(records []Record) string {
	for _, r := range records {
		if r.Reduction == "" {
			return ""
		}
		if a, b := r.Metrics["algbw"], r.Metrics["busbw"]; a >= 1 {
			if b >= a*0.99 {
				return "allreduce"
			}
			return ""
		}
	}
	return ""
}

// ncclRanks derives the number of ranks n from busbw/algbw, which is 2(n-1)/n for an
// all-reduce. It is sure if the printed digits allow only one integer.
func ncclRanks(records []Record, op string) (ranks int, sure bool) {
	if op != "allreduce" {
		return 0, false
	}
	fastest := Record{} // has the most significant digits
	for _, r := range records {
		if r.Metrics["algbw"] > fastest.Metrics["algbw"] {
			fastest = r
		}
	}
	const half = 0.005 // half of the last printed digit
	a, b := fastest.Metrics["algbw"], fastest.Metrics["busbw"]
	if a < 1 || b <= 0 {
		return 0, false
	}
	// n = 2/(2 - ratio), for the least and the greatest ratio that rounds to these digits.
	low, high := 2/(2-(b-half)/(a+half)), 2/(2-(b+half)/(a-half))
	first := math.Ceil(low)
	if first < 2 || high < first || high >= first+1 || math.IsInf(high, 0) {
		return 0, false
	}
	return int(first), true
}
