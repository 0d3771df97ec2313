package machine

import (
	"testing"

	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
)

func row(name, hash, fabric string) journal.Row {
	return journal.Row{Status: journal.OK, Details: map[string]string{Option: name, Hash: hash, Fabric: fabric}}
}

// Labels are as short as possible; rows of a single machine have none.
func TestLabels(t *testing.T) {
	const a, b = "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"
	measured := journal.Row{Status: journal.OK}
	for _, c := range []struct {
		rows []journal.Row
		want []string
	}{
		{[]journal.Row{row("x.yaml", a, "whole"), row("x.yaml", a, "whole"), measured}, []string{"", "", ""}},
		{[]journal.Row{row("x.yaml", a, "whole"), row("y.yaml", b, "flits"), measured}, []string{"x.yaml", "y.yaml", ""}},
		{[]journal.Row{row("x.yaml", a, "whole"), row("x.yaml", b, "whole")},
			[]string{"x.yaml (aaaaaaaa)", "x.yaml (bbbbbbbb)"}},
		{[]journal.Row{row("x.yaml", a, "whole"), row("x.yaml", a, "flits")}, []string{"x.yaml, whole", "x.yaml, flits"}},
		{[]journal.Row{row("x.yaml", a, "whole"), row("y.yaml", a, "whole")}, []string{"x.yaml", "y.yaml"}},
	} {
		label := Labels(dataset.All(c.rows))
		for i := range c.rows {
			if got := label(&c.rows[i]); got != c.want[i] {
				t.Errorf("%v: %q, want %q", c.rows[i].Details, got, c.want[i])
			}
		}
	}
	words := views.Simulated(dataset.All([]journal.Row{row("x.yaml", a, "whole"), row("y.yaml", b, ""), measured}))
	if want := "Simulated on topology x.yaml (sha256 aaaaaaaaaaaa), fabric whole. Simulated on topology y.yaml (sha256 " +
		"bbbbbbbbbbbb)."; words != want {
		t.Errorf("%q", words)
	}
}
