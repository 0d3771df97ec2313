package kernbench_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/kernbench/kernbench"
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/benchtest"
)

// copies declares the bench of the example: every rank copies bytes of its own.
func copies() *bench.Bench {
	few := bench.DefaultMeasure()
	few.Stop.MinSamples, few.Stop.MaxSamples, few.Stop.MaxTime = 1, 5, time.Second
	return bench.New("copies", copyOnce,
		bench.Help("copy bytes, every rank its own"),
		bench.Ranks("1,2"),
		bench.Bytes("size", "4K,64K"),
		bench.Strings("way", "builtin", "backwards"),
		bench.Profile("large", "size=1M:256M:x4"),
		bench.Drop(func(p bench.Point) error {
			ways := []string{"builtin", "backwards"}
			if way := p.At("way"); !slices.Contains(ways, way.String()) {
				return bench.Unknown("way", way.String(), ways)
			}
			return nil
		}),
		bench.Measure(few),
		bench.Sections(summary))
}

// copyOnce is the body of the bench: set-up, a check of the result, and the timed call.
func copyOnce(ctx context.Context, s *bench.State) error {
	from, to := make([]byte, s.Int("size")), make([]byte, s.Int("size"))
	for i := range from {
		from[i] = byte(i + s.Rank())
	}
	s.Bytes(int64(2 * len(from))) // bytes read and written, for the metric gbps
	s.Verify(func() error {
		if !slices.Equal(from, to) {
			return &bench.Wrong{Count: 1, Detail: "the copy differs"}
		}
		return nil
	})
	return s.Time(ctx, func() error {
		if s.Str("way") == "builtin" {
			copy(to, from)
			return nil
		}
		for i := len(from) - 1; i >= 0; i-- {
			to[i] = from[i]
		}
		return nil
	})
}

// summary describes the rows in one sentence. As a headline it is printed instead of the table.
func summary(rows bench.Rows) []bench.Section {
	good := 0
	for _, r := range rows {
		if r.Status == bench.StatusOK && r.Metrics["gbps"] > 0 {
			good++
		}
	}
	return []bench.Section{{Title: "copies", Headline: true,
		Text: fmt.Sprintf("%d of %d copies are right and were timed.", good, len(rows))}}
}

// Agents and workers are this program started again. benchtest.Main handles that in tests, like
// kernbench.Main in programs.
func TestMain(m *testing.M) { os.Exit(benchtest.Main(m, copies())) }

// The main function of such a program is os.Exit(kernbench.Main(copies())). This example runs the
// command line
//
//	copies run --bench copies --quiet --out DIR
func Example() {
	dir, err := os.MkdirTemp("", "copies")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	args := os.Args
	defer func() { os.Args = args }()
	os.Args = []string{"copies", "run", "--bench", "copies", "--quiet", "--out", dir}
	fmt.Println("exit status", kernbench.Main(copies()))
	// Output:
	// copies
	// 8 of 8 copies are right and were timed.
	// exit status 0
}
