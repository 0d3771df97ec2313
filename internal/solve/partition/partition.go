// Package partition decides which rank owns which rows of a sparse matrix.
//
// A partitioner takes a problem and a number of ranks and returns a layout. Partitioners that need only the numbering
// or the grid (simple, block, and coordinate on a grid) describe the layout by a few numbers, so every rank makes its
// own copy. The others look at the whole problem: rank 0 makes the layout and sends each other rank its Share.
//
// The package moves no data. It measures the quality of partitions, but not their time. Package partitiontest holds the
// rules that every partitioner must obey. A new partitioner is one file with a registration, which states its
// requirements and its guarantee of balance.
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

// Default is the partitioner if none is named.
const Default = "simple"

// Options are the arguments of a partitioner besides the problem.
type Options struct {
	Ranks     int
	Objective Objective // for partitioners that optimise; "" means EdgeCut
	Weights   Weights   // "" means ByRows
	Seed      uint64    // for partitioners that use random numbers
}

// Objective is the quantity that an optimising partitioner minimises.
type Objective string

// The objectives. Partitioners that do not optimise ignore EdgeCut, the default.
const (
	EdgeCut Objective = "cut"    // matrix entries between ranks
	Volume  Objective = "volume" // values sent in a product
)

// Weights is the quantity that a partitioner balances over the ranks.
type Weights string

// The weights. The time of a product depends on the entries, the time of vector updates on the rows.
const (
	ByRows    Weights = "rows"
	ByEntries Weights = "nnz"
)

// of returns the weight of each row, or nil if all weights are 1.
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

// Objectives lists the objectives that at least one partitioner supports.
func Objectives() []string {
	names := []string{string(EdgeCut)}
	for _, p := range Partitioners.All() {
		names = append(names, lists.Map(p.Objectives, func(o Objective) string { return string(o) })...)
	}
	return lists.Distinct(names)
}

// Needs is the part of a problem that a partitioner looks at.
type Needs uint8

// The needs. If the problem is a grid, all of them except Graph need only a few numbers, so that every rank can run the
// partitioner itself.
const (
	Size        Needs = iota // the number of rows
	Grid                     // the grid
	Coordinates              // the grid, or the coordinates of every row
	Graph                    // every row
)

// Partitioner is a registered partitioner with its properties.
type Partitioner struct {
	Name       string
	Help       string
	Needs      Needs
	Objectives []Objective // supported objectives besides EdgeCut
	Weighs     bool        // can balance entries instead of rows
	// Library opens the C library that the partitioner needs and returns its name, version and file. It is nil if none is
	// needed.
	Library func() (string, error)
	// Imbalance is the guaranteed maximum size of a part relative to the mean. If Slack more rows than the mean is larger,
	// that is the guarantee. By entries, the longest row is added.
	Imbalance float64
	Slack     int
	// Make assigns an owner to every row. The options have been checked.
	Make func(sparse.Problem, Options) (sparse.Layout, error)
}

// Partitioners is the registry of partitioners.
var Partitioners = registry.New("partitioner", func(p Partitioner) registry.Entry {
	return registry.Entry{Name: p.Name, Help: p.Help}
})

// NeedsAllRows reports whether the partitioner looks at every row of the problem, which may be too large for every
// rank: see Share.
func (p Partitioner) NeedsAllRows(problem sparse.Problem, w Weights) bool {
	_, grid := problem.(sparse.Gridded)
	return p.Needs == Graph || w == ByEntries || p.Needs == Coordinates && !grid
}

// Check returns an error if the partitioner cannot partition the problem. It does not look at rows.
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

// CheckObjective returns an error if the partitioner does not support the objective.
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

// CheckWeights returns an error if the partitioner does not support the weights.
func (p Partitioner) CheckWeights(w Weights) error {
	switch {
	case w == "" || w == ByRows || w == ByEntries && p.Weighs:
		return nil
	case w == ByEntries:
		able := Partitioners.NamesWhere(func(q Partitioner) bool { return q.Weighs })
		return fmt.Errorf("partitioner %s cannot give ranks equal numbers of entries (weights %s): use %s", p.Name, w,
			strings.Join(able, ", "))
	}
	return suggest.Unknown("weights", string(w), []string{string(ByRows), string(ByEntries)})
}

// Partition assigns every row of the problem to a rank. If there are more ranks than rows, some ranks get none.
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
