package benches

import "github.com/kernbench/kernbench/internal/result/journal"

// reports explains, by bench, the metrics that only some rows have. Capitals in a name stand for a text that differs
// from row to row.
var reports = map[string][]journal.MetricInfo{
	"bandwidth": {
		{Name: "p2p_FROM_TO", Unit: "GB/s", Meaning: "bandwidth of copies from one GPU to another"},
		{Name: "p2p_FROM_TO_us", Unit: "us", Meaning: "time of such a copy"},
	},
	"collectives":    append(kernelTimes("time of a call"), faults...),
	"gpu-allreduce":  kernelTimes("time of a call"),
	"nccl-cta-sweep": kernelTimes("time of a call"),
	"allreduce-eval": append(kernelTimes("time of a call"),
		journal.MetricInfo{Name: "cells_missing", Meaning: "checks that were not executed"},
		journal.MetricInfo{Name: "elements", Meaning: "elements that were checked"},
		journal.MetricInfo{Name: "error_of_bound", Unit: "%", Meaning: "largest error, as a share of its bound"},
		journal.MetricInfo{Name: "bytes_saved", Unit: "%", Meaning: "bytes that a codec saves"},
		journal.MetricInfo{Name: "wall_ms", Unit: "ms", Meaning: "time that the checks of the row took"}),
	"gemm-allreduce": {
		{Name: "gemm_parts_us", Unit: "us", Meaning: "the product alone, in the partitions of the point"},
		{Name: "allreduce_parts_us", Unit: "us", Meaning: "the all-reduce alone, in the partitions of the point"},
		{Name: "recovered_low_pct", Unit: "%", Meaning: "lower end of the interval of recovered_pct"},
		{Name: "recovered_high_pct", Unit: "%", Meaning: "upper end of the interval of recovered_pct"},
	},
	"solve-scaling": {
		{Name: "finest_level_gbps", Unit: "GB/s", Meaning: "rate at which a rank moves the bytes of the finest level"},
	},
	"milestone-1h-ccl": {
		{Name: "n_sips", Meaning: "packages of the machine"},
		{Name: "cubes", Meaning: "cubes of a package"},
		{Name: "link_hops", Meaning: "link transfers of all messages"},
	},
	"milestone-1h-gemm": {
		{Name: "total_pes", Meaning: "PEs that share the product"},
		{Name: "tiles", Meaning: "tiles of the product"},
		{Name: "tile_fill", Meaning: "share of the tiles that is used"},
		{Name: "mac_utilization_theoretical", Unit: "%", Meaning: "utilization of the ideal pipeline"},
	},
	"workload": append([]journal.MetricInfo{
		{Name: "exposed_KIND_us", Unit: "us", Meaning: "exposed communication of one kind of operation"},
		{Name: "exposed_group_NAME_us", Unit: "us", Meaning: "exposed communication of one process group"},
	}, faults...),
	"llm-impact": {
		{Name: "against_us", Unit: "us", Meaning: "communication of a step with the curve of option against"},
		{Name: "against_gain_pct", Unit: "%", Meaning: "how much shorter the step then is"},
		{Name: "target_us", Unit: "us", Meaning: "communication of a step with the rate of option target-gbps"},
		{Name: "target_gain_pct", Unit: "%", Meaning: "how much shorter the step then is"},
	},
	"predict": {
		{Name: "gpus", Meaning: "GPUs of the cluster"},
		{Name: "ranks", Meaning: "ranks of cluster host"},
		{Name: "measured_low_us", Unit: "us", Meaning: "lower end of the interval of measured_us"},
		{Name: "measured_high_us", Unit: "us", Meaning: "upper end of the interval of measured_us"},
	},
}

// kernelTimes explains the times of calls that the GPU measures itself, in addition to time_us.
func kernelTimes(call string) []journal.MetricInfo {
	return []journal.MetricInfo{
		{Name: "graph_us", Unit: "us", Meaning: call + " among many in a recorded graph"},
		{Name: "kernel_us", Unit: "us", Meaning: call + " inside one launch, on the same buffers"},
		{Name: "kernel_cold_us", Unit: "us", Meaning: call + " inside one launch, on buffers beyond the cache"},
		{Name: "KIND_pct_of_limit", Unit: "%",
			Meaning: "the limit of such a time divided by it: kernel, kernel_cold or graph"},
	}
}

// faults explains the metrics of simulated networks.
var faults = []journal.MetricInfo{
	{Name: "fault_cost_us", Unit: "us", Meaning: "time that all faults of the machine cost"},
	{Name: "energy_uj", Unit: "uJ", Meaning: "energy, if the network file has energies"},
}
