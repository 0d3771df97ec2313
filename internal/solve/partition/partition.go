// Package partition decides which rank owns which rows of a sparse matrix.
//
// A partitioner takes a problem and a number of ranks and gives a layout. Those
// that follow the numbering or the grid (simple, block, coordinate on a grid)
// describe the layout by a few numbers, whatever its size, so every rank makes
// its own copy. The others look at the whole problem: one rank makes the
// layout, and tells each of the others its Share.
//
// The package moves no data, and measures quality but not time. What a
// partitioner must keep is in package partitiontest; a new one is a file of its
// own with a call of Register, which says what it needs and what it promises.
package partition

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/registry"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Default is the partitioner where none is named.
const Default = "simple"

// Options of a partition.
type Options struct {
	Ranks     int
	Objective Objective // of those that optimise; "" is EdgeCut
	Weights   Weights   // "" is ByRows
	Seed      uint64    // of those that draw at random
}

// Objective is what an optimising partitioner makes small.
type Objective string

// The objectives. EdgeCut is the default, and ignored by those that optimise nothing.
const (
	EdgeCut Objective = "cut"    // entries of the matrix between ranks
	Volume  Objective = "volume" // values that are sent in a product
)

// Weights is what every rank is to have the same of.
type Weights string

// The weights. A product's time goes by the entries, vector updates' by the rows.
const (
	ByRows    Weights = "rows"
	ByEntries Weights = "nnz"
)

// of are the weights of a problem's rows, nil where all are 1.
func (w Weights) of(p sparse.Problem) []int32 {
	if w != ByEntries {
		return nil
	}
	out := make([]int32, p.Size())
	var row sparse.Row
	for i := range out {
		p.Row(i, &row)
		out[i] = int32(len(row.Cols))
	}
	return out
}

// Objectives lists what some partitioner can optimise for.
func Objectives() []string {
	names := []string{string(EdgeCut)}
	for _, p := range Partitioners.All() {
		names = append(names, lists.Map(p.Objectives, func(o Objective) string { return string(o) })...)
	}
	return lists.Distinct(names)
}

// Needs is what a partitioner must know of a problem.
type Needs uint8

// The needs. Those below Graph are met by few numbers where the problem is a grid,
// so that every rank can partition for itself.
const (
	Size        Needs = iota // the number of rows
	Grid                     // the grid
	Coordinates              // the grid, or the coordinates of every row
	Graph                    // every row
)

// Partitioner is a registered partitioner and its properties.
type Partitioner struct {
	Name       string
	Help       string
	Needs      Needs
	Objectives []Objective // that it can optimise for, beyond EdgeCut
	Weighs     bool        // it can give ranks the same entries instead of the same rows
	// Library opens the C library that it needs and tells its name, version and file;
	// nil where it needs none.
	Library func() (string, error)
	// Imbalance is the promise that no part is larger than this many times the
	// mean, nor by more than Slack rows above it where that is more. By entries,
	// the largest row comes on top.
	Imbalance float64
	Slack     int
	// Make gives every row an owner. The options have been checked.
	Make func(sparse.Problem, Options) (sparse.Layout, error)
}

// Partitioners is the registry of partitioners.
var Partitioners = registry.New("partitioner", func(p Partitioner) registry.Entry {
	return registry.Entry{Name: p.Name, Help: p.Help}
})

// Whole reports whether it looks at every row of the problem, whose size may be too
// much for every rank: see Share.
func (p Partitioner) Whole(problem sparse.Problem, w Weights) bool {
	_, grid := problem.(sparse.Gridded)
	return p.Needs == Graph || w == ByEntries || p.Needs == Coordinates && !grid
}

// Check says why a problem is not for this partitioner, nil if it is. It looks at
// no row.
func (p Partitioner) Check(problem sparse.Problem) error {
	_, grid := problem.(sparse.Gridded)
	_, located := problem.(sparse.Located)
	switch {
	case p.Needs == Grid && !grid:
		return fmt.Errorf("partitioner %s: the problem has no grid", p.Name)
	case p.Needs == Coordinates && !grid && !located:
		return fmt.Errorf("partitioner %s: the rows of this problem have no coordinates", p.Name)
	}
	return nil
}

// CheckObjective says why it cannot optimise for an objective, nil if it can.
func (p Partitioner) CheckObjective(o Objective) error {
	if o == "" || o == EdgeCut || slices.Contains(p.Objectives, o) {
		return nil
	}
	able := Partitioners.NamesWhere(func(q Partitioner) bool { return slices.Contains(q.Objectives, o) })
	if len(able) == 0 {
		return suggest.Unknown("objective", string(o), Objectives())
	}
	return fmt.Errorf("partitioner %s: only %s can optimise for %s", p.Name, strings.Join(able, " and "), o)
}

// CheckWeights says why it cannot go by the weights, nil if it can.
func (p Partitioner) CheckWeights(w Weights) error {
	switch {
	case w == "" || w == ByRows || w == ByEntries && p.Weighs:
		return nil
	case w == ByEntries:
		able := Partitioners.NamesWhere(func(q Partitioner) bool { return q.Weighs })
		return fmt.Errorf("partitioner %s gives ranks the same rows: only %s can give them the same entries (weights %s)",
			p.Name, strings.Join(able, ", "), w)
	}
	return suggest.Unknown("weights", string(w), []string{string(ByRows), string(ByEntries)})
}

// Partition gives every row of the problem to a rank, or says why it cannot.
// With more ranks than rows some ranks get none.
func (p Partitioner) Partition(problem sparse.Problem, o Options) (sparse.Layout, error) {
	if o.Ranks < 1 {
		return nil, fmt.Errorf("partitioner %s: %d ranks: want at least 1", p.Name, o.Ranks)
	}
	if err := errors.Join(p.CheckObjective(o.Objective), p.CheckWeights(o.Weights), p.Check(problem)); err != nil {
		return nil, err
	}
	layout, err := p.Make(problem, o)
	if err == nil && layout == nil {
		err = errors.New("no layout was made")
	}
	if err != nil {
		return nil, fmt.Errorf("partitioner %s: %w", p.Name, err)
	}
	return layout, nil
}
