package sweep

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// table converts a printed table to rows. The key columns identify the point of a line, the other
// columns are samples. Lines with equal keys are samples of the same row.
type table struct {
	kind    string
	metrics []metric
	axes    []string // names that the point has already
}

// line is one line of a table before it becomes a row.
type line struct {
	number int
	keys   point.Point
	values map[string]float64 // by metric; unavailable ones are absent
	wrong  string             // why the program considers the line wrong, or ""
}

// rows reads the table in a text.
func (t *table) rows(text []byte) ([]decl.ParsedRow, error) {
	var lines []line
	var err error
	if t.kind == "csv" {
		lines, err = t.csvLines(string(text))
	} else {
		lines, err = t.ncclLines(string(text))
	}
	if err != nil {
		return nil, err
	}
	printed, err := t.dropAxes(lines)
	if err != nil {
		return nil, err
	}
	var rows []decl.ParsedRow
	index := map[string]int{}
	for _, l := range lines {
		id := rowID(l.keys)
		i, known := index[id]
		if !known {
			i = len(rows)
			index[id] = i
			rows = append(rows, decl.ParsedRow{Extra: l.keys, Printed: printed, Samples: map[string][]float64{}})
		}
		for name, v := range l.values {
			rows[i].Samples[name] = append(rows[i].Samples[name], v)
		}
		rows[i].Wrong = cmp.Or(rows[i].Wrong, l.wrong)
	}
	return rows, nil
}

// rowID returns a text that identifies a point.
func rowID(p point.Point) string {
	var b strings.Builder
	for _, c := range p {
		fmt.Fprintf(&b, "%q=%q ", c.Name, c.Value.String())
	}
	return b.String()
}

// dropAxes removes key columns that are also axes, because the point has them already, and returns their values. It is
// an error if such a column varies: then some lines do not belong to the requested point.
func (t *table) dropAxes(lines []line) (printed point.Point, err error) {
	for i := range lines {
		for _, c := range lines[i].keys {
			if c.Name == bench.RanksAxis && !slices.Contains(t.axes, c.Name) || c.Name == bench.BackendName {
				return nil, fmt.Errorf("the key column %q has a name that kernbench uses itself: list the wanted columns with "+
					"keys", c.Name)
			}
			if slices.Contains(namesOf(t.metrics), c.Name) {
				return nil, fmt.Errorf("the key column %q has the name of a metric: rename the metric, or list the wanted "+
					"columns with keys", c.Name)
			}
			if first, _ := lines[0].keys.Get(c.Name); slices.Contains(t.axes, c.Name) && first != c.Value {
				return nil, fmt.Errorf("the column %q holds %v and, in line %d, %v, but %q is an axis with one value per run",
					c.Name, first, lines[i].number, c.Value, c.Name)
			}
		}
	}
	if len(lines) > 0 {
		printed = lists.Filter(lines[0].keys, func(c point.Coord) bool { return slices.Contains(t.axes, c.Name) })
	}
	for i := range lines {
		lines[i].keys = lines[i].keys.Without(t.axes...)
	}
	return printed, nil
}

// csvLines finds the header, which is the first line with all wanted columns, and reads the lines
// below it that have equally many fields. Other lines, such as log messages, are ignored, unless they look like rows.
func (t *table) csvLines(text string) ([]line, error) {
	var wanted, keys []string
	for _, m := range t.metrics {
		wanted = append(wanted, m.column.name)
		if m.column.keys != nil {
			keys = m.column.keys
		}
	}
	var header []string
	var cells [][]string // the lines of the table
	var numbers []int
	n, other := 0, 0 // the number of the line, and the columns of another table below
	for text := range strings.Lines(text) {
		n++
		fields, ok := csvFields(text)
		switch {
		case !ok:
		case header == nil:
			if containsAll(fields, wanted) && containsAll(fields, keys) {
				header = fields
			}
		case len(fields) == len(header) && !slices.Equal(fields, header):
			cells, numbers = append(cells, fields), append(numbers, n)
		case !slices.ContainsFunc(fields, isNumber):
			other = len(fields)
		case len(fields) != other && damaged(fields, header, wanted):
			return nil, fmt.Errorf("line %d has %s, but the header has %d: %q", n, unit.Plural(len(fields), "field"),
				len(header), clip(strings.TrimSpace(text)))
		}
	}
	if header == nil {
		return nil, fmt.Errorf("no line is a CSV header with the %s", columnsText(append(wanted, keys...)))
	}
	for i, name := range header {
		if slices.Contains(header[:i], name) && (slices.Contains(wanted, name) || slices.Contains(keys, name)) {
			return nil, fmt.Errorf("the CSV header has a duplicate column %q", name)
		}
	}
	if keys == nil {
		for _, name := range header {
			if !slices.Contains(wanted, name) && name != "" && !slices.Contains(wrongColumns, name) {
				keys = append(keys, name)
			}
		}
	}
	lines := make([]line, len(cells))
	for i, row := range cells {
		lines[i] = line{number: numbers[i], values: map[string]float64{}}
		for _, m := range t.metrics {
			v, err := number(row[slices.Index(header, m.column.name)])
			if err != nil {
				return nil, fmt.Errorf("column %q, line %d: %w", m.column.name, numbers[i], err)
			}
			lines[i].values[m.info.Name] = v
		}
		lines[i].wrong = csvVerdict(header, keys, row)
	}
	for _, key := range keys {
		addKey(lines, key, cells, slices.Index(header, key))
	}
	return lines, nil
}

