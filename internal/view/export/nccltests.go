package export

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/rowkey"
)

// The axes that are columns of the nccl-tests table; all other coordinates of
// a table stand above it.
const (
	ncclSize    = "size"
	ncclInPlace = "inplace"
	ncclDType   = "dtype"
	ncclRedOp   = "reduction"
	ncclOp      = "op"
)

// ncclTypes are the names nccl-tests gives to element types.
var ncclTypes = map[dtype.DType]string{dtype.F64: "double", dtype.F32: "float", dtype.F16: "half", dtype.BF16: "bfloat16",
	dtype.I64: "int64", dtype.I32: "int32", dtype.U8: "uint8"}

// writeNCCLTests writes the table that users of nccl-tests know: a line per
// size, out of place and in place side by side, N/A for a place that was not
// run or gave no number. Trials count by their median; what did not end well is
// told in a comment below its table. Rows without a size have no place in it.
func writeNCCLTests(w io.Writer, in Input, _ Options) error {
	var b bytes.Buffer
	tables, others := ncclTables(in.Rows)
	fmt.Fprintf(&b, "# kernbench, format nccl-tests: time is the median over iterations of the slowest rank\n")
	var sum float64
	var measured, wrong int
	for _, t := range tables {
		t.write(&b)
		for _, l := range t.lines {
			for _, place := range l.places {
				if v, ok := place.median("busbw"); ok {
					sum += v
					measured++
				}
				wrong += place.wrong()
			}
		}
	}
	if others > 0 {
		fmt.Fprintf(&b, "# %d rows without a size are not shown\n", others)
	}
	verdict := "OK"
	if wrong > 0 {
		verdict = "FAILED"
	}
	fmt.Fprintf(&b, "# Out of bounds values : %d %s\n", wrong, verdict)
	average := "N/A"
	if measured > 0 {
		average = fmt.Sprintf("%.6g", sum/float64(measured))
	}
	fmt.Fprintf(&b, "# Avg bus bandwidth    : %s \n#\n", average)
	_, err := w.Write(b.Bytes())
	return err
}

// ncclTable is what rows that differ only in size and place make.
type ncclTable struct {
	heading string
	lines   []*ncclLine
}

// ncclLine is one size: the rows out of place and in place.
type ncclLine struct {
	row    *journal.Row // any of them, to name the line by
	places [2]line
}

// ncclTables sorts the rows into tables, in order of first appearance, and
// counts those without a size.
func ncclTables(rows []journal.Row) (tables []*ncclTable, others int) {
	byTable, byLine := map[string]*ncclTable{}, map[string]*ncclLine{}
	for i := range rows {
		r := &rows[i]
		if _, ok := r.Point.Get(ncclSize); !ok {
			others++
			continue
		}
		key := rowkey.Of(r, ncclSize, ncclInPlace)
		t := byTable[key]
		if t == nil {
			t = &ncclTable{heading: rowkey.Label(r, ncclSize, ncclInPlace)}
			byTable[key] = t
			tables = append(tables, t)
		}
		key = rowkey.Of(r, ncclInPlace)
		l := byLine[key]
		if l == nil {
			l = &ncclLine{row: r}
			byLine[key] = l
			t.lines = append(t.lines, l)
		}
		place := 0
		if v, ok := r.Point.Get(ncclInPlace); ok && v.Bool() {
			place = 1
		}
		l.places[place].rows = append(l.places[place].rows, r)
	}
	return tables, others
}

func (t *ncclTable) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "#\n# %s\n#\n", texttab.Plain(t.heading))
	const keys = "%12s  %12s  %8s  %6s  %6s"
	head := func(size, count, typ, redop, root string, columns ...any) {
		text := fmt.Sprintf(keys, size, count, typ, redop, root)
		for range 2 {
			text += fmt.Sprintf("  %7s  %6s  %6s %6s", columns...)
		}
		b.WriteString("#" + text[1:] + "\n")
	}
	b.WriteString("#" + strings.Repeat(" ", 62) + "out-of-place                       in-place\n")
	head("size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong")
	head("(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "")
	for _, l := range t.lines {
		size, count, typ, redop, root := l.keys()
		fmt.Fprintf(b, keys, size, count, typ, redop, root)
		for _, place := range l.places {
			fmt.Fprintf(b, "  %7s  %6s  %6s %6s", ncclCell(place, headline, ncclTime), ncclCell(place, "algbw", twoDigits),
				ncclCell(place, "busbw", twoDigits), wrongCell(place))
		}
		b.WriteByte('\n')
	}
	for _, l := range t.lines {
		for i, place := range l.places {
			if len(place.rows) > 0 && place.worst().Status != journal.OK {
				size, _ := l.row.Point.Get(ncclSize)
				fmt.Fprintf(b, "# %s %s: %s: %s\n", size, [...]string{"out-of-place", "in-place"}[i], place.status(),
					strings.Join(place.remarks(), "; "))
			}
		}
	}
}

// keys are the columns that name the line. Count is what nccl-tests counts:
// the elements of one rank's part where size is all parts together.
func (l *ncclLine) keys() (size, count, typ, redop, root string) {
	v, _ := l.row.Point.Get(ncclSize)
	size, count, typ, redop, root = v.String(), "N/A", "none", "none", "-1"
	op := l.row.Bench
	if o, ok := l.row.Point.Get(ncclOp); ok {
		op = o.String()
	}
	op = strings.NewReplacer("-", "", "_", "").Replace(op)
	parts := int64(1)
	switch op {
	case "reducescatter", "allgather", "alltoall", "gather", "scatter":
		if l.row.NumRanks != nil {
			parts = int64(*l.row.NumRanks)
		}
	}
	if t, ok := l.row.Point.Get(ncclDType); ok {
		if d, err := dtype.Parse(t.String()); err == nil {
			typ = ncclTypes[d]
			count = fmt.Sprint(v.Int() / int64(d.Size()) / parts)
		}
	}
	switch op {
	case "allreduce", "reducescatter", "reduce":
		redop = "sum"
		if red, ok := l.row.Point.Get(ncclRedOp); ok {
			redop = red.String()
		}
	}
	switch op {
	case "broadcast", "reduce", "gather", "scatter":
		root = "0"
	}
	return size, count, typ, redop, root
}

// ncclCell is a number of one place, or N/A.
func ncclCell(l line, metric string, write func(float64) string) string {
	if v, ok := l.median(metric); ok {
		return write(v)
	}
	return "N/A"
}

// ncclTime has about four digits, as nccl-tests prints times.
func ncclTime(us float64) string {
	switch {
	case us >= 10000:
		return fmt.Sprintf("%.0f", us)
	case us >= 100:
		return fmt.Sprintf("%.1f", us)
	}
	return fmt.Sprintf("%.2f", us)
}

func twoDigits(v float64) string { return fmt.Sprintf("%.2f", v) }

// wrong counts wrong elements over all trials. A row that has some is not ok,
// so it counts whatever its status.
func (l line) wrong() (n int) {
	for _, r := range l.rows {
		n += int(r.Metrics["wrong"])
	}
	return n
}

func wrongCell(l line) string {
	for _, r := range l.rows {
		if _, checked := r.Metrics["wrong"]; checked {
			return fmt.Sprint(l.wrong())
		}
	}
	return "N/A"
}
