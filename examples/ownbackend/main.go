// Command ownbackend is kernbench's bench of collectives with a backend of one's
// own, the worked example of docs/extending.md.
//
//	go run ./examples/ownbackend run --bench collectives --backend threads
package main

import (
	"os"

	"github.com/kernbench/kernbench"
	"github.com/kernbench/kernbench/benches/collectives"
)

func main() { os.Exit(kernbench.Main(collectives.Bench())) }