// damaged reports whether a line with more or fewer fields than the header looks like a row of the table, as 1K,1,234.5
// does, whose time has a comma between its digits.
func damaged(fields, header, wanted []string) bool {
	if len(fields) < len(header) {
		return len(fields) > 1 && !slices.ContainsFunc(fields, func(f string) bool { return !isNumber(f) })
	}
	return !slices.ContainsFunc(wanted, func(name string) bool { return !isNumber(fields[slices.Index(header, name)]) })
}

func isNumber(text string) bool {
	_, err := number(text)
	return err == nil
}

// wrongColumns are the usual names of columns that count wrong elements.
var wrongColumns = []string{"#wrong", "wrong", "nwrong", "num_wrong"}

// notWrong are the words, in lower case, that say that nothing is wrong or that nothing was checked.
var notWrong = []string{"", "-", "n/a", "na", "none", "false", "no", "ok"}

// csvVerdict returns why a line is wrong according to its columns that count wrong elements, or "".
func csvVerdict(header, keys, row []string) string {
	for c, name := range header {
		if !slices.Contains(wrongColumns, name) || slices.Contains(keys, name) {
			continue
		}
		switch n, err := number(row[c]); {
		case err == nil && n != 0:
			return wrongElements(n)
		case err != nil && !slices.Contains(notWrong, strings.ToLower(row[c])):
			return fmt.Sprintf("the column %s says %q", name, clip(row[c]))
		}
	}
	return ""
}

// wrongElements formats a count of wrong elements, or "" for 0.
func wrongElements(n float64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f wrong elements", n)
}

// addKey adds one column to the keys of all lines, as numbers if all cells are numbers. Cells that a number would
// change, such as 007 and integers beyond 64 bits, are names.
func addKey(lines []line, name string, cells [][]string, column int) {
	kind := point.Int
	for _, row := range cells {
		_, noInt := strconv.ParseInt(row[column], 10, 64)
		if noInt != nil && kind == point.Int {
			kind = point.Float
		}
		_, noFloat := point.Parse(point.Float, row[column])
		if noFloat != nil || errors.Is(noInt, strconv.ErrRange) || unplain.MatchString(row[column]) {
			kind = point.String
			break
		}
	}
	for i := range lines {
		text := cells[i][column]
		v := point.StringValue(text)
		switch kind {
		case point.Int:
			n, _ := strconv.ParseInt(text, 10, 64)
			v = point.IntValue(n)
		case point.Float:
			v, _ = point.Parse(point.Float, text)
		}
		lines[i].keys = append(lines[i].keys, point.Coord{Name: name, Value: v})
	}
}

// csvFields splits a line. It reports false for a blank or malformed line.
func csvFields(text string) ([]string, bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, false
	}
	r := csv.NewReader(strings.NewReader(text))
	r.TrimLeadingSpace = true
	fields, err := r.Read()
	if err != nil {
		return nil, false
	}
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	return fields, true
}

func containsAll(have, want []string) bool {
	return !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(have, w) })
}

func columnsText(names []string) string {
	if len(names) == 1 {
		return fmt.Sprintf("column %q", names[0])
	}
	return "columns " + quoteAll(names)
}
