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

// A sentence names every machine on which rows were simulated.
func TestSimulated(t *testing.T) {
	const a, b = "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"
	measured := journal.Row{Status: journal.OK}
	words := views.Simulated(dataset.All([]journal.Row{row("x.yaml", a, "whole"), row("y.yaml", b, ""), measured}))
	if want := "Simulated on topology x.yaml (sha256 aaaaaaaaaaaa), fabric whole. Simulated on topology y.yaml (sha256 " +
		"bbbbbbbbbbbb)."; words != want {
		t.Errorf("%q", words)
	}
}
