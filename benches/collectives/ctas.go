package collectives

import (
	"context"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/tuning"
)

// hidden is the row length: the hidden size of gpt-oss.
const hidden = 2880

// The environment variables that set NCCL's minimum and maximum number of CTAs.
const (
	minCTAs = "NCCL_MIN_CTAS"
	maxCTAs = "NCCL_MAX_CTAS"
)

// CTASweep returns the declaration of the bench `nccl-cta-sweep`. It finds the number of thread blocks (CTAs) that
// NCCL's all-reduce should use, depending on the number of rows of a bf16 activation.
func CTASweep() *bench.Bench {
	values := []string{"32", "64", "128", "256"}
	return bench.New("nccl-cta-sweep", reduceActivation, append(KernelTimes(),
		bench.Help("NCCL's all-reduce of an M x 2880 bf16 activation, by the number of thread blocks (CTAs)"),
		bench.Doc(`Times NCCL's all-reduce of M x 2880 bf16, in place, with a fixed number of thread blocks
(CTAs): NCCL_MIN_CTAS and NCCL_MAX_CTAS are set to the same value. NCCL reads them when it
starts, so every value gets new processes. Every element is checked.

It needs one GPU per rank. With fewer GPUs, its rows are "not executed" and say what is
missing.

  kernbench run --bench nccl-cta-sweep --plan
  kernbench run --bench nccl-cta-sweep --ranks 4 --M 1,512
  kernbench run --bench nccl-cta-sweep --env NCCL_ALGO=Ring,Tree,-`),
		bench.Backends("nccl"),
		bench.Ranks("8"),
		bench.Ints("M", "1,32,128,512,2048,8192"),
		bench.Zip(bench.Env(minCTAs, values...), bench.Env(maxCTAs, values...)),
		bench.Timeout(2*time.Minute),
		bench.Headline("time_us", "busbw"),
		bench.Plot("x=M,y=time_us,by="+maxCTAs+",panel=num_ranks,xscale=log,yscale=log", bench.Named("nccl_ctas"),
			bench.Title("All-reduce of M x 2880 bf16 by CTAs"), bench.Label(maxCTAs, "MAX_CTAS")),
	)...)
}

// reduceActivation times the all-reduce of M rows.
func reduceActivation(ctx context.Context, s *bench.State) error {
	return timeCall(ctx, s, shape{op: allReduce, dtype: dist.BF16, reduction: dist.Sum, count: s.Int("M") * hidden,
		inPlace: true, buffers: symmetric, algorithm: auto, choice: tuning.Choice{Algorithm: auto}})
}
