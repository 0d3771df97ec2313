package solvescaling

import (
	"slices"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/solve/krylov"
)

// metric is a number of a row. docs/solve-scaling.md explains each.
type metric struct{ name, unit, better string }

// The shares of a timed iteration: the work of the mean rank, the additional work of the slowest rank, and the time in
// which not even that rank works. They add up to 1.
const (
	workShare      = "work_share"
	imbalanceShare = "imbalance_share"
	waitingShare   = "waiting_share"
)

// metrics lists all metrics, in the order of table columns.
var metrics = append([]metric{
	{"solve_time_s", "s", "lower"},
	{"iterations", "", "lower"},
	{"rel_residual", "", "lower"},
	{"rel_residual_recursive", "", ""},
	{"rhs_columns", "", ""},
	{"block_width", "", ""},
	{"restarts", "", "lower"},
	{"solve_time_per_rhs_s", "s", "lower"},
	{"reliable_updates", "", "lower"},
	{"dof_global", "", ""},
	{"dof_per_rank", "", ""},
	{"throughput_dof_s", "1/s", "higher"},
	{"speedup", "", "higher"},
	{"efficiency", "", "higher"},
	{"efficiency_low", "", ""},
	{"efficiency_high", "", ""},
	{"efficiency_algorithmic", "", "higher"},
	{"efficiency_implementation", "", "higher"},
	{"efficiency_implementation_low", "", ""},
	{"efficiency_implementation_high", "", ""},
	{"alone_us", "us", "lower"},
	{"communication_us", "us", "lower"},
	{"efficiency_communication", "", "higher"},
	{"bandwidth_scaling", "", ""},
	{workShare, "", ""},
	{imbalanceShare, "", ""},
	{waitingShare, "", ""},
	{"working_set_bytes", "B", ""},
	{"cache_bytes", "B", ""},
	{"setup_s", "s", "lower"},
	{"partition_s", "s", "lower"},
	{"generation_s", "s", "lower"},
	{"precond_setup_s", "s", "lower"},
	{"precond_setup_cpu_s", "s", "lower"},
	{"solve_cpu_s", "s", "lower"},
	{"trials_s", "s", ""},
	{"adjoint_time_s", "s", "lower"},
	{"adjoint_iterations", "", "lower"},
	{"gradient_error_rhs", "", "lower"},
	{"gradient_error_entries", "", "lower"},
	{"levels", "", ""},
	{"operator_complexity", "", "lower"},
	{"grid_complexity", "", "lower"},
	{"reductions_per_iteration", "", "lower"},
	{"messages", "", ""},
	{"bytes", "B", ""},
	{"halo_bytes_per_dof", "B", "lower"},
	{"bytes_model", "B", ""},
	{"flops_model", "", ""},
	{"peak_gflops", "GFLOP/s", ""},
	{"gbps", "GB/s", "higher"},
	{"triad_gbps", "GB/s", ""},
	{"triad_typical_gbps", "GB/s", ""},
	{"triad_fraction", "", "higher"},
	{"row_imbalance", "", "lower"},
	{"nnz_imbalance", "", "lower"},
	{"edge_cut", "", "lower"},
	{"comm_volume", "", "lower"},
	{"halo_max", "", "lower"},
	{"halo_mean", "", "lower"},
	{"neighbours_max", "", "lower"},
	{"neighbours_mean", "", "lower"},
	{"matrix_bytes_per_dof", "B", "lower"},
	{"product_us", "us", "lower"},
	{"product_plain_us", "us", ""},
	{"product_flops", "", ""},
	{"product_bytes", "B", ""},
	{"product_plain_bytes", "B", ""},
	{"memory_bytes_per_dof", "B", "lower"},
	{"traced_us", "us", ""},
	{"allreduce_blocking_us", "us", ""},
	{"allreduce_traced_us", "us", ""},
}, phaseMetrics()...)

// phaseMetrics returns the metrics for the time of each phase in an iteration: the mean over the ranks, and the slowest
// rank.
func phaseMetrics() (all []metric) {
	for p := range krylov.NumPhases {
		all = append(all, metric{meanOf(p), "us", "lower"}, metric{slowestOf(p), "us", "lower"})
	}
	return all
}

func meanOf(p krylov.Phase) string    { return p.String() + "_us" }
func slowestOf(p krylov.Phase) string { return p.String() + "_max_us" }

// checkKnown returns an error if word is not in the list.
func checkKnown(what, word string, all []string) error {
	if slices.Contains(all, word) {
		return nil
	}
	return suggest.Unknown(what, word, all)
}
