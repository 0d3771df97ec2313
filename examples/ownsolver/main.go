// Command ownsolver is kernbench with a partitioner and a solver of its own: the
// worked examples of docs/extending.md.
//
//	go run ./examples/ownsolver run --bench solve-scaling --method steepest --partitioner striped
package main

import (
	"os"

	"github.com/kernbench/kernbench"
	"github.com/kernbench/kernbench/benches/solvescaling"
)

func main() { os.Exit(kernbench.Main(solvescaling.Bench())) }
