package tcp

import (
	"context"
	"encoding/json"
	"fmt"
)

// Exchange returns the data of all ranks, by rank. All ranks call it in the same order.
type Exchange = func(ctx context.Context, mine []byte) ([][]byte, error)

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
