// Package kernbench runs the kernbench command line over a program's own
// benchmarks, which package bench declares:
//
//	func main() {
//		os.Exit(kernbench.Main(bench.New("copy", run, bench.Bytes("size", "4K:64M:x4"))))
//	}
//
// The program then has every command (list, run, show, compare, report), with
// worker processes, environment sweeps, a journal and figures, and every backend of
// package dist.
package kernbench

import (
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/cli"
)

// Main runs the command line over the benches and returns the exit code. Call
// it first in main: worker processes are this same program started again.
func Main(benches ...*bench.Bench) int { return cli.Main(benches) }
