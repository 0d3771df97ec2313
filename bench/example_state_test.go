package bench_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
)

// try runs a body on one rank as a worker does, at a point such as "size=4Ki".
func try(body bench.Body, coords ...string) bench.Row {
	var point bench.Point
	kinds := map[string]bench.Kind{"size": bench.KindBytes, "count": bench.KindInt, "alpha": bench.KindFloat,
		"inplace": bench.KindBool, "shape": bench.KindTuple, "dtype": bench.KindDType, "cadence": bench.KindString,
		"probe": bench.KindString, "seconds": bench.KindFloat}
	for _, c := range coords {
		name, text, _ := strings.Cut(c, "=")
		value, err := bench.ParseValue(kinds[name], text)
		if err != nil {
			panic(err)
		}
		point = point.With(name, value)
	}
	row, _ := body.Run(context.Background(), point)
	return row
}

// stepClock is a clock that the body advances, in picoseconds.
type stepClock struct{ ps int64 }

func (c *stepClock) Now() int64          { return c.ps }
func (c *stepClock) Deterministic() bool { return true }
func (c *stepClock) Name() string        { return "steps" }

// takes returns a call that takes a number of microseconds on a stepClock.
func takes(s *bench.State, us int64) func() error {
	clock := &stepClock{}
	s.UseClock(clock)
	return func() error { clock.ps += us * 1e6; return nil }
}

func ExampleState_Value() {
	try(func(_ context.Context, s *bench.State) error {
		fmt.Println(s.Value("size").Kind(), s.Value("size"))
		return nil
	}, "size=64Ki")
	// Output: bytes 65536
}

func ExampleState_Point() {
	try(func(_ context.Context, s *bench.State) error {
		for _, c := range s.Point() {
			fmt.Println(c.Name, c.Value)
		}
		return nil
	}, "count=8", "size=64Ki")
	// Output:
	// count 8
	// size 65536
}

func ExampleState_Int() {
	try(func(_ context.Context, s *bench.State) error {
		fmt.Println(s.Int("count"), s.Int("size"))
		return nil
	}, "count=8", "size=64Ki")
	// Output: 8 65536
}

func ExampleState_Float() {
	try(func(_ context.Context, s *bench.State) error {
		fmt.Println(2 * s.Float("alpha"))
		return nil
	}, "alpha=0.75")
	// Output: 1.5
}

func ExampleState_Str() {
	try(func(_ context.Context, s *bench.State) error {
		fmt.Println(s.Str("cadence"), s.Str("size")) // any kind has a text
		return nil
	}, "cadence=isolated", "size=65536")
	// Output: isolated 65536
}

// A file that has changed since the run was planned fails the row.
func ExampleState_File() {
	try(func(_ context.Context, s *bench.State) error {
		path, data, err := s.File("probe")
		fmt.Printf("%q: %d bytes, %v", path, len(data), err) // none was named
		return err
	}, "probe=")
	// Output: "": 0 bytes, <nil>
}

func ExampleState_Bool() {
	try(func(_ context.Context, s *bench.State) error {
		fmt.Println(s.Bool("inplace"))
		return nil
	}, "inplace=true")
	// Output: true
}

func ExampleState_Dims() {
	try(func(_ context.Context, s *bench.State) error {
		fmt.Println(s.Dims("shape"))
		return nil
	}, "shape=qkv=4096x6144x4096")
	// Output: [4096 6144 4096]
}

func ExampleState_DType() {
	try(func(_ context.Context, s *bench.State) error {
		fmt.Println(s.DType("dtype"), s.DType("dtype").Size(), "bytes")
		return nil
	}, "dtype=bf16")
	// Output: bf16 2 bytes
}

// Every rank works on its own part of the data.
func ExampleState_Rank() {
	try(func(_ context.Context, s *bench.State) error {
		share := s.Int("count") / s.Size()
		fmt.Println("elements", s.Rank()*share, "to", (s.Rank()+1)*share)
		return nil
	}, "count=1000")
	// Output: elements 0 to 1000
}

func ExampleState_Size() {
	try(func(_ context.Context, s *bench.State) error {
		if s.Size() > 1 && s.Int("count")%s.Size() != 0 {
			return bench.Skip("%d elements do not divide among %d ranks", s.Int("count"), s.Size())
		}
		fmt.Println(s.Size(), "rank")
		return nil
	}, "count=1000")
	// Output: 1 rank
}

