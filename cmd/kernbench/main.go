// Command kernbench tells how fast a distributed kernel is, whether it is
// right, and how far it is from the limit.
package main

import (
	"os"

	"github.com/kernbench/kernbench"
	"github.com/kernbench/kernbench/benches"
)

func main() { os.Exit(kernbench.Main(benches.All()...)) }
