package sweep

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// mustParse parses a valid sweep.
func mustParse(t *testing.T, text string) *decl.Part {
	t.Helper()
	bench := must.Get(Parse("sweep.yaml", []byte(text)))(t)
	return bench.Parts[0]
}

// withMetrics returns a minimal sweep with the given metrics, one per line.
func withMetrics(ranks string, metrics ...string) string {
	text := "name: x\ncommand: [prog]\n"
	if ranks != "" {
		text += "ranks: " + ranks + "\n"
	}
	return text + "metrics:\n  " + strings.Join(metrics, "\n  ") + "\n"
}

// outputs returns one rank's output per text.
func outputs(stdouts ...string) []decl.RankOutput {
	var outs []decl.RankOutput
	for i, s := range stdouts {
		outs = append(outs, decl.RankOutput{Rank: i, Stdout: []byte(s)})
	}
	return outs
}

// firstPoint returns the first value of every axis.
func firstPoint(p *decl.Part) (at point.Point, ranks *int) {
	for _, a := range p.Axes {
		if a.Name == bench.RanksAxis {
			n := int(a.Values[0].Int())
			ranks = &n
			continue
		}
		at = at.With(a.Name, a.Values[0])
	}
	return at, ranks
}
