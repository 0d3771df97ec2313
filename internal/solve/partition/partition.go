package partition

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Options of a partition.
type Options struct {
	Ranks     int
	Objective Objective // of those that optimise
	Seed      uint64    // of those that draw at random
}

// Objective is what an optimising partitioner makes small.
type Objective string

// The objectives.
const (
	EdgeCut Objective = "cut"    // entries of the matrix between ranks; also ""
	Volume  Objective = "volume" // values that are sent in a product
)

// Partitioner is a way to decide.
type Partitioner struct {
	Name string
	Help string
	// Whole says that it looks at the whole problem, whose size may be too much
	// for every rank: see Share.
	Whole func(sparse.Problem) bool
	make  func(sparse.Problem, Options) (sparse.Layout, error)
}

func never(sparse.Problem) bool  { return false }
func always(sparse.Problem) bool { return true }

// partitioners is every partitioner there is.
var partitioners = []Partitioner{
	{"simple", "equal ranges of consecutive rows", never, simple},
	{"block", "equal boxes of the grid, in a process grid of least surface", never, block},
	{"coordinate", "recursive bisection by coordinates, cut in proportion: equal for any number of ranks", withoutGrid, coordinate},
	{"multilevel", "k-way partition of the graph: coarsened, partitioned, refined", always, multilevel},
	{"metis", "METIS's k-way partition, for edge cut or volume; needs its library", always, metis},
}

// All lists the partitioners.
func All() []Partitioner { return slices.Clone(partitioners) }

// Lookup finds a partitioner by name.
func Lookup(name string) (Partitioner, error) {
	var names []string
	for _, p := range partitioners {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Partitioner{}, fmt.Errorf("partitioner %q is unknown: there are %s", name, strings.Join(names, ", "))
}

// Partition gives every row of the problem to a rank, or says why it cannot.
// With more ranks than rows some ranks get none.
func (p Partitioner) Partition(problem sparse.Problem, o Options) (sparse.Layout, error) {
	layout, err := func() (sparse.Layout, error) {
		switch {
		case o.Ranks < 1:
			return nil, fmt.Errorf("%d ranks: at least 1", o.Ranks)
		case o.Objective != "" && o.Objective != EdgeCut && o.Objective != Volume:
			return nil, fmt.Errorf("objective %q: cut or volume", o.Objective)
		case o.Objective == Volume && p.Name != "metis":
			return nil, errors.New("only metis can optimise for volume")
		}
		return p.make(problem, o)
	}()
	if err != nil {
		return nil, fmt.Errorf("partitioner %s: %w", p.Name, err)
	}
	return layout, nil
}