// A device is chosen by the rank's number on its host.
func ExampleState_LocalRank() {
	try(func(_ context.Context, s *bench.State) error {
		fmt.Printf("device %d\n", s.LocalRank())
		return nil
	})
	// Output: device 0
}

func ExampleState_Backend() {
	try(func(_ context.Context, s *bench.State) error {
		fmt.Println(s.Backend())
		return nil
	})
	// Output: cpu
}

// Ranks of a launch find each other by a name that no other launch has.
func ExampleState_Session() {
	try(func(_ context.Context, s *bench.State) error {
		name := "exchange-" + s.Session() // of a file, a socket, a segment
		fmt.Println(strings.HasPrefix(name, "exchange-"))
		return nil
	})
	// Output: true
}

// The same seed gives the same inputs, on every rank different ones.
func ExampleState_Seed() {
	try(func(_ context.Context, s *bench.State) error {
		fmt.Println("seed of this rank's inputs:", s.Seed()+uint64(s.Rank()))
		return nil
	})
	// Output: seed of this rank's inputs: 1
}

// Exchange is an all-gather of bytes. Ranks on several hosts pass it to dist.Init as
// Config.Exchange.
func ExampleState_Exchange() {
	try(func(ctx context.Context, s *bench.State) error {
		all, err := s.Exchange(ctx, []byte("rank "+fmt.Sprint(s.Rank())))
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", all)
		return nil
	})
	// Output: [rank 0]
}

// A body records a metric that its bench declares.
func ExampleState_Record() {
	row := try(func(_ context.Context, s *bench.State) error {
		s.Record("cells", 3)
		return nil
	})
	fmt.Println(row.Metrics["cells"])
	// Output: 3
}

// The unit of a metric that the harness computes is known.
func ExampleState_RecordSamples() {
	out := try(func(_ context.Context, s *bench.State) error {
		s.RecordSamples("time_us", []float64{5, 4, 6})
		return nil
	})
	fmt.Println(out.Metrics["time_us"], out.Stats.Get("time_us").P50, out.Units["time_us"])
	// Output: 4 5 us
}

// Every rank gets the values of all ranks.
func ExampleGather() {
	try(func(ctx context.Context, s *bench.State) error {
		type result struct {
			Seconds float64
			Errors  int
		}
		all, err := bench.Gather(ctx, s, result{1.5, 4})
		if err != nil {
			return err
		}
		fmt.Printf("%+v", all)
		return nil
	})
	// Output: [{Seconds:1.5 Errors:4}]
}

// No rank reads a file before rank 0 has written it.
func ExampleState_Barrier() {
	try(func(ctx context.Context, s *bench.State) error {
		if s.Rank() == 0 {
			fmt.Println("rank 0 writes the input")
		}
		return s.Barrier(ctx)
	})
	// Output: rank 0 writes the input
}

// A rank that hangs or crashes is reported with its last phase.
func ExampleState_Phase() {
	row := try(func(_ context.Context, s *bench.State) error {
		s.Phase("loading the matrix")
		s.Phase("factorizing")
		return errors.New("the matrix is singular")
	})
	fmt.Println(row.Status, row.Reason)
	// Output: failed the matrix is singular
}

// A simulating body advances its own clock, and the row is marked as simulated.
func ExampleState_UseClock() {
	out := try(func(ctx context.Context, s *bench.State) error {
		clock := &stepClock{}
		s.UseClock(clock)
		return s.Time(ctx, func() error { clock.ps += 25e6; return nil })
	})
	fmt.Println(out.Kind, out.Metrics["time_us"], "us, samples:", out.Samples)
	// Output: simulated 25 us, samples: 1
}

// The cadence of the samples may be an axis.
func ExampleState_Sampling() {
	try(func(ctx context.Context, s *bench.State) error {
		s.Sampling().Cadence = bench.Cadence(s.Str("cadence"))
		fmt.Println(s.Sampling().Validate())
		return s.Time(ctx, takes(s, 1))
	}, "cadence=isolated")
	// Output: <nil>
}

