package compare

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/texttab"
)

func TestLimitsOfOptions(t *testing.T) {
	for alpha, good := range map[float64]bool{-0.01: false, 0.01: true, 0.49: true, 0.5: false, 1: false} {
		if _, err := (Options{Alpha: alpha}).withDefaults(); (err == nil) != good {
			t.Errorf("alpha %g: %v", alpha, err)
		}
	}
	for floor, good := range map[float64]bool{-0.01: false, 0.01: true, 0.99: true, 1: false, 1.5: false} {
		if _, err := (Options{Floor: floor}).withDefaults(); (err == nil) != good {
			t.Errorf("floor %g: %v", floor, err)
		}
	}
	if (*Side)(nil).value() != 0 || (&Side{Value: 3}).value() != 3 || (Pair{}).ratio() != 1 || (Pair{}).p() != 1 {
		t.Error("a side or an effect that is missing has a value")
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// TestNumberOfLines checks documents with no line, with one, and with one more than a comment shows.
func TestNumberOfLines(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: "point 0", maxComment: "", maxComment + 1: "1 more changed."} {
		d := Document{Heading: []string{"h:"}, Columns: []texttab.Column{{Title: "title"}},
			Remarks: []string{"a: remark", "warning: warned"}}
		for i := range n {
			name := fmt.Sprint("point ", i)
			d.Lines = append(d.Lines, Line{Cells: []string{name}, Name: name, Outcome: Failed})
		}
		var table, comment strings.Builder
		must.Do(t, d.Write(&table, "table", 0))
		must.Do(t, d.Write(&comment, "github", 0))
		if strings.Contains(table.String(), "title") != (n > 0) || !strings.Contains(comment.String(), want) ||
			strings.Contains(comment.String(), "more changed") != (n > maxComment) {
			t.Errorf("%d lines:\n%s\n%s", n, table.String(), comment.String())
		}
		if strings.Contains(comment.String(), "a: remark") != (n > 0) || !strings.Contains(comment.String(), "warned") {
			t.Errorf("%d lines: the remarks of the table are missing, or remain without it:\n%s", n, comment.String())
		}
		for _, format := range Formats() {
			if err := d.Write(failingWriter{}, format, 0); err == nil {
				t.Errorf("%s: a failed write is not reported", format)
			}
		}
	}
}

// With several lines, only axes whose values differ are shown.
func TestVaryingAxes(t *testing.T) {
	at := func(a, b int64) Speedup {
		return Speedup{Point: point.Point{{Name: "a", Value: point.IntValue(a)}, {Name: "b", Value: point.IntValue(b)}}}
	}
	for _, test := range []struct {
		lines []Speedup
		want  []string
	}{
		{[]Speedup{at(1, 2)}, []string{"a", "b"}},
		{[]Speedup{at(1, 2), at(1, 3)}, []string{"b"}},
		{[]Speedup{at(1, 2), at(1, 2)}, nil},
	} {
		if got := varyingAxes(test.lines); !slices.Equal(got, test.want) {
			t.Errorf("%d lines: %v, want %v", len(test.lines), got, test.want)
		}
	}
}
