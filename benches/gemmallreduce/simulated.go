package gemmallreduce

import (
	"context"
	"fmt"

	"github.com/kernbench/kernbench/internal/decl"
	"github.com/kernbench/kernbench/internal/fused"
)

// simulated is the backend that is a simulator.
const simulated = "ahbm"

// backends are what the bench runs on, the default first.
var backends = []string{"cpu"}

// simulate runs a point in the simulator.
func simulate(context.Context, *decl.State, fused.Plan) error {
	return fmt.Errorf("backend %s: not yet", simulated)
}
