package solvescaling

import (
	"context"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// maxOf returns the largest number of any rank.
func maxOf[T any](ranks []T, of func(T) float64) float64 { return slices.Max(lists.Map(ranks, of)) }

// sumOf returns the sum of a number over the ranks.
func sumOf[T any](ranks []T, of func(T) float64) float64 { return lists.Sum(lists.Map(ranks, of)) }

// meanOver returns the mean of a number over the ranks.
func meanOver[T any](ranks []T, of func(T) float64) float64 {
	return sumOf(ranks, of) / float64(len(ranks))
}

// maxOverRanks returns the largest value of any rank.
func maxOverRanks(ctx context.Context, s *bench.State, mine float64) (float64, error) {
	all, err := bench.Gather(ctx, s, mine)
	if err != nil {
		return 0, err
	}
	return slices.Max(all), nil
}
