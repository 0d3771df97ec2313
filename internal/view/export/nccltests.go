package export

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Axes that are columns of the nccl-tests table. All other coordinates are above the table.
const (
	ncclSize    = "size"
	ncclInPlace = "inplace"
	ncclDType   = "dtype"
	ncclRedOp   = "reduction"
	ncclOp      = "op"
)

// ncclTypes maps element types to their names in nccl-tests.
var ncclTypes = map[dtype.DType]string{dtype.F64: "double", dtype.F32: "float", dtype.F16: "half",
	dtype.BF16: "bfloat16", dtype.I64: "int64", dtype.I32: "int32", dtype.U8: "uint8"}

func init() {
	Formats.Register(Format{Name: "nccl-tests", Help: "the table that nccl-tests prints", Write: writeNCCLTests,
		Sweep: map[string]string{ncclInPlace: "false,true"}})
}

// writeNCCLTests writes the preamble and the table of nccl-tests. The table has a line per size, with the
// results out of place and in place next to each other. Numbers that were not measured or not recorded are
// N/A. The value of several trials is their median. Comments below the table list points that are not ok or were
// disturbed. Rows without a size are left out.
func writeNCCLTests(w io.Writer, in Input, _ Options) error {
	var b bytes.Buffer
	tables, others := ncclTables(in.Rows)
	fmt.Fprintf(&b, "# kernbench, format nccl-tests: time is the median over iterations of the slowest rank\n")
	var sum float64
	var measured int
	var places Line // all of them
	for _, t := range tables {
		t.writePreamble(&b, in.Header)
		t.write(&b)
		for _, l := range t.lines {
			for _, place := range l.places {
				if v, ok := place.median("busbw"); ok {
					sum += v
					measured++
				}
				places.Rows = append(places.Rows, place.Rows...)
			}
		}
	}
	if others > 0 {
		fmt.Fprintf(&b, "# %d rows without a size are not shown\n", others)
	}
	for _, text := range modelledNotes(in.Rows) {
		fmt.Fprintf(&b, "# %s\n", texttab.Plain(text))
	}
	verdict, average := places.wrong(), "N/A"
	switch verdict {
	case "N/A":
	case "0":
		verdict += " OK"
	default:
		verdict += " FAILED"
	}
	fmt.Fprintf(&b, "# Out of bounds values : %s\n", verdict)
	if measured > 0 {
		average = fmt.Sprintf("%.6g", sum/float64(measured))
	}
	fmt.Fprintf(&b, "# Avg bus bandwidth    : %s \n#\n", average)
	_, err := w.Write(b.Bytes())
	return err
}

// modelledNotes returns comments about modelled rows and what validates them. The table has no column for
// this.
func modelledNotes(rows dataset.Set) []string {
	modelled := rows.Where(func(r *journal.Row) bool { return r.Kind == journal.Modelled })
	validatedBy := func(r *journal.Row) string { return r.Details[journal.ValidatedByDetail] }
	var notes []string
	for _, g := range lists.GroupBy(modelled, validatedBy) {
		how := cmp.Or(g.Key, "not validated")
		if !strings.HasPrefix(how, "not validated") {
			how = "validated by: " + how
		}
		notes = append(notes, fmt.Sprintf("modelled, not measured: %s, %s", unit.Plural(len(g.Items), "row"), how))
	}
	return notes
}

// ncclTable holds the rows that differ only in size and place.
type ncclTable struct {
	heading string
	lines   []ncclLine
}

// ncclLine holds the rows of one size, out of place and in place.
type ncclLine struct {
	row    *journal.Row // any row of the line
	places [2]Line
}

