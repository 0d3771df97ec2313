package findings

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The grid shows the four outcomes apart.
func TestGridCells(t *testing.T) {
	at := point.Point{}
	ok, bad := cell{at: at, status: journal.OK, needed: true},
		cell{at: at, status: journal.Failed, reason: "element 3", needed: true}
	none, skip := cell{at: at, status: journal.NotExecuted, reason: "no GPU"},
		cell{at: at, status: journal.Skipped, reason: "makes no sense"}
	must := none
	must.needed = true
	for _, c := range []struct {
		cells  []cell
		status journal.Status
		text   string
	}{
		{[]cell{ok, ok}, journal.OK, "2"}, {[]cell{ok, bad}, journal.Failed, "1 of 2"},
		{[]cell{none}, journal.NotExecuted, "not run"},
		{[]cell{skip}, journal.Skipped, "skipped"}, {[]cell{ok, must}, journal.NotExecuted, "1 of 2"},
		{[]cell{ok, skip}, journal.OK, "1"}, {nil, "", ""},
	} {
		if got := gridCell(c.cells); got.Status != c.status || got.Text != c.text {
			t.Errorf("%v: %+v, want %s %q", c.cells, got, c.status, c.text)
		}
	}
	if got := gridCell([]cell{none, bad}); !strings.Contains(got.Note, "element 3") {
		t.Errorf("the note is %q, not the failure", got.Note)
	}
}
