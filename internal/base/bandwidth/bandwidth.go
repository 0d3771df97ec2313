// Package bandwidth computes the two bandwidths of a collective that nccl-tests defines: the
// algorithm bandwidth, which the program sees, and the bus bandwidth, which the slowest link
// must have carried.
package bandwidth

import "strings"

// Alg returns the algorithm bandwidth in GB/s (1e9 bytes): bytes divided by time. As in
// nccl-tests, bytes is the buffer of one rank for all-reduce, broadcast, reduce and
// sendrecv, and the chunks of all ranks together for other operations.
func Alg(bytes int64, us float64) float64 { return float64(bytes) / us / 1e3 }

// Bus returns the bus bandwidth in GB/s, which is Alg times [Factor]. It returns false for
// operations without a factor.
func Bus(op string, ranks int, bytes int64, us float64) (float64, bool) {
	factor, ok := Factor(op, ranks)
	return factor * Alg(bytes, us), ok
}

// Factor returns how many bytes each rank must send or receive per byte counted by [Alg], as
// nccl-tests defines it. It is 0 for a single rank of an operation that then moves nothing.
// The name of an operation may contain "-" and "_". Factor returns false for a barrier, which
// moves no data, and for unknown operations.
func Factor(op string, ranks int) (float64, bool) {
	if ranks < 1 {
		return 0, false
	}
	others := float64(ranks-1) / float64(ranks)
	switch strings.NewReplacer("-", "", "_", "").Replace(op) {
	case "allreduce":
		// Each byte is sent once for the reduce-scatter and once for the all-gather.
		return 2 * others, true
	case "reducescatter", "allgather", "alltoall", "alltoallv", "gather", "scatter":
		// A rank keeps its own part.
		return others, true
	case "broadcast", "reduce", "sendrecv", "hypercube":
		return 1, true
	}
	return 0, false
}
