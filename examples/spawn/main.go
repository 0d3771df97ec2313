// Command spawn starts four ranks, each in a process of its own, and adds up their vectors.
//
//	go run ./examples/spawn
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/kernbench/kernbench/dist"
	_ "github.com/kernbench/kernbench/dist/cpu"
)

func main() {
	err := dist.Spawn(context.Background(), 4, dist.Config{Backend: "cpu"}, body)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// body runs on every rank.
func body(ctx context.Context, g *dist.Group) error {
	x := []float64{float64(10 * g.Rank()), 1}
	if err := g.AllReduce(dist.Of(x), dist.Of(x), dist.Sum); err != nil {
		return err
	}
	if g.Rank() == 0 {
		fmt.Println("sums of", g.Size(), "ranks:", x)
	}
	return nil
}
