package allreduceeval

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/benches/allreduceeval/reference"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// backends are those that have an all-reduce of sums.
func backends() []string {
	return dist.Backends(func(d dist.Description) bool {
		can := d.Capabilities
		return !d.Virtual && can.Can(dist.AllReduce) && slices.Contains(can.Reductions, dist.Sum)
	})
}

// executesAll tells whether a backend has all that the matrix is made of, so that
// all of it must run there. Others run what they have, by their own choice of
// algorithm and by those of the matrix that they have.
func executesAll(can dist.Capabilities) bool {
	lacksType := func(d dist.DType) bool { return !slices.Contains(can.DTypes, d) }
	lacksSteps := func(a schedule.Info) bool {
		return !slices.Contains(can.Algorithms[dist.AllReduce], a.Name)
	}
	return can.Has(dist.AnyCodec) && can.Has(dist.FusedEpilogue) && !slices.ContainsFunc(reference.Types, lacksType) &&
		!slices.ContainsFunc(schedule.Algorithms(schedule.AllReduce), lacksSteps)
}

// onBackends are what the axes algorithm, dtype and size have on backends that do
// not execute the whole matrix; "" where a part has no such axis.
func onBackends(dtypes []dist.DType, sizes string) (clauses []bench.Clause) {
	for _, name := range backends() {
		d := dist.Describe(name)
		can := d.Capabilities
		if executesAll(can) {
			continue
		}
		algorithms := evaluated(can)
		if sizes != "" { // the timed part
			algorithms = slices.DeleteFunc(algorithms, func(name string) bool { return matrix.Find(name).Untimed != "" })
		}
		axes := []bench.Clause{bench.Strings("algorithm", append([]string{matrix.Auto}, algorithms...)...)}
		if has := common(dtypes, can.DTypes); len(dtypes) > 0 && len(has) < len(dtypes) {
			if len(has) == 0 {
				has = common(reference.Types, can.DTypes)
			}
			axes = append(axes, bench.DTypes("dtype", names(has)...))
		}
		if sizes != "" && d.MaxBytes > 0 {
			axes = append(axes, bench.Bytes("size", fmt.Sprintf(sizes, d.MaxBytes)))
		}
		clauses = append(clauses, bench.On(name, axes...))
	}
	return clauses
}

// evaluated are the algorithms of the matrix that a backend lets be chosen, or whose codec
// it takes.
func evaluated(can dist.Capabilities) []string {
	return slices.DeleteFunc(matrix.Algorithms(), func(name string) bool {
		codec := matrix.Codec(name)
		return !slices.Contains(can.Algorithms[dist.AllReduce], name) && (codec == nil || !can.Takes(*codec))
	})
}

func common(a, b []dist.DType) []dist.DType {
	return slices.DeleteFunc(slices.Clone(a), func(d dist.DType) bool { return !slices.Contains(b, d) })
}

func names(types []dist.DType) []string {
	return lists.Map(types, func(d dist.DType) string { return d.String() })
}

// declared are the rows of the quick profile that must be among these, if all are
// of one backend and that executes the whole matrix.
func declared(rows []journal.Row) (out []plan.Task) {
	if len(rows) == 0 {
		return nil
	}
	backend := rows[0].Backend
	if slices.ContainsFunc(rows, func(r journal.Row) bool {
		return r.Backend != backend
	}) || !executesAll(dist.Describe(backend).Capabilities) {
		return nil
	}
	p, err := plan.Make(Bench(), plan.Request{Backend: backend,
		Only: []string{fmt.Sprintf("part != %q", matrix.Performance)}})
	if err != nil {
		return nil // the declaration itself is wrong, and every command says so
	}
	for _, g := range p.Groups {
		out = append(out, g.Tasks...)
	}
	return out
}
