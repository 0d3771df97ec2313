package dma

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// Formats holds the formats of Write, the default first.
var Formats = []string{"table", "json", "csv"}

// Write writes a report.
func (r *Report) Write(w io.Writer, format string) error {
	switch format {
	case "table":
		return r.writeText(w)
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	case "csv":
		return r.writeCSV(w)
	}
	return suggest.Unknown("format", format, Formats)
}

// writeCSV writes one line per row, with times in ns.
func (r *Report) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	head := []string{"topology", "sha256", "fabric", "table", "case", "transfers", "bytes", "time_ns", "fastest_ns"}
	head = append(head, lists.Map(partNames, func(name string) string { return name + "_ns" })...)
	out.Write(append(head, "gbps", "limit_ns", "bottleneck", "published_ns")) // out.Error returns errors at the end
	for i := range r.Rows {
		row := &r.Rows[i]
		published := ""
		if row.Published > 0 {
			published = row.Published.String()
		}
		line := []string{r.Topology, r.SHA256, string(row.Fabric), row.Table, row.Case, fmt.Sprint(row.Transfers),
			fmt.Sprint(row.Bytes), row.Time.String(), row.Fastest.String()}
		line = append(line, lists.Map(row.list(), ns.String)...)
		out.Write(append(line, fmt.Sprintf("%.6g", row.GBps()), row.Limit.String(), row.Bottleneck, published))
	}
	out.Flush()
	return out.Error()
}

// writeText writes aligned tables.
func (r *Report) writeText(w io.Writer) error {
	fmt.Fprintf(w, "Topology %s (sha256 %.12s), fabric %s: %s of %d cubes with %d PEs each. Times in ns, simulated.\n",
		r.Topology, r.SHA256, r.Fabric, unit.Plural(r.SIPs, "SIP"), r.Cubes, r.PEs)
	type table struct {
		title string
		name  string
		bytes int // 0: all sizes
		write func(io.Writer, []*Row) error
	}
	tables := []table{
		{fmt.Sprintf("Alone on the machine, %s", unit.FormatBytes(referenceBytes)), idleTable, 0,
			writeTransfers(false)},
		{"By size", sizeTable, 0, writeSizes(r.swept)},
	}
	for _, bytes := range r.together {
		tables = append(tables, table{fmt.Sprintf("Together, %s each; the time of the slowest counts",
			unit.FormatBytes(int64(bytes))), congestionTable, bytes, writeTransfers(true)})
	}
	tables = append(tables, table{fmt.Sprintf("As published, %s with fabric %s",
		unit.FormatBytes(congestedBytes), topo.Whole), publishedTable, 0, writePublished})
	for _, t := range tables {
		var rows []*Row
		for i := range r.Rows {
			if r.Rows[i].Table == t.name && (t.bytes == 0 || t.bytes == r.Rows[i].Bytes) {
				rows = append(rows, &r.Rows[i])
			}
		}
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s:\n", t.title)
		if err := t.write(w, rows); err != nil {
			return err
		}
	}
	if len(r.Missing) > 0 {
		fmt.Fprintf(w, "\nNot on this machine: %s.\n", strings.Join(r.Missing, "; "))
	}
	r.writeExceptions(w)
	return r.writeChecks(w)
}

func short(t ns) string { return fmt.Sprintf("%.2f", event.Time(t).Nanoseconds()) }

func right(titles ...string) []texttab.Column {
	return lists.Map(titles, func(title string) texttab.Column { return texttab.Column{Title: title, Right: true} })
}

// writeTransfers returns a writer of the table of idle or congested transfers. An idle transfer has no
// queueing, and is its own fastest one.
func writeTransfers(congested bool) func(io.Writer, []*Row) error {
	return func(w io.Writer, rows []*Row) error {
		titles, parts, bottleneck := []string{"time"}, len(partNames)-1, "slowest link"
		if congested {
			titles, parts, bottleneck = append(titles, "fastest"), len(partNames), "bottleneck"
		}
		t := texttab.Table{Columns: append([]texttab.Column{{Title: "case"}},
			right(append(append(titles, partNames[:parts]...), "GB/s", "of limit")...)...)}
		t.Columns = append(t.Columns, texttab.Column{Title: bottleneck}, texttab.Column{Title: "what"})
		for _, row := range rows {
			cells := []string{row.Case, short(row.Time)}
			if congested {
				cells = append(cells, short(row.Fastest))
			}
			cells = append(cells, lists.Map(row.list()[:parts], short)...)
			t.Add(append(cells, fmt.Sprintf("%.1f", row.GBps()), fmt.Sprintf("%.0f%%", 100*row.Used()), row.Bottleneck,
				row.Text)...)
		}
		return t.Write(w, 0)
	}
}

// writeSizes returns a writer of one line per case with a column per size. Rows are ordered by case, then by size.
func writeSizes(sizes []int) func(io.Writer, []*Row) error {
	return func(w io.Writer, rows []*Row) error {
		titles := lists.Map(sizes, func(bytes int) string { return unit.FormatBytes(int64(bytes)) })
		t := texttab.Table{Columns: append([]texttab.Column{{Title: "case"}}, right(append(titles, "GB/s at most")...)...)}
		for of := range slices.Chunk(rows, len(sizes)) {
			cells, peak := []string{of[0].Case}, 0.0
			for _, row := range of {
				cells, peak = append(cells, short(row.Time)), max(peak, row.GBps())
			}
			t.Add(append(cells, fmt.Sprintf("%.1f", peak))...)
		}
		return t.Write(w, 0)
	}
}

func writePublished(w io.Writer, rows []*Row) error {
	t := texttab.Table{Columns: append(append([]texttab.Column{{Title: "case"}},
		right("time", "published", "differs")...), texttab.Column{Title: "what"})}
	for _, row := range rows {
		have, want := event.Time(row.Time).Nanoseconds(), event.Time(row.Published).Nanoseconds()
		t.Add(row.Case, short(row.Time), fmt.Sprintf("%g", want), fmt.Sprintf("%+.1f%%", 100*(have-want)/want), row.Text)
	}
	return t.Write(w, 0)
}

// writeExceptions writes the numbers that have the opposite of the expected effect.
func (r *Report) writeExceptions(w io.Writer) {
	if len(r.Exceptions) == 0 {
		if r.Varied > 0 {
			fmt.Fprintf(w, "\nNone of %d numbers has the opposite of the expected effect, doubled or halved.\n", r.Varied)
		}
		return
	}
	fmt.Fprintf(w, "\nNumbers that have the opposite of the expected effect, doubled or halved:\n")
	for _, text := range r.Exceptions {
		fmt.Fprintf(w, "  %s\n", text)
	}
}

// writeChecks writes the table of checks and all faults.
func (r *Report) writeChecks(w io.Writer) error {
	fmt.Fprintf(w, "\nChecks:\n")
	t := texttab.Table{Columns: []texttab.Column{{Title: "check"}, {Title: ""}, {Title: "rows", Right: true},
		{Title: "what"}}}
	for i := range r.Checks {
		c := &r.Checks[i]
		verdict := "ok"
		switch {
		case !c.OK():
			verdict = "FAILED"
		case c.Rows == 0:
			verdict = "nothing to check"
		}
		t.Add(c.Name, verdict, fmt.Sprint(c.Rows), c.Text)
	}
	if err := t.Write(w, 0); err != nil {
		return err
	}
	for _, c := range r.Checks {
		for _, fault := range c.Faults {
			fmt.Fprintf(w, "%s: %s\n", c.Name, fault)
		}
	}
	return nil
}
