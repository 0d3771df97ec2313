package dataset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Matched holds the rows of several runs that have the same key. There is one Set per run, which is empty
// if the run has no such row.
type Matched []Set

// AnyRow returns a row of the first run that has one. Callers use it to name the point.
func (m Matched) AnyRow() *journal.Row {
	for _, rows := range m {
		if len(rows) > 0 {
			return rows[0]
		}
	}
	return nil
}

// Match pairs the rows of several runs by key. The keys of the first run come first, in
// the order of its rows, then the keys that only later runs have.
func Match[K comparable](key func(*journal.Row) K, runs ...Set) []Matched {
	var out []Matched
	index := map[K]int{}
	for side, rows := range runs {
		for _, g := range lists.GroupBy(rows, key) {
			i, ok := index[g.Key]
			if !ok {
				i = len(out)
				index[g.Key] = i
				out = append(out, make(Matched, len(runs)))
			}
			out[i][side] = g.Items
		}
	}
	return out
}

// ranksAxis is the axis with the number of ranks of a program that starts its own ranks. Rows of such
// programs have no NumRanks.
const ranksAxis = "np"

// CommonAxes lists the axes that every row of several runs has, in the order of the first row. Rows with
// equal values of these axes and the same number of ranks are the same work, even if they come from
// different programs. Their other axes describe how the work is done.
type CommonAxes struct {
	Axes       []string
	ranksKnown bool // every row has a number of ranks
}

// FindCommonAxes returns the axes that all rows of the runs have, without the axes named in except.
func FindCommonAxes(runs []Set, except []string) CommonAxes {
	common := CommonAxes{ranksKnown: true}
	first := true
	for _, rows := range runs {
		for _, r := range rows {
			if first {
				common.Axes = lists.Map(r.Point.Without(append(slices.Clip(except), ranksAxis)...),
					func(c point.Coord) string { return c.Name })
				first = false
			}
			common.Axes = slices.DeleteFunc(common.Axes, func(name string) bool { _, has := r.Point.Get(name); return !has })
			_, known := ranksOf(r)
			common.ranksKnown = common.ranksKnown && known
		}
	}
	return common
}

// ranksOf returns the number of ranks of a row and whether it is known. A program that
// starts its own ranks may have it as an axis.
func ranksOf(r *journal.Row) (n int, known bool) {
	if r.NumRanks != nil {
		return *r.NumRanks, true
	}
	np, known := r.Point.Get(ranksAxis)
	return int(np.Float()), known
}

// Work identifies rows that do the same work.
type Work struct {
	Ranks   int    // 0 if any row of the runs has no number of ranks
	sharing int    // ranks per GPU if they shared one, else 0
	values  string // values of the common axes
}

// Work returns the work of a row. Values are compared regardless of their kind, since
// programs may declare the same axis differently: a size in bytes equals the same integer.
func (a CommonAxes) Work(r *journal.Row) Work {
	w := Work{sharing: r.Sharing()}
	if a.ranksKnown {
		w.Ranks, _ = ranksOf(r)
	}
	w.values = strings.Join(lists.Map(a.Point(r), func(c point.Coord) string { return kindlessText(c.Value) }), " ")
	return w
}

// kindlessText returns the same text for equal values of different kinds.
func kindlessText(v point.Value) string {
	switch {
	case v.Kind().Numeric():
		return fmt.Sprint(v.Float())
	case v.Kind() == point.Tuple:
		return fmt.Sprint(v.Dims())
	}
	return v.String()
}

// Point returns the row's coordinates on the common axes.
func (a CommonAxes) Point(r *journal.Row) point.Point {
	return lists.Map(a.Axes, func(name string) point.Coord { return point.Coord{Name: name, Value: r.Point.At(name)} })
}

// Rest returns the row's coordinates on its other axes, without ranks and the names in except.
func (a CommonAxes) Rest(r *journal.Row, except ...string) point.Point {
	return r.Point.Without(slices.Concat(a.Axes, except, []string{ranksAxis})...)
}

// ComparePoints orders points with the same axes by their values, the first axis first.
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

// SharingDiffers reports whether ranks shared a GPU in some of the rows and not in others.
func SharingDiffers(runs ...Set) bool {
	var shared, separate bool
	for _, rows := range runs {
		for _, r := range rows {
			if ranks, _ := ranksOf(r); ranks > 1 {
				shared, separate = shared || r.Sharing() > 0, separate || r.Sharing() == 0
			}
		}
	}
	return shared && separate
}