// ncclTables groups the rows into tables, in order of appearance, and counts the rows without
// a size.
func ncclTables(rows dataset.Set) (tables []*ncclTable, others int) {
	sized := rows.Where(func(r *journal.Row) bool { _, has := r.Point.Get(ncclSize); return has })
	table := func(r *journal.Row) string { return dataset.Key(r, ncclSize, ncclInPlace) }
	for _, g := range lists.GroupBy(sized, table) {
		t := &ncclTable{heading: dataset.Label(g.Items[0], ncclSize, ncclInPlace)}
		for _, g := range lists.GroupBy(g.Items, func(r *journal.Row) string { return dataset.Key(r, ncclInPlace) }) {
			l := ncclLine{row: g.Items[0]}
			for _, r := range g.Items {
				place := &l.places[0]
				if r.Point.At(ncclInPlace).Bool() {
					place = &l.places[1]
				}
				place.Rows = append(place.Rows, r)
			}
			t.lines = append(t.lines, l)
		}
		tables = append(tables, t)
	}
	return tables, len(rows) - len(sized)
}

// maxRanksListed limits the ranks in the preamble, so that they do not hide the table.
const maxRanksListed = 64

// writePreamble writes the lines that nccl-tests begins with: the program, its settings and
// the ranks.
func (t *ncclTable) writePreamble(b *bytes.Buffer, h *journal.Header) {
	first := t.lines[0].row
	if program, known := ncclPrograms[opOf(first)]; known {
		fmt.Fprintf(b, "#\n# Collective test starting: %s\n", program)
	}
	sizes, iters, checked := t.settings()
	fmt.Fprintf(b, "# nThread 1 nGpus 1 minBytes %d maxBytes %d step: %s warmup iters: N/A iters: %s agg iters: 1 "+
		"validation: %d graph: 0\n",
		slices.Min(sizes), slices.Max(sizes), ncclStep(sizes), iters, checked)
	fmt.Fprintf(b, "#\n# %s\n#\n# Using devices\n", texttab.Plain(t.heading))
	ranks := dataset.Ranks(first)
	for rank := range min(ranks, maxRanksListed) {
		host := first.Host
		if rank > 0 && h != nil && h.Launcher != "" && h.Launcher != "local" && h.Launcher != "imported" {
			host = "" // the journal does not record where the launcher put the rank
		}
		fmt.Fprintf(b, "#  Rank %2d Group  0 Pid    N/A on %10s device %2d [N/A] %s\n", rank,
			cmp.Or(texttab.Plain(host), "N/A"), rank, texttab.Plain(ncclDevice(first, h)))
	}
	if ranks > maxRanksListed {
		fmt.Fprintf(b, "#  and %d more\n", ranks-maxRanksListed)
	}
}

// ncclPrograms are the programs of nccl-tests by operation.
var ncclPrograms = map[string]string{"allreduce": "all_reduce_perf", "reducescatter": "reduce_scatter_perf",
	"allgather": "all_gather_perf", "broadcast": "broadcast_perf", "reduce": "reduce_perf", "gather": "gather_perf",
	"scatter": "scatter_perf", "alltoall": "alltoall_perf", "sendrecv": "sendrecv_perf"}

// ncclDevice returns the device of the ranks, as far as the row or the header records it.
func ncclDevice(r *journal.Row, h *journal.Header) string {
	switch d := r.Details["device"]; {
	case d != "":
		return d
	case r.Kind != journal.Measured:
		return string(r.Kind) + " " + r.Backend
	case dist.Describe(r.Backend).Has(dist.OnDevice) || h == nil || h.Host.CPU.Model == "":
		return r.Backend
	}
	return h.Host.CPU.Model
}

// settings returns the sorted sizes of a table, the number of samples as text, and 1 if the
// results were checked.
func (t *ncclTable) settings() (sizes []int64, iters string, checked int) {
	var samples []int
	for _, l := range t.lines {
		sizes = append(sizes, l.row.Point.At(ncclSize).Int())
		for _, place := range l.places {
			for _, r := range place.Rows {
				if r.Samples > 0 {
					samples = append(samples, r.Samples)
				}
			}
			if place.wrong() != "N/A" {
				checked = 1
			}
		}
	}
	slices.Sort(sizes)
	if len(samples) == 0 {
		return sizes, "N/A", checked
	}
	iters = fmt.Sprint(slices.Min(samples))
	if largest := slices.Max(samples); largest > slices.Min(samples) {
		iters += fmt.Sprintf(" to %d", largest)
	}
	return sizes, iters, checked
}

