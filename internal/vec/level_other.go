//go:build !amd64

package vec

const best = Portable

func loopsOf(Level) (*table, int) { return &portable, 1 }
