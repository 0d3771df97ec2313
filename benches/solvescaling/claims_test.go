package solvescaling

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// The documents claim about the iterations of multigrid what the stored run shows.
func TestClaimsAboutIterations(t *testing.T) {
	read := func(name string) string {
		return strings.Join(strings.Fields(string(must.Get(os.ReadFile("../../docs/"+name))(t))), " ")
	}
	const page = "results/2026-11-18-multigrid.md"
	low, high := 0.0, 0.0
	growth, most := map[string]float64{}, map[string]float64{}
	numbers := func(list string) (out []float64) {
		for _, text := range strings.Split(list, ", ") {
			out = append(out, must.Get(strconv.ParseFloat(text, 64))(t))
		}
		return out
	}
	rows := 0
	for line := range strings.Lines(string(must.Get(os.ReadFile("../../docs/" + page))(t))) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 7 || !strings.HasPrefix(cells[6], "within") && !strings.HasPrefix(cells[6], "above") {
			continue
		}
		rows++
		name, sizes, counts := cells[1], numbers(cells[2]), numbers(cells[3])
		if low == 0 {
			low = sizes[0]
		}
		least := counts[0]
		for k, n := range counts {
			least = min(least, n)
			most[name], low, high = max(most[name], n), min(low, sizes[k]), max(high, sizes[k])
		}
		for _, n := range counts {
			growth[name] = max(growth[name], n/least)
		}
	}
	want := fmt.Sprintf("From %.0e to %.0e unknowns, `gmg` takes at most %.0f iterations (largest growth %.2f), and `amg` "+
		"at most %.0f (%.2f).", low, high, most["gmg"], growth["gmg"], most["amg"], growth["amg"])
	for _, name := range []string{page, "solve-scaling.md"} {
		if rows < 7 || !strings.Contains(read(name), want) {
			t.Errorf("docs/%s does not say: %s", name, want)
		}
	}
}
