package solvescaling

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// gather returns the value of each rank, in rank order.
func gather[T any](ctx context.Context, s *bench.State, mine T) ([]T, error) {
	var sent bytes.Buffer
	if err := gob.NewEncoder(&sent).Encode(&mine); err != nil { // unlike JSON it has NaN
		return nil, fmt.Errorf("sending to the other ranks: %w", err)
	}
	all, err := s.Exchange(ctx, sent.Bytes())
	if err != nil {
		return nil, err
	}
	return lists.TryMap(all, func(received []byte) (value T, err error) {
		return value, gob.NewDecoder(bytes.NewReader(received)).Decode(&value)
	})
}

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
	all, err := gather(ctx, s, mine)
	if err != nil {
		return 0, err
	}
	return slices.Max(all), nil
}
