package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func TestRows(t *testing.T) {
	var rows []journal.Row
	for i, size := range []int64{1 << 10, 1 << 20, 1 << 20} {
		rows = append(rows, journal.Row{Trial: i, Status: journal.OK,
			Point:   point.Point{{Name: "size", Value: point.BytesValue(size)}},
			Env:     point.Env{{Name: "E", Value: fmt.Sprint(i), Set: i > 0}},
			Metrics: map[string]float64{"time_us": float64(10 * i)}})
	}
	rows[2].Status = journal.Failed
	for only, want := range map[string]string{
		"size>=1M": "1 2", "size>=1M && status==ok": "1", "time_us<15": "0 1", "E==unset": "0", "trial!=1": "0 2",
		"size==2K": "",
	} {
		got, err := Rows([]string{only}, rows)
		var trials []string
		for _, r := range got {
			trials = append(trials, fmt.Sprint(r.Trial))
		}
		if err != nil || strings.Join(trials, " ") != want {
			t.Errorf("%s keeps %v (%v), want %s", only, trials, err, want)
		}
	}
	if _, err := Rows([]string{"siez>1"}, rows); err == nil || !strings.Contains(err.Error(), `"size"`) {
		t.Errorf("an unknown name gives %v", err)
	}
}
