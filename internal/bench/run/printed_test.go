package run

import (
	"slices"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// A program that prints another size, rank count or variable than it was given may have measured another point.
func TestOtherPoint(t *testing.T) {
	two := 2
	row := journal.Row{NumRanks: &two,
		Point: point.Point{{Name: "size", Value: point.BytesValue(1024)}, {Name: "share", Value: point.FloatValue(1.0 / 3)},
			{Name: "dtype", Value: point.StringValue("f32")}},
		Env: point.Env{{Name: "CTAS", Value: "4", Set: true}, {Name: "MODE", Value: "fast", Set: true}, {Name: "GONE"}}}
	same := point.Point{{Name: "size", Value: point.IntValue(1024)}, {Name: "share", Value: point.FloatValue(0.3333)},
		{Name: "dtype", Value: point.StringValue("float")}, {Name: "CTAS", Value: point.IntValue(4)},
		{Name: "MODE", Value: point.IntValue(1)}, {Name: "GONE", Value: point.IntValue(1)},
		{Name: bench.RanksAxis, Value: point.IntValue(2)}}
	if got := otherPoint(&row, same); len(got) > 0 {
		t.Errorf("warnings about the same point: %v", got)
	}
	other := point.Point{{Name: "size", Value: point.IntValue(992)}, {Name: "CTAS", Value: point.IntValue(1)},
		{Name: bench.RanksAxis, Value: point.IntValue(1)}}
	want := []string{"the program printed size=992, but this point has size=1024: it may have run another point",
		"the program printed CTAS=1, but this point has CTAS=4: it may have run another point",
		"the program printed num_ranks=1, but this point has num_ranks=2: it may have run another point"}
	if got := journal.Conditions(otherPoint(&row, other)).Sentences(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
