package findings

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// cellOfRun is a random timed point. The test judges it without the code of the package.
type cellOfRun struct {
	algorithm string
	size      int64
	us        float64
	noise     float64 // half of the 95 % interval relative to the time
	disturbed bool
	missing   bool
}

// settled repeats the rule of docs/statistics.md: no disturbance, and an interval of at most 10 % to either side.
func (c cellOfRun) settled() bool { return !c.missing && !c.disturbed && c.noise <= 0.1 }

func (c cellOfRun) row() journal.Row {
	ranks, low, high := 4, c.us*(1-c.noise), c.us*(1+c.noise)
	r := journal.Row{Bench: "allreduce-eval", Part: matrix.Performance, Backend: "cpu", NumRanks: &ranks,
		Status: journal.OK, Kind: journal.Measured, Samples: 40, Metrics: map[string]float64{"time_us": c.us},
		Details: map[string]string{"buffers": "symmetric"},
		Point: point.Point{{Name: "algorithm", Value: point.StringValue(c.algorithm)},
			{Name: "dtype", Value: point.StringValue("f32")}, {Name: "size", Value: point.BytesValue(c.size)}}}
	r.Stats = journal.NewObject(map[string]journal.Stat{"time_us": {CILow: &low, CIHigh: &high}})
	if c.disturbed {
		r.Quality = journal.QualityDisturbed
	}
	return r
}

// randomRun returns a run of a few algorithms and sizes with missing, disturbed, noisy, tied and
// contradictory times.
func randomRun(rnd *rand.Rand) (cells []cellOfRun) {
	algorithms := []string{"naive", "ring", "tree", "two-stage", "auto"}[:2+rnd.IntN(4)]
	calm := rnd.IntN(3) > 0 // most runs are calm, so that some comparisons are resolved
	for i := range 2 + rnd.IntN(3) {
		for _, a := range algorithms {
			c := cellOfRun{algorithm: a, size: 1 << (10 + 3*i), us: 10 * (1 + rnd.Float64()), noise: 0.01 + 0.02*rnd.Float64()}
			if rnd.IntN(4) == 0 {
				c.us = 15 // ties
			}
			if !calm {
				c.missing, c.disturbed = rnd.IntN(5) == 0, rnd.IntN(5) == 0
				if rnd.IntN(4) == 0 {
					c.noise = 0.3
				}
			} else if rnd.IntN(12) == 0 {
				c.missing = true
			}
			cells = append(cells, c)
		}
	}
	return cells
}

