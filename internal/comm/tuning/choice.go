package tuning

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/unit"
)

// Choice is an algorithm with its parameters. Axes, tables and details of rows contain it as a single name:
//
//	steps:ring@64K       the proved steps of ring, in pieces of 65536 bytes
//	one-stage#16         one-stage, with 16 thread blocks per rank
type Choice struct {
	Algorithm  string
	Steps      bool // execute the proved steps one by one, even if the backend has faster code
	ChunkBytes int  // bytes per pipelined piece; 0: the backend decides
	Blocks     int  // thread blocks per rank; 0: the backend decides
}

// The separators in the name of a choice.
const (
	StepsPrefix = "steps:"
	pieceMark   = "@"
	blockMark   = "#"
)

// ParseChoice parses the name of a choice. If it returns an error because of a wrong number, the result still contains
// the algorithm.
func ParseChoice(name string) (Choice, error) {
	rest, blocks, badBlocks := number(name, blockMark, "number of blocks", "16",
		func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) })
	rest, bytes, badBytes := number(rest, pieceMark, "size of pieces", "64K", unit.ParseBytes)
	c := Choice{ChunkBytes: bytes, Blocks: blocks}
	c.Algorithm, c.Steps = strings.CutPrefix(rest, StepsPrefix)
	return c, cmp.Or(badBlocks, badBytes)
}

// number removes mark and the number after it from name. It returns the rest of the name and the number, which is 0 if
// there is no mark.
func number(name, mark, what, example string, parse func(string) (int64, error)) (rest string, n int, err error) {
	rest, text, found := strings.Cut(name, mark)
	if !found {
		return name, 0, nil
	}
	value, err := parse(text)
	if err != nil || value < 1 || value > math.MaxInt32 {
		return rest, 0, fmt.Errorf("algorithm %q: %q is not a %s, such as %s%s%s", name, text, what, rest, mark, example)
	}
	return rest, int(value), nil
}

// String returns the name that [ParseChoice] reads.
func (c Choice) String() string {
	name := c.Algorithm
	if c.Steps {
		name = StepsPrefix + name
	}
	if c.ChunkBytes > 0 {
		name += pieceMark + unit.FormatBytes(int64(c.ChunkBytes))
	}
	if c.Blocks > 0 {
		name += blockMark + strconv.Itoa(c.Blocks)
	}
	return name
}
