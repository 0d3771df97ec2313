package model

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// Table is times by number of ranks and size, to read others off: a measured or
// published curve without any assumption about its form.
type Table struct {
	Name   string
	Source string // who measured it, on what, and how
	Shared bool   // its ranks shared a GPU: it says nothing of a link
	Ranks  map[int][]TablePoint
}

// TablePoint is one size of a table.
type TablePoint struct {
	Bytes int64
	US    float64
}

// US reads the time of a message off the table: straight lines between the
// points in logarithms of both. Outside the measured sizes or ranks it is an
// error, never a guess.
func (t *Table) US(ranks int, bytes int64) (float64, error) {
	points, has := t.Ranks[ranks]
	if !has || len(points) == 0 {
		known := slices.Sorted(maps.Keys(t.Ranks))
		return 0, fmt.Errorf("curve %s has no %s, only %s", t.Name, unit.Plural(ranks, "rank"), joinInts(known))
	}
	first, last := points[0], points[len(points)-1]
	if bytes < first.Bytes || bytes > last.Bytes {
		return 0, fmt.Errorf("curve %s with %s goes from %s to %s: %s is outside, and nothing is extrapolated", t.Name,
			unit.Plural(ranks, "rank"),
			unit.FormatBytes(first.Bytes), unit.FormatBytes(last.Bytes), unit.FormatBytes(bytes))
	}
	i, exact := slices.BinarySearchFunc(points, bytes, func(p TablePoint, b int64) int { return cmp.Compare(p.Bytes, b) })
	if exact {
		return points[i].US, nil
	}
	a, b := points[i-1], points[i]
	share := math.Log(float64(bytes)/float64(a.Bytes)) / math.Log(float64(b.Bytes)/float64(a.Bytes))
	return a.US * math.Pow(b.US/a.US, share), nil
}

// Floor is the time of the smallest message, which no bandwidth improves.
func (t *Table) Floor(ranks int) float64 {
	least := math.Inf(1)
	for _, p := range t.Ranks[ranks] {
		least = min(least, p.US)
	}
	return least
}

func joinInts(numbers []int) string {
	return strings.Join(lists.Map(numbers, func(n int) string { return fmt.Sprint(n) }), ", ")
}

// Best is the algorithm name that makes a table of the fastest at each size.
const BestAlgorithm = "best"

// TableOf makes a table of samples: of one algorithm, or of the fastest at each
// size. Out of place counts before in place, and 16-bit types, which models
// compute with, before others.
func TableOf(name, source, algorithm string, samples []Sample) (*Table, error) {
	t := &Table{Name: name, Source: source, Ranks: map[int][]TablePoint{}}
	type entry struct {
		ranks int
		bytes int64
	}
	best := map[entry]Sample{}
	apart := false
	for _, s := range samples {
		if algorithm != BestAlgorithm && s.Algorithm != algorithm {
			continue
		}
		t.Shared, apart = t.Shared || s.Sharing > 0, apart || s.Sharing == 0 && s.Ranks > 1
		at := entry{s.Ranks, s.Bytes}
		if old, has := best[at]; !has || preferred(s, old) {
			best[at] = s
		}
	}
	if len(best) == 0 {
		names := lists.Distinct(lists.Map(samples, func(s Sample) string { return s.Algorithm }))
		slices.Sort(names)
		return nil, fmt.Errorf("curve %s: no all-reduce by %s in it (algorithms: %s)", name, algorithm,
			strings.Join(names, ", "))
	}
	if t.Shared && apart {
		return nil, fmt.Errorf("curve %s: ranks shared a GPU in some of its rows and not in others: no curve has both", name)
	}
	if t.Shared {
		t.Source += ", whose ranks shared one GPU: times of its memory, not of a link"
	}
	for at, s := range best {
		t.Ranks[at.ranks] = append(t.Ranks[at.ranks], TablePoint{at.bytes, s.TimeUS})
	}
	for _, points := range t.Ranks {
		slices.SortFunc(points, func(a, b TablePoint) int { return cmp.Compare(a.Bytes, b.Bytes) })
	}
	return t, nil
}

// preferred reports whether a sample is the better source for a point.
func preferred(s, old Sample) bool {
	half := func(s Sample) bool { return s.DType == "bf16" || s.DType == "f16" }
	switch {
	case half(s) != half(old):
		return half(s)
	case s.InPlace != old.InPlace:
		return !s.InPlace
	}
	return s.TimeUS < old.TimeUS
}
