// Command ownsolver is kernbench's bench of solvers with a user's partitioner, method and
// preconditioner. docs/extending.md explains them.
//
//	go run ./examples/ownsolver run --bench solve-scaling --method steepest --partitioner striped
package main

import (
	"os"

	"github.com/kernbench/kernbench"
	"github.com/kernbench/kernbench/benches/solvescaling"
)

func main() { os.Exit(kernbench.Main(solvescaling.Bench())) }