// The option of bench.Seconds limits the sampling time.
func ExampleState_SampleAtMost() {
	try(func(ctx context.Context, s *bench.State) error {
		s.SampleAtMost(s.Float(bench.SecondsOption))
		fmt.Println(s.Sampling().Stop.MaxTime)
		return s.Time(ctx, takes(s, 1))
	}, "seconds=0.5")
	// Output: 500ms
}

// Rows of a model are marked as modelled.
func ExampleState_Kind() {
	out := try(func(_ context.Context, s *bench.State) error {
		s.Kind(bench.Modelled)
		s.Report("time_us", 12.5, "us", "lower")
		return nil
	})
	fmt.Println(out.Kind, out.Metrics["time_us"])
	// Output: modelled 12.5
}

func ExampleState_Bytes() {
	out := try(func(ctx context.Context, s *bench.State) error {
		s.Bytes(int64(2 * s.Int("size"))) // read and written
		return s.Time(ctx, takes(s, 100))
	}, "size=1000000")
	fmt.Println(out.Metrics["gbps"], "GB/s")
	// Output: 20 GB/s
}

func ExampleState_Flops() {
	out := try(func(ctx context.Context, s *bench.State) error {
		d := s.Dims("shape")
		s.Flops(float64(2 * d[0] * d[1] * d[2]))
		return s.Time(ctx, takes(s, 2000))
	}, "shape=1000x1000x1000")
	fmt.Println(out.Metrics["tflops"], "TFLOP/s")
	// Output: 1 TFLOP/s
}

// With several ranks, busbw accounts for the data that each rank must send.
func ExampleState_Volume() {
	out := try(func(ctx context.Context, s *bench.State) error {
		s.Volume("all_reduce", 1e6)
		return s.Time(ctx, takes(s, 100))
	})
	fmt.Println(out.Metrics["algbw"], "GB/s")
	// Output: 10 GB/s
}

func ExampleState_Report() {
	out := try(func(_ context.Context, s *bench.State) error {
		s.Report("iterations", 42, "", "lower")
		return nil
	})
	fmt.Println(out.Status, out.Metrics)
	// Output: ok map[iterations:42]
}

func ExampleState_Metric() {
	out := try(func(ctx context.Context, s *bench.State) error {
		if err := s.Time(ctx, takes(s, 50)); err != nil {
			return err
		}
		s.Report("calls_per_s", 1e6/s.Metric("time_us"), "1/s", "higher")
		return nil
	})
	fmt.Println(out.Metrics["calls_per_s"])
	// Output: 20000
}

func ExampleState_Samples() {
	try(func(ctx context.Context, s *bench.State) error {
		if err := s.Time(ctx, takes(s, 50)); err != nil {
			return err
		}
		fmt.Println(s.Samples())
		return nil
	})
	// Output: 1
}

func ExampleState_Interval() {
	try(func(_ context.Context, s *bench.State) error {
		s.RecordSamples("solve_s", []float64{2.5, 2.25, 3, 2.5, 2.75, 2.5, 2.25, 2.5})
		low, high, known := s.Interval("solve_s")
		fmt.Println(low, high, known)
		return nil
	})
	// Output: 2.25 3 true
}

// A lower bound of the time, from the memory bandwidth.
func ExampleState_Limit() {
	out := try(func(ctx context.Context, s *bench.State) error {
		const gbps = 40
		s.Limit("memory", float64(s.Int("size"))/gbps/1e3)
		return s.Time(ctx, takes(s, 50))
	}, "size=1000000")
	fmt.Println(out.Metrics["pct_of_limit"], "% of the limit")
	// Output: 50 % of the limit
}

func ExampleState_Detail() {
	out := try(func(ctx context.Context, s *bench.State) error {
		s.Detail("compiled for", "any "+runtime.Compiler)
		return s.Time(ctx, takes(s, 1))
	})
	fmt.Println(out.Details)
	// Output: map[compiled for:any gc]
}

func ExampleState_Condition() {
	out := try(func(_ context.Context, s *bench.State) error {
		s.Condition("oversubscribed", map[string]float64{"ranks": 4, "cores": 2})
		return nil
	})
	fmt.Println(out.Conditions[0].Values.Get("ranks"), out.Conditions[0].Sentence())
	// Output: 4 4 ranks share 2 cores
}

