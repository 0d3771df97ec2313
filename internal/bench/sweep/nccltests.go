package sweep

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/nccltable"
)

// ncclKeys are the key columns that every version of nccl-tests has.
var ncclKeys = []decl.Axis{{Name: "size", Kind: point.Bytes}, {Name: "type", Kind: point.String},
	{Name: "redop", Kind: point.String}}

// ncclPlaces maps the words of sweep files to the two groups of columns.
var ncclPlaces = map[string]nccltable.Place{"out": nccltable.OutOfPlace, "in": nccltable.InPlace}

// ncclColumns are the columns that can be metrics.
var ncclColumns = map[string]usual{nccltable.Time: {"us", "lower"}, nccltable.AlgBW: {"GB/s", "higher"},
	nccltable.BusBW: {"GB/s", "higher"}, nccltable.Wrong: {"", "lower"}}

// ncclLines reads a table of nccl-tests. If the program reports wrong results without saying for
// which lines, all lines are marked as wrong.
func (t *table) ncclLines(text string) ([]line, error) {
	read, err := nccltable.Read(text)
	if err != nil {
		return nil, err
	}
	var lines []line
	failed, known := "", false // the program's summary, and whether some line counts wrong elements
	for _, l := range read {
		if l.Header != nil {
			for _, m := range t.metrics {
				if place := ncclPlaces[m.column.place]; !l.Header.Has(place, m.column.name) {
					return nil, fmt.Errorf("the nccl-tests table has no column %s %v", m.column.name, place)
				}
			}
		}
		if l.Failure != "" {
			return nil, fmt.Errorf("line %d of the nccl-tests table: the program gave up: %s", l.Number, l.Failure)
		}
		if l.Failed() {
			failed = "the program says: " + strings.Join(strings.Fields(l.Text)[1:], " ")
		}
		if l.Row == nil {
			continue
		}
		values, err := t.ncclValues(l.Row)
		if err != nil {
			return nil, err
		}
		wrong, err := l.Row.WrongElements()
		if err != nil {
			return nil, err
		}
		known = known || wrong > 0
		lines = append(lines, line{number: l.Number, keys: ncclPoint(l.Row), values: values, wrong: wrongElements(wrong)})
	}
	if failed != "" && !known {
		for i := range lines {
			lines[i].wrong = failed
		}
	}
	return lines, nil
}

// ncclPoint returns the point of a line.
func ncclPoint(row *nccltable.Row) point.Point {
	p := point.Point{{Name: "size", Value: point.BytesValue(row.Size)}}
	for _, name := range []string{"type", "redop"} {
		if text := row.Key(name); text != "" {
			p = append(p, point.Coord{Name: name, Value: point.StringValue(text)})
		}
	}
	// The root is -1 for operations that have none.
	if root, err := strconv.ParseInt(row.Key("root"), 10, 64); err == nil && root >= 0 {
		p = append(p, point.Coord{Name: "root", Value: point.IntValue(root)})
	}
	return p
}

func (t *table) ncclValues(row *nccltable.Row) (map[string]float64, error) {
	values := map[string]float64{}
	for _, m := range t.metrics {
		v, has, err := row.Number(ncclPlaces[m.column.place], m.column.name)
		if err != nil {
			return nil, err
		}
		if has {
			values[m.info.Name] = v
		}
	}
	return values, nil
}
