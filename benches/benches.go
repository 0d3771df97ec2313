// Package benches lists the benchmarks that are built into kernbench.
package benches

import (
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/acceltransfers"
	"github.com/kernbench/kernbench/benches/accelwhatif"
	"github.com/kernbench/kernbench/benches/allreduceeval"
	"github.com/kernbench/kernbench/benches/bandwidth"
	"github.com/kernbench/kernbench/benches/collectives"
	"github.com/kernbench/kernbench/benches/gemm"
	"github.com/kernbench/kernbench/benches/gemmallreduce"
	"github.com/kernbench/kernbench/benches/harness"
	"github.com/kernbench/kernbench/benches/hpcg"
	"github.com/kernbench/kernbench/benches/llmimpact"
	"github.com/kernbench/kernbench/benches/milestone1h"
	"github.com/kernbench/kernbench/benches/predict"
	"github.com/kernbench/kernbench/benches/solvescaling"
	"github.com/kernbench/kernbench/benches/workload"
)

// All returns every built-in bench, in the order `kernbench list` shows them.
func All() []*bench.Bench {
	return []*bench.Bench{
		bandwidth.Bench(),
		bandwidth.Memory(),
		collectives.Bench(),
		allreduceeval.Bench(),
		gemm.Bench(),
		solvescaling.Bench(),
		hpcg.Bench(),
		gemmallreduce.Bench(),
		milestone1h.CCL(),
		milestone1h.GEMM(),
		workload.Bench(),
		acceltransfers.Bench(),
		accelwhatif.Bench(),
		llmimpact.Bench(),
		predict.Bench(),
		collectives.GPUAllReduce(),
		collectives.CTASweep(),
		harness.Bench(),
	}
}
