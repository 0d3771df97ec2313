// Package dataset selects and groups the rows of a run and matches rows of several runs. It has lookups by
// coordinate, medians over trials, series for figures, and the key that is equal for the same point in two
// runs. Benches and views use it to find their rows. It does not judge them; package judge does.
package dataset

import (
	"cmp"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Text returns the row's axis or option of that name as users write it, or "" if it has none.
func Text(r *journal.Row, name string) string {
	if v, ok := r.Point.Get(name); ok {
		return v.String()
	}
	return r.Options.At(name).String()
}

// Number returns the row's axis of that name as a number.
func Number(r *journal.Row, name string) float64 { return r.Point.At(name).Float() }

// Ranks returns the row's number of ranks, or 0 if it has none.
func Ranks(r *journal.Row) int {
	if r.NumRanks == nil {
		return 0
	}
	return *r.NumRanks
}

// Set is a selection of a run's rows, in their original order.
type Set []*journal.Row

// All returns a Set of all the rows.
func All(rows []journal.Row) Set {
	s := make(Set, len(rows))
	for i := range rows {
		s[i] = &rows[i]
	}
	return s
}

// Copy returns copies of the rows.
func (s Set) Copy() []journal.Row {
	return lists.Map(s, func(r *journal.Row) journal.Row { return *r })
}

// Clone returns a Set of copies of the rows, whose fields may be replaced.
func (s Set) Clone() Set { return All(s.Copy()) }

// Where returns the rows for which keep returns true.
func (s Set) Where(keep func(*journal.Row) bool) Set { return lists.Filter(s, keep) }

// Part returns the rows that belong to one part of the bench.
func (s Set) Part(name string) Set {
	return s.Where(func(r *journal.Row) bool { return r.Part == name })
}

// At returns the rows with these coordinates, given as alternating names and values.
func (s Set) At(coordinates ...string) Set {
	return s.Where(func(r *journal.Row) bool { return isAt(r, coordinates) })
}

// First returns the first row with these coordinates, or nil. It prefers rows that were run to rows that
// were skipped or not executed.
func (s Set) First(coordinates ...string) *journal.Row {
	var first *journal.Row
	for _, r := range s {
		if !isAt(r, coordinates) {
			continue
		}
		if !r.Status.NotRun() {
			return r
		}
		if first == nil {
			first = r
		}
	}
	return first
}

func isAt(r *journal.Row, coordinates []string) bool {
	for i := 0; i+1 < len(coordinates); i += 2 {
		if Text(r, coordinates[i]) != coordinates[i+1] {
			return false
		}
	}
	return true
}

// Distinct returns the distinct values of a coordinate in order of appearance.
func (s Set) Distinct(name string) []string {
	return lists.Distinct(lists.Map(s, func(r *journal.Row) string { return Text(r, name) }))
}

// Series returns one series for each name, its points sorted by X. at returns the point
// of a row, or false to leave it out. Points of disturbed rows are hollow.
func Series(s Set, name func(*journal.Row) string, at func(*journal.Row) (p figure.Point, ok bool)) []figure.Series {
	var out []figure.Series
	for _, g := range lists.GroupBy(s, name) {
		line := figure.Series{Name: g.Key}
		for _, r := range g.Items {
			if p, ok := at(r); ok {
				p.Hollow = p.Hollow || r.Disturbed()
				line.Points = append(line.Points, p)
			}
		}
		if len(line.Points) > 0 {
			SortByX(line.Points)
			out = append(out, line)
		}
	}
	return out
}

// SortByX sorts points by X, keeping the order of points with equal X.
func SortByX(points []figure.Point) {
	slices.SortStableFunc(points, func(a, b figure.Point) int { return cmp.Compare(a.X, b.X) })
}