// expectedWinners recomputes which algorithms may be called the fastest at a size, or nil if the data
// cannot tell.
func expectedWinners(cells []cellOfRun, size int64) (names []string) {
	seen := map[string]bool{} // algorithms with a row at any size
	for _, c := range cells {
		if !c.missing && c.algorithm != "auto" {
			seen[c.algorithm] = true
		}
	}
	var best *cellOfRun
	at := map[string]cellOfRun{}
	for i, c := range cells {
		if c.size == size && !c.missing {
			at[c.algorithm] = c
			if c.algorithm != "auto" && (best == nil || c.us < best.us) {
				best = &cells[i]
			}
		}
	}
	for name := range seen {
		if c, ran := at[name]; !ran || !c.settled() {
			return nil
		}
	}
	slower := func(a, than cellOfRun) bool {
		return a.us*(1-a.noise) > than.us*(1+than.noise) && a.us > 1.02*than.us
	}
	if auto, ran := at["auto"]; best == nil || ran && auto.settled() && slower(*best, auto) {
		return nil
	}
	for name, c := range at {
		if name != "auto" && !slower(c, *best) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

var (
	citation = regexp.MustCompile(`\[((?:fastest|speed|crossover|advice|llm)-[0-9]+)\]`)
	atSize   = regexp.MustCompile(`at ([0-9]+[KMG]i) the fastest (?:is|, )`)
)

// Every sentence about the fastest algorithm agrees with a second computation from the random rows,
// cites rows that ran and have settled, and nothing is claimed where the data cannot tell.
func TestRandomRuns(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	claims, abstentions := 0, 0
	for range 200 {
		cells := randomRun(rnd)
		var rows []journal.Row
		var of []cellOfRun
		for _, c := range cells {
			if !c.missing {
				rows, of = append(rows, c.row()), append(of, c)
			}
		}
		sections, cited := decl.SplitEvidence(Sections(rows, nil))
		if problem := checkSentences(sections[0].Text, cells, &claims, &abstentions); problem != "" {
			t.Fatalf("seed %d: %s\n%s\n%+v", seed, problem, sections[0].Text, cells)
		}
		known := map[string]bool{}
		for _, e := range cited {
			known[e.ID] = true
			for _, i := range e.Rows {
				if !of[i].settled() || len(e.Rows) == 0 {
					t.Fatalf("seed %d: %s rests on %+v", seed, e.ID, of[i])
				}
			}
		}
		for _, s := range sections {
			for _, m := range citation.FindAllStringSubmatch(s.Text, -1) {
				if !known[m[1]] {
					t.Fatalf("seed %d: no rows are listed for %s in %s", seed, m[1], s.Title)
				}
			}
			if strings.Contains(s.Text, "the fastest is") && s.Title != "In short" || atSize.MatchString(s.Text) &&
				!citation.MatchString(s.Text) {
				t.Fatalf("seed %d: a claim without rows in %s: %s", seed, s.Title, s.Text)
			}
		}
	}
	if claims < 40 || abstentions < 40 {
		t.Errorf("seed %d: %d claims and %d abstentions: the runs test too little", seed, claims, abstentions)
	}
}

// checkSentences compares the lines about the fastest algorithms with expectedWinners. It returns
// what is wrong.
func checkSentences(text string, cells []cellOfRun, claims, abstentions *int) string {
	last := int64(0)
	for _, c := range cells {
		if !c.missing {
			last = max(last, c.size)
		}
	}
	names := map[string][]string{}
	for _, c := range cells {
		names[unit.FormatBytes(c.size)] = expectedWinners(cells, c.size)
	}
	for _, line := range strings.Split(text, "\n") {
		if rest, is := strings.CutPrefix(line, "- **Speed, f32, 4 ranks, symmetric:** at "); is {
			size, after, _ := strings.Cut(rest, " the fastest is ")
			winner, _, _ := strings.Cut(after, " with ")
			if want := names[size]; len(want) == 0 || winner != orList(want) || size != unit.FormatBytes(last) {
				return fmt.Sprintf("claims %q at %s, want %v", winner, size, want)
			}
			*claims++
		}
		if rest, is := strings.CutPrefix(line, "- **Speed:** fastest at "); is {
			size, _, _ := strings.Cut(rest, " not resolved")
			if len(names[size]) > 0 {
				return fmt.Sprintf("abstains at %s, but %v can be told", size, names[size])
			}
			*abstentions++
		}
	}
	if len(expectedWinners(cells, last)) > 0 && !strings.Contains(text, "**Speed, ") {
		return "says nothing about the largest size"
	}
	if want := expectedChoices(cells); !strings.Contains(text, want) {
		return fmt.Sprintf("lacks %q", want)
	}
	return ""
}

// expectedChoices returns the beginning of the line that names the fastest algorithm at each size.
func expectedChoices(cells []cellOfRun) string {
	var sizes []int64
	algorithms := map[string]bool{}
	for _, c := range cells {
		if c.missing {
			continue
		}
		if !slices.Contains(sizes, c.size) {
			sizes = append(sizes, c.size)
		}
		if c.algorithm != "auto" {
			algorithms[c.algorithm] = true
		}
	}
	var parts, open []string
	first, last, current := int64(0), int64(0), ""
	flush := func() {
		switch {
		case current == "":
		case first == last:
			parts = append(parts, fmt.Sprintf("%s at %s", current, unit.FormatBytes(first)))
		default:
			parts = append(parts, fmt.Sprintf("%s from %s to %s", current, unit.FormatBytes(first), unit.FormatBytes(last)))
		}
		current = ""
	}
	for _, size := range sizes {
		names := expectedWinners(cells, size)
		if len(names) == 0 {
			flush()
			open = append(open, unit.FormatBytes(size))
			continue
		}
		if orList(names) != current {
			flush()
			current, first = orList(names), size
		}
		last = size
	}
	flush()
	switch {
	case len(algorithms) < 2:
		return "" // nothing to compare
	case len(parts) == 0:
		return "- **Fastest:** not resolved: "
	case len(open) > 0:
		parts = append(parts, "not resolved at "+strings.Join(open, ", "))
	}
	return "- **Fastest, f32, 4 ranks, symmetric:** " + strings.Join(parts, ", ")
}

// orList joins names as in "a, b or c".
func orList(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
	return names[0]
}
