package plan

import (
	"fmt"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// A dimension is what varies as one: a single axis or environment variable, or
// several zipped together. It has `size` positions.
type dimension struct {
	axes []decl.Axis
	envs []decl.EnvAxis
	size int
}

// dimensions cuts a part into its independent dimensions, the environment
// outermost (it costs a launch to change), then the axes as declared. A zip
// stands where its first member stands.
func dimensions(part *decl.Part) ([]dimension, error) {
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
		if at, ok := placed[z]; zipped && ok {
			return &dims[at]
		}
		if zipped {
			placed[z] = len(dims)
		}
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

// product is all combinations of a part's values. Each has a number, from which its point is
// derived: there may be a million of them.
type product struct {
	part       *decl.Part
	total      int
	axes, envs []stride // of the part's axes and variables, in declared order
	own        int      // axes besides the number of ranks
}

// stride is how the position along a dimension follows from the number of a combination.
type stride struct{ every, size int }

func (s stride) of(n int) int { return n / s.every % s.size }

// newProduct counts the combinations, the last dimension fastest.
func newProduct(part *decl.Part) (product, error) {
	dims, err := dimensions(part)
	if err != nil {
		return product{}, err
	}
	p := product{part: part, total: 1}
	of := map[string]stride{}
	for k := len(dims) - 1; k >= 0; k-- {
		s := stride{p.total, dims[k].size}
		for _, a := range dims[k].axes {
			of[a.Name] = s
		}
		for _, e := range dims[k].envs {
			of[e.Name] = s
		}
		p.total *= s.size
	}
	for _, a := range part.Axes {
		p.axes = append(p.axes, of[a.Name])
		if a.Name != bench.RanksAxis {
			p.own++
		}
	}
	for _, e := range part.Envs {
		p.envs = append(p.envs, of[e.Name])
	}
	return p, nil
}

// task has the values of a combination, in declared order whatever the zips.
func (p product) task(n int) Task {
	t := Task{Part: p.part.Name, Point: make(point.Point, 0, p.own)}
	for k, a := range p.part.Axes {
		value := a.Values[p.axes[k].of(n)]
		if a.Name == bench.RanksAxis {
			t.Ranks = int(value.Int())
			continue
		}
		t.Point = append(t.Point, point.Coord{Name: a.Name, Value: value})
	}
	for k, e := range p.part.Envs {
		t.Env = append(t.Env, e.Values[p.envs[k].of(n)])
	}
	return t
}
