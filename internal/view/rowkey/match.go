package rowkey

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// Matched is the rows of one key, a set for each run.
type Matched []rowset.Set

// Any is a row of the key, to name it by: of the first run that has one.
func (m Matched) Any() *journal.Row {
	for _, rows := range m {
		if len(rows) > 0 {
			return rows[0]
		}
	}
	return nil
}

// Match puts rows of several runs together that have the same key: the keys of
// the first run in the order of its rows, then those that only later runs have.
func Match[K comparable](key func(*journal.Row) K, runs ...rowset.Set) []Matched {
	var out []Matched
	index := map[K]int{}
	for side, rows := range runs {
		for _, g := range rowset.GroupBy(rows, key) {
			i, ok := index[g.Key]
			if !ok {
				i = len(out)
				index[g.Key] = i
				out = append(out, make(Matched, len(runs)))
			}
			out[i][side] = g.Rows
		}
	}
	return out
}

// ranksAxis has the number of ranks of a program that starts its own.
const ranksAxis = "np"

// Shared is what all rows of several runs have, whoever made them: which axes,
// in the order of the first row, and whether all say the number of ranks. Rows
// that agree in it do the same work; what else they have is how they do it.
type Shared struct {
	Axes  []string
	ranks bool
}

// InCommon finds what the runs share, without the axes in except.
func InCommon(runs []rowset.Set, except []string) Shared {
	s := Shared{ranks: true}
	first := true
	for _, rows := range runs {
		for _, r := range rows {
			for _, c := range r.Point {
				if first && c.Name != ranksAxis && !slices.Contains(except, c.Name) {
					s.Axes = append(s.Axes, c.Name)
				}
			}
			first = false
			s.Axes = slices.DeleteFunc(s.Axes, func(name string) bool { _, has := r.Point.Get(name); return !has })
			_, known := ranksOf(r)
			s.ranks = s.ranks && known
		}
	}
	return s
}

// ranksOf is the number of ranks of a row; a program that starts its own has it
// as an axis, or does not say.
func ranksOf(r *journal.Row) (n int, known bool) {
	if r.NumRanks != nil {
		return *r.NumRanks, true
	}
	np, known := r.Point.Get(ranksAxis)
	return int(np.Float()), known
}

// Work is the key of rows that do the same work.
type Work struct {
	Ranks   int // 0 where a run does not say it
	sharing int // ranks on one GPU: other work than between GPUs
	rest    string
}

// Of is the work of a row. Values are compared whatever their kind: a size in
// bytes is also a number, and a shape is the same whatever it is called.
func (s Shared) Of(r *journal.Row) Work {
	w := Work{sharing: r.Sharing()}
	if s.ranks {
		w.Ranks, _ = ranksOf(r)
	}
	w.rest = strings.Join(lists.Map(s.Point(r), func(c point.Coord) string { return plain(c.Value) }), " ")
	return w
}

func plain(v point.Value) string {
	switch {
	case v.Kind().Numeric():
		return fmt.Sprint(v.Float())
	case v.Kind() == point.Tuple:
		return fmt.Sprint(v.Dims())
	}
	return v.String()
}

// Point is the shared axes of a row with its values.
func (s Shared) Point(r *journal.Row) point.Point {
	return lists.Map(s.Axes, func(name string) point.Coord { return point.Coord{Name: name, Value: r.Point.At(name)} })
}

// Rest is what a row has besides the shared axes, the ranks and the names in except.
func (s Shared) Rest(r *journal.Row, except ...string) point.Point {
	return r.Point.Without(slices.Concat(s.Axes, except, []string{ranksAxis})...)
}

// ComparePoints orders points of the same axes by their values, the first axis first.
func ComparePoints(a, b point.Point) int {
	for i := range a {
		x, y := a[i].Value, b[i].Value
		c := 0
		switch {
		case x.Kind().Numeric() && y.Kind().Numeric():
			c = cmp.Compare(x.Float(), y.Float())
		case x.Kind() == point.Tuple && y.Kind() == point.Tuple:
			c = slices.Compare(x.Dims(), y.Dims())
		default:
			c = strings.Compare(x.String(), y.String())
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// SharingDiffers tells whether ranks shared a GPU in some rows and not in others.
func SharingDiffers(runs ...rowset.Set) bool {
	var shared, apart bool
	for _, rows := range runs {
		for _, r := range rows {
			if ranks, _ := ranksOf(r); ranks > 1 {
				shared, apart = shared || r.Sharing() > 0, apart || r.Sharing() == 0
			}
		}
	}
	return shared && apart
}
