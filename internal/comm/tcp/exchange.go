package tcp

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kernbench/kernbench/internal/comm/syncgroup"
)

// Exchange returns the data of all ranks, by rank. All ranks call it in the same order.
type Exchange = func(ctx context.Context, mine []byte) ([][]byte, error)

// Through returns an exchange over a sync group, which carries integers: the length of the data, then
// eight bytes in each integer.
func Through(g syncgroup.Group) Exchange {
	return func(ctx context.Context, mine []byte) ([][]byte, error) {
		all, err := g.Exchange(ctx, pack(mine))
		if err != nil {
			return nil, err
		}
		blobs := make([][]byte, len(all))
		for r, words := range all {
			if blobs[r], err = unpack(words); err != nil {
				return nil, fmt.Errorf("what rank %d gave: %w", r, err)
			}
		}
		return blobs, nil
	}
}

func pack(b []byte) []int64 {
	words := make([]int64, 1+(len(b)+7)/8)
	words[0] = int64(len(b))
	for i, c := range b {
		words[1+i/8] |= int64(c) << (8 * (i % 8))
	}
	return words
}

func unpack(words []int64) ([]byte, error) {
	if len(words) == 0 || words[0] < 0 || (words[0]+7)/8 != int64(len(words)-1) {
		return nil, fmt.Errorf("%d words are no packed bytes", len(words))
	}
	b := make([]byte, words[0])
	for i := range b {
		b[i] = byte(words[1+i/8] >> (8 * (i % 8)))
	}
	return b, nil
}

// Swap exchanges values as JSON and returns the values of all ranks.
func Swap[T any](ctx context.Context, exchange Exchange, size int, mine T) ([]T, error) {
	blob, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	blobs, err := exchange(ctx, blob)
	if err != nil {
		return nil, err
	}
	if len(blobs) != size {
		return nil, fmt.Errorf("the exchange has %d ranks, want %d", len(blobs), size)
	}
	all := make([]T, size)
	for r, b := range blobs {
		if err := json.Unmarshal(b, &all[r]); err != nil {
			return nil, fmt.Errorf("what rank %d gave: %w", r, err)
		}
	}
	return all, nil
}
