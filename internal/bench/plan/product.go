package plan

import (
	"fmt"
	"iter"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
)

// A dimension is what varies as one: a single axis or environment variable, or
// several zipped together. It has `size` positions.
type dimension struct {
	axes []bench.Axis
	envs []bench.EnvAxis
	size int
}

// dimensions cuts a part into its independent dimensions, the environment
// outermost (it costs a launch to change), then the axes as declared. A zip
// stands where its first member stands.
func dimensions(part *bench.DeclaredPart) ([]dimension, error) {
	zipOf := map[string]int{}
	for i, z := range part.Zips {
		for _, name := range z {
			zipOf[name] = i
		}
	}
	var dims []dimension
	placed := map[int]int{} // zip -> its dimension
	slot := func(name string, size int) *dimension {
		z, zipped := zipOf[name]
		if !zipped {
			dims = append(dims, dimension{size: size})
			return &dims[len(dims)-1]
		}
		if at, ok := placed[z]; ok {
			return &dims[at]
		}
		placed[z] = len(dims)
		dims = append(dims, dimension{size: size})
		return &dims[len(dims)-1]
	}
	for _, e := range part.Envs {
		d := slot(e.Name, len(e.Values))
		d.envs = append(d.envs, e)
	}
	for _, a := range part.Axes {
		d := slot(a.Name, len(a.Values))
		d.axes = append(d.axes, a)
	}
	total := 1
	for _, d := range dims {
		if total *= d.size; total > maxPoints {
			return nil, fmt.Errorf("the axes multiply to more than %d points: zip some, or narrow them", maxPoints)
		}
	}
	return dims, nil
}

// combo is one combination: an index into each dimension.
type combo struct {
	index      []int
	axes, envs []int // the dimensions of the part's axes and variables
}

// combinations enumerates the product, the last dimension fastest.
func combinations(part *bench.DeclaredPart, dims []dimension) iter.Seq[combo] {
	of := map[string]int{}
	for k, d := range dims {
		for _, a := range d.axes {
			of[a.Name] = k
		}
		for _, e := range d.envs {
			of[e.Name] = k
		}
	}
	c := combo{index: make([]int, len(dims))}
	for _, a := range part.Axes {
		c.axes = append(c.axes, of[a.Name])
	}
	for _, e := range part.Envs {
		c.envs = append(c.envs, of[e.Name])
	}
	return func(yield func(combo) bool) {
		index := c.index
		for {
			if !yield(c) {
				return
			}
			k := len(dims) - 1
			for ; k >= 0; k-- {
				if index[k]++; index[k] < dims[k].size {
					break
				}
				index[k] = 0
			}
			if k < 0 {
				return
			}
		}
	}
}

// task reads the combination's values, in declared order whatever the zips.
func (c combo) task(part *bench.DeclaredPart) Task {
	own := len(part.Axes)
	if _, has := part.Axis(bench.RanksAxis); has {
		own--
	}
	t := Task{Part: part.Name, Point: make(point.Point, 0, own)}
	for k, a := range part.Axes {
		value := a.Values[c.index[c.axes[k]]]
		if a.Name == bench.RanksAxis {
			t.Ranks = int(value.Int())
			continue
		}
		t.Point = append(t.Point, point.Coord{Name: a.Name, Value: value})
	}
	for k, e := range part.Envs {
		t.Env = append(t.Env, e.Values[c.index[c.envs[k]]])
	}
	return t
}