// ncclStep returns how sizes grow: by a factor, by a number of bytes, or N/A.
func ncclStep(sizes []int64) string {
	factor, bytes := true, true
	for i := 2; i < len(sizes); i++ {
		factor = factor && sizes[i]*sizes[i-2] == sizes[i-1]*sizes[i-1]
		bytes = bytes && sizes[i]-sizes[i-1] == sizes[1]-sizes[0]
	}
	switch {
	case len(sizes) < 2:
		return "N/A"
	case factor && sizes[0] > 0 && sizes[1]%sizes[0] == 0:
		return fmt.Sprintf("%d(factor)", sizes[1]/sizes[0])
	case bytes:
		return fmt.Sprintf("%d(bytes)", sizes[1]-sizes[0])
	}
	return "N/A"
}

// write prints the heading and one line per size.
func (t *ncclTable) write(b *bytes.Buffer) {
	b.WriteString("#\n")
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
				ncclCell(place, "busbw", twoDigits), place.wrong())
		}
		b.WriteByte('\n')
	}
	for _, l := range t.lines {
		for i, place := range l.places {
			if len(place.Rows) == 0 {
				continue
			}
			where := fmt.Sprintf("%s %s", l.row.Point.At(ncclSize), [...]string{"out-of-place", "in-place"}[i])
			if place.Status() != journal.OK {
				remarks := place.remarks(false, journal.Condition.Sentence)
				fmt.Fprintf(b, "# %s: %s: %s\n", where, place.status(), strings.Join(remarks, "; "))
			}
			if quality := place.quality(); quality != "" {
				fmt.Fprintf(b, "# %s: %s\n", where, quality)
			}
		}
	}
}

// keys returns the first columns of a line. Like in nccl-tests, count is the number of elements
// in one rank's part, also if size is the total of all parts.
func (l ncclLine) keys() (size, count, typ, redop, root string) {
	v := l.row.Point.At(ncclSize)
	size, count, typ, redop, root = v.String(), "N/A", "none", "none", "-1"
	op := opOf(l.row)
	parts := int64(1)
	switch op {
	case "reducescatter", "allgather", "alltoall", "gather", "scatter":
		parts = int64(max(1, dataset.Ranks(l.row)))
	}
	if t, ok := l.row.Point.Get(ncclDType); ok {
		if d, err := dtype.Parse(t.String()); err == nil {
			typ = cmp.Or(ncclTypes[d], d.String())
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

// opOf returns the operation of a row without punctuation: the axis op, or else the name of
// the bench, such as allreduce-eval.
func opOf(r *journal.Row) string {
	letters := strings.NewReplacer("-", "", "_", "")
	if o, ok := r.Point.Get(ncclOp); ok {
		return letters.Replace(o.String())
	}
	name := letters.Replace(r.Bench)
	if strings.HasPrefix(name, "allreduce") {
		return "allreduce"
	}
	return name
}

// ncclCell returns a number of one place, or N/A.
func ncclCell(l Line, metric string, write func(float64) string) string {
	if v, ok := l.median(metric); ok {
		return write(v)
	}
	return "N/A"
}

// ncclTime formats a time with about four digits like nccl-tests.
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

// wrong returns the number of wrong elements over all trials, including failed ones: rows with wrong
// elements are never ok. It is N/A if nothing was checked.
func (l Line) wrong() string {
	wrong, checked := 0, false
	for _, r := range l.Rows {
		n, has := r.Metrics["wrong"]
		wrong, checked = wrong+int(n), checked || has
	}
	if !checked {
		return "N/A"
	}
	return fmt.Sprint(wrong)
}
