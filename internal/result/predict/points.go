package predict

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Point is the measured time of a collective on a system of equal nodes.
type Point struct {
	GPU     string // kind of node, as in a cluster's name
	Library string // version of NCCL
	Op      string
	Nodes   int
	Ranks   int   // GPUs of all nodes together
	Bytes   int64 // as nccl-tests counts them
	US      float64
}

//go:embed nccl-times.csv
var pointsFile string

// Points returns the measured times in the repository. The file nccl-times.csv names their
// sources. Callers must not modify the result.
var Points = sync.OnceValue(func() []Point {
	points, err := parsePoints(pointsFile)
	if err != nil {
		panic("predict: nccl-times.csv: " + err.Error())
	}
	return points
})

// parsePoints reads lines with the columns gpu, nccl, op, nodes, gpus, bytes and time_us.
func parsePoints(text string) ([]Point, error) {
	in := csv.NewReader(strings.NewReader(text))
	in.Comment = '#'
	lines, err := in.ReadAll()
	if err != nil {
		return nil, err
	}
	var points []Point
	for i, l := range lines[1:] {
		p := Point{GPU: l[0], Library: l[1], Op: l[2]}
		var errs [4]error
		p.Nodes, errs[0] = strconv.Atoi(l[3])
		p.Ranks, errs[1] = strconv.Atoi(l[4])
		p.Bytes, errs[2] = strconv.ParseInt(l[5], 10, 64)
		p.US, errs[3] = strconv.ParseFloat(l[6], 64)
		for _, err := range errs {
			if err != nil {
				return nil, fmt.Errorf("row %d: %w", i+1, err)
			}
		}
		points = append(points, p)
	}
	return points, nil
}

// measuredKinds returns the kinds of GPU that Points has times of, in its order.
func measuredKinds() []string {
	return lists.Distinct(lists.Map(Points(), func(p Point) string { return p.GPU }))
}
