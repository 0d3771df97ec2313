package solvescaling

import (
	"github.com/kernbench/kernbench/internal/solve/krylov"
)

// metric is a number of a row.
type metric struct{ name, unit, better, meaning string }

// The shares of a timed iteration: the work of the mean rank, the additional work of the slowest rank, and the time in
// which not even that rank works. They add up to 1.
const (
	workShare      = "work_share"
	imbalanceShare = "imbalance_share"
	waitingShare   = "waiting_share"
)

// metrics lists all metrics, in the order of table columns.
var metrics = append([]metric{
	{"solve_time_s", "s", "lower", "one solve"},
	{"iterations", "", "lower", "iterations of a solve"},
	{"rel_residual", "", "lower", "relative residual of the solution, recomputed independently"},
	{"rel_residual_recursive", "", "", "relative residual as the method reports it"},
	{"rhs_columns", "", "", "right-hand sides of a solve"},
	{"block_width", "", "", "mean width of the block over the iterations"},
	{"restarts", "", "lower", "starts from a true residual that had drifted"},
	{"solve_time_per_rhs_s", "s", "lower", "solve_time_s divided by the right-hand sides"},
	{"reliable_updates", "", "lower", "residuals recomputed in double precision"},
	{"dof_global", "", "", "unknowns of all ranks"},
	{"dof_per_rank", "", "", "unknowns of one rank"},
	{"throughput_dof_s", "1/s", "higher", "unknowns divided by solve_time_s"},
	{"speedup", "", "higher", "throughput relative to one rank"},
	{"efficiency", "", "higher", "speedup divided by the ranks"},
	{"efficiency_low", "", "", "lower end of its interval"},
	{"efficiency_high", "", "", "upper end of its interval"},
	{"efficiency_algorithmic", "", "higher", "iterations of one rank divided by the iterations"},
	{"efficiency_implementation", "", "higher", "efficiency of one iteration, regardless of their number"},
	{"efficiency_implementation_low", "", "", "lower end of its interval"},
	{"efficiency_implementation_high", "", "", "upper end of its interval"},
	{"alone_us", "us", "lower", "an iteration without communication, on the slowest rank"},
	{"communication_us", "us", "lower", "messages and reductions of an iteration without arithmetic"},
	{"efficiency_communication", "", "higher", "alone_us divided by time_us"},
	{"bandwidth_scaling", "", "", "typical triad of all ranks divided by ranks times the typical triad of one rank"},
	{workShare, "", "", "work of the mean rank, as a share of an iteration"},
	{imbalanceShare, "", "", "additional work of the slowest rank, as a share of an iteration"},
	{waitingShare, "", "", "time in which no rank works, as a share of an iteration"},
	{"working_set_bytes", "B", "", "matrix, vectors and preconditioner of the largest part"},
	{"cache_bytes", "B", "", "second-level cache of a rank and its share of the third level"},
	{"setup_s", "s", "lower", "everything before the first solve"},
	{"partition_s", "s", "lower", "the partitioner"},
	{"generation_s", "s", "lower", "generating the rows"},
	{"precond_setup_s", "s", "lower", "setting up the preconditioner"},
	{"precond_setup_cpu_s", "s", "lower", "the same in processor time of all ranks"},
	{"solve_cpu_s", "s", "lower", "processor time of all ranks for the best solve"},
	{"trials_s", "s", "", "trials by which auto chose the solver"},
	{"adjoint_time_s", "s", "lower", "one solve of the adjoint system"},
	{"adjoint_iterations", "", "lower", "iterations of the adjoint solve"},
	{"gradient_error_rhs", "", "lower", "relative difference between the gradient of the right-hand side and finite differences"},
	{"gradient_error_entries", "", "lower", "the same for the matrix entries"},
	{"levels", "", "", "levels of the multigrid hierarchy"},
	{"operator_complexity", "", "lower", "matrix entries of all levels relative to the finest"},
	{"grid_complexity", "", "lower", "rows of all levels relative to the finest"},
	{"reductions_per_iteration", "", "lower", "all-reduces of an iteration"},
	{"messages", "", "", "messages of all ranks in an iteration"},
	{"bytes", "B", "", "bytes that all ranks send in an iteration"},
	{"halo_bytes_per_dof", "B", "lower", "bytes that the worst rank receives in a product, per unknown of its own"},
	{"bytes_model", "B", "", "bytes that an iteration must move through memory"},
	{"flops_model", "", "", "operations of an iteration"},
	{"peak_gflops", "GFLOP/s", "", "arithmetic speed of all ranks, measured in registers"},
	{"gbps", "GB/s", "higher", "bytes_model divided by time_us"},
	{"triad_gbps", "GB/s", "", "memory bandwidth of a = b + s c on all ranks, the best sweep"},
	{"triad_typical_gbps", "GB/s", "", "the same for the median sweep"},
	{"triad_fraction", "", "higher", "gbps divided by triad_gbps"},
	{"row_imbalance", "", "lower", "rows of the largest part relative to the mean"},
	{"nnz_imbalance", "", "lower", "entries of the largest part relative to the mean"},
	{"edge_cut", "", "lower", "pairs of coupled rows on different ranks"},
	{"comm_volume", "", "lower", "values that all ranks send in a product"},
	{"halo_max", "", "lower", "largest halo of a rank"},
	{"halo_mean", "", "lower", "mean halo of a rank"},
	{"neighbours_max", "", "lower", "most neighbours of a rank"},
	{"neighbours_mean", "", "lower", "mean number of neighbours"},
	{"matrix_bytes_per_dof", "B", "lower", "stored matrix"},
	{"product_us", "us", "lower", "a product with the matrix as stored"},
	{"product_plain_us", "us", "", "a product with plain values and columns"},
	{"product_flops", "", "", "operations of a product"},
	{"product_bytes", "B", "", "matrix as stored and both vectors"},
	{"product_plain_bytes", "B", "", "plain matrix and both vectors"},
	{"memory_bytes_per_dof", "B", "lower", "peak memory of a rank above what it held before"},
	{"traced_us", "us", "", "a traced iteration on the slowest rank"},
	{"allreduce_blocking_us", "us", "", "reductions of an iteration if every rank waits at once"},
	{"allreduce_traced_us", "us", "", "reductions of an iteration as the method runs them"},
}, phaseMetrics()...)

// phaseMetrics returns the metrics for the time of each phase in an iteration: the mean over the ranks, and the slowest
// rank.
func phaseMetrics() (all []metric) {
	for p := range krylov.NumPhases {
		all = append(all, metric{meanOf(p), "us", "lower", phaseMeanings[p] + "; per iteration, mean over the ranks"},
			metric{slowestOf(p), "us", "lower", "the same on the slowest rank"})
	}
	return all
}

var phaseMeanings = [krylov.NumPhases]string{
	krylov.SpMV:      "products with the matrix",
	krylov.HaloPack:  "starting to send the halo",
	krylov.HaloWait:  "waiting for the halo",
	krylov.Dots:      "local parts of the scalar products",
	krylov.AllReduce: "adding up the scalar products over the ranks",
	krylov.Updates:   "vector updates, with a diagonal preconditioner",
	krylov.Precond:   "a preconditioner that is not diagonal, with its messages",
	krylov.Other:     "everything else",
}

func meanOf(p krylov.Phase) string    { return p.String() + "_us" }
func slowestOf(p krylov.Phase) string { return p.String() + "_max_us" }
