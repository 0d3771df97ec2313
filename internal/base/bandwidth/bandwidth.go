// Package bandwidth holds the bandwidths of collectives as nccl-tests defines
// them: what a program sees, and what the slowest link must have carried.
package bandwidth

import "strings"

// Alg is the bytes of an operation over its time, in GB/s (1e9). What counts
// as the bytes of an operation is as in nccl-tests: the buffer of one rank for
// all-reduce, broadcast, reduce and sendrecv, all chunks together for the others.
func Alg(bytes int64, us float64) float64 { return float64(bytes) / us / 1e3 }

// Bus is the bandwidth the slowest link must have carried, in GB/s: Alg
// times [Factor]. It is false for operations without a factor.
func Bus(op string, ranks int, bytes int64, us float64) (float64, bool) {
	factor, ok := Factor(op, ranks)
	return factor * Alg(bytes, us), ok
}

// Factor is the bytes each rank must send, or receive, for each byte counted
// by [Alg], as nccl-tests defines it; 0 for a lone rank where nothing moves.
// Operations are named with or without "-" and "_". It is false for operations
// that have no such factor (barrier) and for unknown ones.
func Factor(op string, ranks int) (float64, bool) {
	if ranks < 1 {
		return 0, false
	}
	others := float64(ranks-1) / float64(ranks)
	switch strings.NewReplacer("-", "", "_", "").Replace(op) {
	case "allreduce":
		// Every byte is sent once to be reduced and once to be spread.
		return 2 * others, true
	case "reducescatter", "allgather", "alltoall", "alltoallv", "gather", "scatter":
		// A rank's own part stays where it is.
		return others, true
	case "broadcast", "reduce", "sendrecv", "hypercube":
		return 1, true
	}
	return 0, false
}
