// Command kernbench tells how fast a distributed kernel is, whether it is
// right, and how far it is from the limit.
package main

import (
	"os"

	"github.com/kernbench/kernbench/benches"
	"github.com/kernbench/kernbench/internal/cli"
)

func main() { os.Exit(cli.Main(benches.All())) }
