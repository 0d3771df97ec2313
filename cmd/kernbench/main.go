// Command kernbench measures how fast distributed kernels are, whether their results are correct,
// and how far they are from the hardware limit.
package main

import (
	"os"

	"github.com/kernbench/kernbench"
	"github.com/kernbench/kernbench/benches"
)

func main() { os.Exit(kernbench.Main(benches.All()...)) }
