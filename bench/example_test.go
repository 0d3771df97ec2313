package bench_test

import (
	"context"
	"fmt"

	"github.com/kernbench/kernbench/bench"
)

// The example of a complete bench is in package kernbench. Importing that package here would compile
// everything between the two once more for this test.
func nothing(context.Context, *bench.State) error { return nil }

func ExampleUnknown() {
	fmt.Println(bench.Unknown("way", "backward", []string{"builtin", "backwards"}))
	// Output: unknown way "backward", did you mean "backwards"? (known: backwards, builtin)
}

// Each sample is taken after a barrier, with cold caches.
func ExampleMeasure() {
	cold := bench.DefaultMeasure()
	cold.Cadence, cold.Cache = bench.Isolated, bench.Cold
	b := bench.New("copies", nothing, bench.Bytes("size", "4K"), bench.Strings("way", "builtin"), bench.Measure(cold))
	fmt.Println(b.Validate(), b.Parts[0].Measure.Cadence, b.Parts[0].Measure.Cache)
	// Output: <nil> isolated cold
}

// Mistakes in a declaration are found before anything runs.
func ExampleBench_validate() {
	b := bench.New("copies", nothing, bench.Bytes("size", "4K:"))
	fmt.Println(b.Validate())
	// Output:
	// bench "copies": axis "size": "4K:": a range is START:END:xFACTOR, START:END:+STEP or pow2:LO:HI
}
