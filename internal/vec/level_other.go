//go:build !amd64

package vec

const best = Portable

func loopsOf(Level) (*table, int) { return &portable, 1 }

// What follows belongs to levels that are not here.

func sumFourF16(dst []byte, srcs [][]byte)  { panic("vec: no level has this") }
func sumFourBF16(dst []byte, srcs [][]byte) { panic("vec: no level has this") }