func ExampleState_Warn() {
	out := try(func(_ context.Context, s *bench.State) error {
		s.Warn("%d of %d solves did not converge", 1, 3)
		s.Report("solve_s", 2.5, "s", "lower")
		return nil
	})
	fmt.Println(out.Conditions[0].Sentence())
	// Output: 1 of 3 solves did not converge
}

// A call that writes nothing every second time is found, although the output of the previous call
// was correct.
func ExampleState_Refresh() {
	out := try(func(ctx context.Context, s *bench.State) error {
		input, output, calls := 0, 0, 0
		s.Refresh(func() error { input++; output = -1; return nil })
		s.Verify(func() error {
			if output != input {
				return &bench.Wrong{Count: 1, Detail: fmt.Sprintf("the sum is %d, want %d", output, input)}
			}
			return nil
		})
		return s.Time(ctx, func() error {
			if calls++; calls%2 == 1 {
				output = input
			}
			return nil
		})
	})
	fmt.Println(out.Status, out.Reason)
	// Output: failed 1 wrong elements, first: the sum is -1, want 2
}

// A check that finds wrong elements counts them, and nothing is timed.
func ExampleState_Verify() {
	out := try(func(ctx context.Context, s *bench.State) error {
		want, got := []int{1, 2, 3, 4}, []int{0, 0, 0, 0}
		s.Verify(func() error {
			wrong := &bench.Wrong{}
			for i := range want {
				if got[i] == want[i] {
					continue
				}
				if wrong.Count++; wrong.Count == 1 {
					wrong.Detail = fmt.Sprintf("element %d is %d, want %d", i, got[i], want[i])
				}
			}
			if wrong.Count > 0 {
				return wrong
			}
			return nil
		})
		return s.Time(ctx, func() error { copy(got, want[:3]); return nil })
	})
	fmt.Println(out.Status, out.Metrics["wrong"])
	fmt.Println(out.Reason)
	// Output:
	// failed 1
	// 1 wrong elements, first: element 3 is 0, want 4
}

func ExampleState_Time() {
	out := try(func(ctx context.Context, s *bench.State) error {
		work := make([]int, s.Int("count")) // set-up is not timed
		s.SampleAtMost(0.01)
		return s.Time(ctx, func() error {
			slices.Sort(work)
			return nil
		})
	}, "count=1000")
	fmt.Println(out.Status, out.Metrics["time_us"] > 0, out.Samples > 1)
	// Output: ok true true
}

// A test runs a body without worker processes.
func ExampleBody_Run() {
	body := bench.Body(func(_ context.Context, s *bench.State) error {
		return bench.Skip("%s does not apply", s.Str("cadence"))
	})
	isolated, err := bench.ParseValue(bench.KindString, "isolated")
	if err != nil {
		fmt.Println(err)
		return
	}
	point := bench.Point{{Name: "cadence", Value: isolated}}
	out, err := body.Run(context.Background(), point)
	fmt.Println(out.Status, out.Reason)
	// Output: skipped isolated does not apply
}

// The preamble restores the input before each call and is not timed.
func ExamplePreamble() {
	unsorted := []int{3, 1, 2}
	out := try(func(ctx context.Context, s *bench.State) error {
		work := make([]int, len(unsorted))
		s.SampleAtMost(0.01)
		return s.Time(ctx, func() error { slices.Sort(work); return nil },
			bench.Preamble(func() error { copy(work, unsorted); return nil }))
	})
	fmt.Println(out.Status)
	// Output: ok
}

func ExampleNotExecuted() {
	out := try(func(context.Context, *bench.State) error {
		return bench.NotExecuted(true, "needs 4 GPUs, has none")
	})
	fmt.Println(out.Status, out.Reason)
	// Output: not-executed needs 4 GPUs, has none
}

func ExampleState_TimeAs() {
	o := try(func(ctx context.Context, s *bench.State) error {
		if err := s.Time(ctx, takes(s, 12)); err != nil {
			return err
		}
		// A device that times itself says what of that was its own work.
		return s.TimeAs(ctx, "kernel_us", func() (float64, error) { return 2.5, nil })
	})
	fmt.Println(o.Metrics["time_us"], o.Metrics["kernel_us"])
	// Output: 12 2.5
}
