// Package rowset looks things up in the rows of a run: coordinates by name, the
// rows at coordinates, groups of rows, medians over trials, series for figures.
// The views of all benches are made with it. It judges nothing, and what a row
// means is the bench's to know.
package rowset

import (
	"cmp"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Text is a coordinate of a row, or an option, as people write it; empty where
// the row has none of the name.
func Text(r *journal.Row, name string) string {
	if v, ok := r.Point.Get(name); ok {
		return v.String()
	}
	return r.Options.At(name).String()
}

// Number is a coordinate of a row as a number.
func Number(r *journal.Row, name string) float64 {
	return r.Point.At(name).Float()
}

// Ranks is the number of ranks of a row; 0 where it has none.
func Ranks(r *journal.Row) int {
	if r.NumRanks == nil {
		return 0
	}
	return *r.NumRanks
}

// Set is some rows of a run, in their order there.
type Set []*journal.Row

// All are all the rows.
func All(rows []journal.Row) Set {
	s := make(Set, len(rows))
	for i := range rows {
		s[i] = &rows[i]
	}
	return s
}

// Good are the rows with a result.
func Good(rows []journal.Row) Set {
	return All(rows).Where(func(r *journal.Row) bool { return r.Status == journal.OK })
}

// Where keeps the rows for which keep holds.
func (s Set) Where(keep func(*journal.Row) bool) Set {
	return lists.Keep(s, keep)
}

// Part keeps the rows of a part of the bench.
func (s Set) Part(name string) Set {
	return s.Where(func(r *journal.Row) bool { return r.Part == name })
}

// At keeps the rows with these coordinates: names and values in turn.
func (s Set) At(coordinates ...string) Set {
	return s.Where(func(r *journal.Row) bool { return isAt(r, coordinates) })
}

// First is the first row with these coordinates, or nil. One that was not run
// stands only where there is no other.
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

// Distinct are the values of a coordinate in order of appearance.
func (s Set) Distinct(name string) []string {
	return lists.Distinct(lists.Map(s, func(r *journal.Row) string { return Text(r, name) }))
}

// Median is the median of a metric over the rows that have it; 0 without one.
func (s Set) Median(metric string) float64 {
	if values := journal.Values(s, metric); len(values) > 0 {
		return stats.Median(values)
	}
	return 0
}

// Group is the rows that share a key.
type Group[K comparable] struct {
	Key  K
	Rows Set
}

// GroupBy puts rows of the same key together, in the order of their first rows.
func GroupBy[K comparable](s Set, key func(*journal.Row) K) []Group[K] {
	groups := lists.GroupBy(s, key)
	return lists.Map(groups, func(g lists.Group[K, *journal.Row]) Group[K] { return Group[K]{g.Key, g.Items} })
}

// Series makes a series for each name, its points in order of X, hollow where the row
// was disturbed; rows without a point are left out.
func Series(s Set, name func(*journal.Row) string, at func(*journal.Row) (p figure.Point, ok bool)) []figure.Series {
	var out []figure.Series
	for _, g := range GroupBy(s, name) {
		line := figure.Series{Name: g.Key}
		for _, r := range g.Rows {
			if p, ok := at(r); ok {
				p.Hollow = p.Hollow || r.Disturbed() != ""
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

// SortByX puts points in order of X; those of the same X keep theirs.
func SortByX(points []figure.Point) {
	slices.SortStableFunc(points, func(a, b figure.Point) int { return cmp.Compare(a.X, b.X) })
}
