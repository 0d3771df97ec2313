package imports_test

import (
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/internal/result/imports"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func init() {
	imports.Formats.Register(imports.Format{Name: "pairs", Help: "a size in bytes and a time in microseconds on each line",
		Read:    readPairs,
		Example: "times.txt --op allreduce --ranks 8 --out out/times"})
}

// readPairs reads lines such as "4096 12.5".
func readPairs(text string, g imports.Given) (f imports.File, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		r := imports.Record{Line: number, Op: g.Op, Ranks: g.Ranks, Algorithm: g.Algorithm, DType: g.DType,
			Backend: g.Backend,
			Status:  journal.OK, Kind: journal.Measured}
		var us float64
		if _, err := fmt.Sscan(line, &r.Size, &us); err != nil {
			return f, imports.LineError(number, "want a size and a time: %w", err)
		}
		r.Metrics = map[string]float64{"time_us": us}
		f.Records = append(f.Records, r)
	}
	return f, nil
}
