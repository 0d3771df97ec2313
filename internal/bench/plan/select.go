package plan

import (
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/dataset"
)

// scopeOf returns the names that --only may use in a run of the given parts.
func scopeOf(b *bench.Bench, parts []*decl.Part, options point.Point) dataset.Scope {
	s := dataset.Scope{bench.BackendName: point.String, dataset.Part: point.String, bench.RanksAxis: point.Int}
	for _, p := range parts {
		for _, a := range p.Axes {
			s[a.Name] = a.Kind
		}
		for _, e := range p.Envs {
			s[e.Name] = point.String
		}
	}
	for _, o := range b.Options {
		s[o.Name] = o.Kind
	}
	return s
}

// lookup returns the values of a task by name. The swept value of an option hides its single value.
func (p *Plan) lookup(part *decl.Part, t Task) dataset.Lookup {
	return func(name string) dataset.Value {
		if e, swept := t.Env.Get(name); swept {
			return dataset.Value{Point: point.StringValue(e.Value), Has: true, Unset: !e.Set}
		}
		for _, named := range []point.Point{t.Point, p.Options} {
			if v, has := named.Get(name); has {
				return dataset.Value{Point: v, Has: true}
			}
		}
		switch {
		case name == bench.RanksAxis && t.Ranks > 0:
			return dataset.Value{Point: point.IntValue(int64(t.Ranks)), Has: true}
		case name == bench.BackendName:
			return dataset.Value{Point: point.StringValue(p.Backend), Has: true}
		case name == dataset.Part:
			return dataset.Value{Point: point.StringValue(part.Name), Has: true}
		}
		return dataset.Value{}
	}
}
