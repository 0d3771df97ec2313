package foreign

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/point"
)

// The output of nccl-tests and rccl-tests, and of kernbench's own format of that
// name, is comment lines and tables:
//
//	# nThread 1 nGpus 8 ... iters: 20 ...
//	# Using devices
//	#  Rank  0 Group  0 Pid  123 on host device  0 [0x0f] NVIDIA H100
//	#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
//	#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
//	        1024           256     float     sum      -1    12.34    0.08    0.15      0    12.30    0.08    0.15      0
//
// Columns are found by name: versions differ in them. The first group is out of
// place, the second in place.

var (
	ncclPerf  = regexp.MustCompile(`\b([a-z_]+)_perf\b`)
	ncclRank  = regexp.MustCompile(`^#\s+Rank\s+(\d+)\b.*?\bPid\s+\d+ on\s+(\S+) device\s+\d+ \[[^\]]*\]\s*(.*)$`)
	ncclIters = regexp.MustCompile(`[^a-z] iters: (\d+)`)
	ncclWord  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*=`)
)

// ncclPreamble is what the comments before a table say about it.
type ncclPreamble struct {
	op     string
	ranks  map[int]bool // those listed
	count  int          // num_ranks of kernbench's own heading
	host   string
	device string
	iters  int
	rccl   bool
	time   string      // what the column time means
	own    point.Point // coordinates of kernbench's own heading
}

// ncclMean is what the tool's own times are.
const ncclMean = "mean over iterations issued back to back, as nccl-tests reports it"

// ncclPlace is the columns of one group; -1 where there is none.
type ncclPlace struct{ time, algbw, busbw, wrong int }

// ncclHeader is where the columns are.
type ncclHeader struct {
	line                 int
	width                int
	size, typ, redop, at int // at is root
	places               []ncclPlace
}

func readNCCLTests(text string, g Given) (File, error) {
	var f File
	op, err := opGiven(g.Op)
	if err != nil {
		return f, err
	}
	g.Op = op
	if ncclJSON(text) {
		return readNCCLJSON(text, g)
	}
	pre := ncclPreamble{ranks: map[int]bool{}, time: ncclMean}
	var head *ncclHeader
	tableAt := 0 // where the records of the present table begin
	close := func() error {
		if head == nil {
			return nil
		}
		notes, err := pre.settle(f.Records[tableAt:], g, head.line)
		f.Notes = append(f.Notes, notes...)
		tableAt = len(f.Records)
		return err
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		fields := strings.Fields(line)
		if ncclIsHeader(fields) {
			if err := close(); err != nil {
				return f, err
			}
			if head, err = newNCCLHeader(fields[1:], number); err != nil {
				return f, err
			}
			continue
		}
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			if head != nil && number == head.line+1 {
				if err := ncclUnits(fields, number); err != nil {
					return f, err
				}
			}
			// A comment that opens another table ends this one.
			if head != nil && opensTable(fields) {
				if err := close(); err != nil {
					return f, err
				}
				head = nil
				pre = ncclPreamble{ranks: map[int]bool{}, op: pre.op, rccl: pre.rccl, iters: pre.iters, time: pre.time}
			}
			pre.comment(strings.TrimSpace(line), fields)
			continue
		}
		if len(fields) == 0 {
			continue
		}
		if _, err := strconv.ParseInt(fields[0], 10, 64); err != nil || head == nil {
			pre.log(line) // a log line, perhaps with the command
			continue
		}
		records, err := head.records(fields, number)
		if err != nil {
			return f, err
		}
		f.Records = append(f.Records, records...)
	}
	if head == nil && len(f.Records) == 0 {
		return f, errors.New("there is no table of nccl-tests: no line starts with \"#  size  count\" and has algbw")
	}
	return f, close()
}

func ncclIsHeader(fields []string) bool {
	return len(fields) > 2 && fields[0] == "#" && fields[1] == "size" && slices.Contains(fields, "algbw")
}

// opensTable recognises the comments that begin another run or another table
// of kernbench's own.
func opensTable(fields []string) bool {
	text := strings.Join(fields, " ")
	return strings.HasPrefix(text, "# nThread ") || strings.HasPrefix(text, "# Collective test starting") || strings.Contains(text, " num_ranks=")
}

func (p *ncclPreamble) comment(line string, fields []string) {
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
	if len(fields) < 3 || !strings.Contains(line, " num_ranks=") {
		return
	}
	// kernbench's own heading: the bench, then name=value words.
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

// log looks for the program's name, which tells the operation.
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

func newNCCLHeader(names []string, line int) (*ncclHeader, error) {
	h := &ncclHeader{line: line, width: len(names), size: -1, typ: -1, redop: -1, at: -1}
	for i, name := range names {
		switch name {
		case "size":
			h.size = i
		case "type":
			h.typ = i
		case "redop":
			h.redop = i
		case "root":
			h.at = i
		case "time", "cputime":
			h.places = append(h.places, ncclPlace{time: i, algbw: -1, busbw: -1, wrong: -1})
		case "algbw", "busbw", "#wrong", "wrong", "error":
			if len(h.places) == 0 {
				return nil, lineError(line, "the column %s stands before any time", name)
			}
			p := &h.places[len(h.places)-1]
			switch name {
			case "algbw":
				p.algbw = i
			case "busbw":
				p.busbw = i
			default:
				p.wrong = i
			}
		}
	}
	if len(h.places) < 1 || len(h.places) > 2 || h.typ < 0 {
		return nil, lineError(line, "the header has %d columns called time, want 1 or 2, and needs a column type", len(h.places))
	}
	return h, nil
}

// ncclUnits checks the line of units under the header: bytes, microseconds and
// GB/s, or nothing that can be read here.
func ncclUnits(fields []string, line int) error {
	for _, unit := range fields[1:] {
		if strings.HasPrefix(unit, "(") && !slices.Contains([]string{"(B)", "(elements)", "(us)", "(GB/s)"}, unit) {
			return lineError(line, "the unit %s is not one of nccl-tests' (B, elements, us, GB/s)", unit)
		}
	}
	return nil
}

func (h *ncclHeader) records(fields []string, line int) ([]Record, error) {
	// A time stamp at the end is one column but two fields, so there may be
	// more fields than columns, never fewer.
	if len(fields) < h.width {
		return nil, lineError(line, "the line has %d fields, the header %d: it is cut off or not of this table", len(fields), h.width)
	}
	size, err := strconv.ParseInt(fields[h.size], 10, 64)
	if err != nil || size < 0 {
		return nil, lineError(line, "the size %q is not a number of bytes", fields[h.size])
	}
	optional := func(column int) string {
		if column < 0 {
			return ""
		}
		return fields[column]
	}
	base := ncclBase(line, size, fields[h.typ], optional(h.redop), optional(h.at))
	var out []Record
	for i, p := range h.places {
		metrics := map[string]float64{}
		for _, c := range []struct {
			metric string
			column int
		}{{"time_us", p.time}, {"algbw", p.algbw}, {"busbw", p.busbw}, {"wrong", p.wrong}} {
			if c.column < 0 || fields[c.column] == "N/A" {
				continue
			}
			v, err := strconv.ParseFloat(fields[c.column], 64)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				return nil, lineError(line, "%s is %q, want a number or N/A", c.metric, fields[c.column])
			}
			metrics[c.metric] = v
		}
		if r, ran := base.ncclPlaced(i == 1, metrics); ran {
			out = append(out, r)
		}
	}
	return out, nil
}

// settle completes the records of one table by what stands above it.
func (p *ncclPreamble) settle(records []Record, g Given, line int) (notes []string, err error) {
	if len(records) == 0 {
		return nil, nil
	}
	listed := p.count
	if listed == 0 {
		listed = len(p.ranks)
	}
	op := p.op
	if op == "" && g.Op == "" {
		if op = ncclGuess(records); op == "" {
			return nil, lineError(line, "the file does not say which operation this is: give --op")
		}
		notes = append(notes, fmt.Sprintf("the file does not name the operation; by its columns it is %s", op))
	}
	if op, err = settle("op", op, g.Op); err != nil {
		return nil, lineError(line, "%w", err)
	}
	if by, sure := ncclRanks(records, op); sure {
		if listed > 0 && listed != by {
			notes = append(notes, fmt.Sprintf("the header lists %d ranks, but busbw/algbw is that of %d: groups were split, and %d is taken", listed, by, by))
		}
		listed = by
	}
	ranks, err := settleRanks(listed, g.Ranks)
	if err != nil {
		return nil, lineError(line, "%w", err)
	}
	if ranks == 0 {
		return nil, lineError(line, "the file does not say how many ranks there were: give --ranks")
	}
	library := "nccl"
	if p.rccl {
		library = "rccl"
	}
	for i := range records {
		r := &records[i]
		r.Op, r.Ranks, r.Host, r.Samples = op, ranks, p.host, p.iters
		r.Details = map[string]string{"tool": "nccl-tests", "time": p.time}
		if p.device != "" {
			r.Details["device"] = p.device
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
			return nil, lineError(line, "%w", err)
		}
		if r.Backend, err = settle("backend", r.Backend, g.Backend); err != nil {
			return nil, lineError(line, "%w", err)
		}
		if r.Algorithm == "" {
			r.Algorithm = library
		}
		if r.Backend == "" {
			r.Backend = "nccl"
		}
		if g.DType != "" && typeNamed(g.DType) != r.DType {
			return nil, lineError(r.Line, "the file says dtype %s, --dtype says %s", r.DType, g.DType)
		}
	}
	return notes, nil
}

// ncclGuess is the operation by its columns: only an all-reduce reduces,
// without a root, at more bus than algorithm bandwidth.
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

// ncclRanks derives the ranks from busbw/algbw, which is 2(n-1)/n for an
// all-reduce; sure only when the printed digits leave one whole number.
func ncclRanks(records []Record, op string) (ranks int, sure bool) {
	if op != "allreduce" {
		return 0, false
	}
	most := Record{}
	for _, r := range records {
		if r.Metrics["algbw"] > most.Metrics["algbw"] {
			most = r
		}
	}
	const half = 0.005 // of the last printed digit
	a, b := most.Metrics["algbw"], most.Metrics["busbw"]
	if a < 1 || b <= 0 {
		return 0, false
	}
	// n = 2/(2 - ratio), for the least and the largest ratio that prints so.
	low, high := 2/(2-(b-half)/(a+half)), 2/(2-(b+half)/(a-half))
	first := math.Ceil(low)
	if first < 2 || high < first || high >= first+1 || math.IsInf(high, 0) {
		return 0, false
	}
	return int(first), true
}
