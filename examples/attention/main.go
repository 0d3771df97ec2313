// Command attention shows two kernels of the simulated accelerator as a Triton user would write them: a softmax of
// rows, and a step of attention for which two PEs (processing elements) share the keys and values. It compares their
// results with plain Go and prints how long they take and why.
//
//	go run ./examples/attention
package main

import (
	"fmt"
	"log"
	"math"
	"math/rand/v2"

	"github.com/kernbench/kernbench/accel"
)

func main() {
	system := accel.New(accel.DefaultTopology(), accel.DefaultConfig())
	for _, run := range []func(*accel.System) (string, error){runSoftmax, runAttention} {
		line, err := run(system)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(line)
	}
}

// These policies place a tensor on the first two PEs of cube 0: a copy, a block of columns or a block of rows on each.
var (
	copies  = accel.Policy{Cube: accel.Replicate, PE: accel.Replicate, Cubes: 1, PEs: 2}
	columns = accel.Policy{Cube: accel.Replicate, PE: accel.ColumnWise, Cubes: 1, PEs: 2}
	rows    = accel.Policy{Cube: accel.Replicate, PE: accel.RowWise, Cubes: 1, PEs: 2}
)

// runSoftmax computes the softmax of 1,024 rows on the 8 PEs of each of 16 cubes.
func runSoftmax(s *accel.System) (string, error) {
	const height, width = 1024, 256
	x, values, err := random(s, height, width, accel.Policy{Cube: accel.RowWise, PE: accel.RowWise})
	if err != nil {
		return "", err
	}
	result, err := s.Launch(softmax(x), accel.OnAll(s, 0))
	if err != nil {
		return "", err
	}
	off, got := 0.0, x.Values()
	for r := range height {
		off = max(off, difference(got[r*width:(r+1)*width], softmaxOf(values[r*width:(r+1)*width])))
	}
	return fmt.Sprintf("softmax of %d x %d: %v; largest error %.1g", height, width, result, off), nil
}

// runAttention computes attention of 16 queries over 256 keys, with heads of 64 elements.
func runAttention(s *accel.System) (string, error) {
	const queries, keys, head = 16, 256, 64
	q, qs, err := random(s, queries, head, copies)
	if err != nil {
		return "", err
	}
	kT, ks, err := random(s, head, keys, columns)
	if err != nil {
		return "", err
	}
	v, vs, err := random(s, keys, head, rows)
	if err != nil {
		return "", err
	}
	out, err := s.Empty(0, queries, head, accel.OnCube(0))
	if err != nil {
		return "", err
	}
	result, err := s.Launch(attention(q, kT, v, out), []accel.PEID{{PE: 0}, {PE: 1}})
	if err != nil {
		return "", err
	}
	off, got := 0.0, out.Values()
	for i := range queries {
		scores := make([]float64, keys)
		for j := range keys {
			for l := range head {
				scores[j] += qs[i*head+l] * ks[l*keys+j] / math.Sqrt(head)
			}
		}
		want := make([]float64, head)
		for j, weight := range softmaxOf(scores) {
			for l := range head {
				want[l] += weight * vs[j*head+l]
			}
		}
		off = max(off, difference(got[i*head:(i+1)*head], want))
	}
	return fmt.Sprintf("attention of %d queries over %d keys on 2 PEs: %v; largest error %.1g", queries, keys, result,
		off), nil
}

// random allocates a tensor with elements between -2 and 2 and returns them as they were rounded.
func random(s *accel.System, height, width int, p accel.Policy) (*accel.Tensor, []float64, error) {
	t, err := s.Zeros(0, height, width, p)
	if err != nil {
		return nil, nil, err
	}
	source := rand.New(rand.NewPCG(1, uint64(height)))
	values := make([]float32, height*width)
	for i := range values {
		values[i] = 4*source.Float32() - 2
	}
	if err := t.SetValues(values); err != nil {
		return nil, nil, err
	}
	rounded := make([]float64, len(values))
	for i, v := range t.Values() {
		rounded[i] = float64(v)
	}
	return t, rounded, nil
}

// softmaxOf is the reference.
func softmaxOf(row []float64) []float64 {
	total := 0.0
	out := make([]float64, len(row))
	for i, v := range row {
		out[i] = math.Exp(v)
		total += out[i]
	}
	for i := range out {
		out[i] /= total
	}
	return out
}

// difference returns the largest difference between two vectors.
func difference(got []float32, want []float64) (largest float64) {
	for i, v := range got {
		largest = max(largest, math.Abs(float64(v)-want[i]))
	}
	return largest
}
