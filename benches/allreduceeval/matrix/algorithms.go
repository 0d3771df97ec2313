// Package matrix says which cells the bench allreduce-eval has: the algorithms,
// as they are registered (package schedule), the sizes, the contracts and the
// failures; and how the rows record what became of them. It runs nothing.
package matrix

import (
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// Auto leaves the algorithm to the backend.
const Auto = "auto"

// Algorithms are the rows of the correctness matrix: every algorithm that is
// registered.
func Algorithms() []string { return names(func(schedule.Info) bool { return true }) }

// Executable are those that need no hardware which only some machines have.
func Executable() []string {
	return names(func(a schedule.Info) bool { return a.Hardware == "" })
}

// Timed are those of the performance part: auto beside what it chooses from, unless
// a registration says why not.
func Timed() []string {
	return append([]string{Auto}, names(func(a schedule.Info) bool { return a.Hardware == "" && a.Untimed == "" })...)
}

// Known are all that a point may name.
func Known() []string { return append(Algorithms(), Auto) }

func names(keep func(schedule.Info) bool) []string {
	all := lists.Filter(schedule.Evaluated(schedule.AllReduce), keep)
	return lists.Map(all, func(a schedule.Info) string { return a.Name })
}

// Find gives the properties of an algorithm; none of one that is not registered,
// such as auto or one of a backend's own.
func Find(algorithm string) schedule.Info {
	info, _ := schedule.Lookup(schedule.AllReduce, algorithm)
	return info
}

// Codec is that of an algorithm that moves encoded elements, nil of another.
func Codec(algorithm string) *quant.Codec {
	if c, ok := quant.Named(Find(algorithm).Codec); ok {
		return &c
	}
	return nil
}

// Help says in one line what happens.
func Help(algorithm string) string {
	if algorithm == Auto {
		return "what the backend takes by itself"
	}
	return Find(algorithm).Help
}
