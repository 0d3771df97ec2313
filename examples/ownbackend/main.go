// Command ownbackend is kernbench's bench of collectives with a user's backend. docs/extending.md
// explains it.
//
//	go run ./examples/ownbackend run --bench collectives --backend threads
package main

import (
	"os"

	"github.com/kernbench/kernbench"
	"github.com/kernbench/kernbench/benches/collectives"
)

func main() { os.Exit(kernbench.Main(collectives.Bench())) }
