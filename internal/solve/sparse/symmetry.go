package sparse

import (
	"io"
	"math"
)

// NearlySymmetric is the largest relative difference between an entry and its mirror image at which a general matrix
// file still counts as symmetric, up to rounding in the program that wrote it.
const NearlySymmetric = 1e-12

// LoadSymmetric reads the rows of a general matrix file like LoadMatrix, and replaces each entry by the mean of the
// entry and its mirror image.
func LoadSymmetric(path string, keep func(row int) bool) (*File, error) {
	return load(path, func(r io.Reader) (*File, error) {
		f, err := readFile(r, &mtxReader{keep: keep, mean: true}, (*mtxReader).read)
		if err == nil {
			f.traits.Symmetric = true
		}
		return f, err
	})
}

// LoadAsymmetry returns the largest difference between an entry of a general matrix file and its mirror image, relative
// to the larger of the two, over the pairs whose smaller index share accepts. Ranks that divide the indices among
// themselves thus compare the whole matrix, each with a part of it in memory.
func LoadAsymmetry(path string, share func(index int) bool) (float64, error) {
	return load(path, func(r io.Reader) (float64, error) {
		pairs := map[[2]int32]*[2]float64{}
		m := &mtxReader{keep: func(int) bool { return false }}
		m.visit = func(e entry) {
			key, side := [2]int32{e.row, e.col}, 0
			if e.row > e.col {
				key, side = [2]int32{e.col, e.row}, 1
			}
			if e.row == e.col || !share(int(key[0])) {
				return
			}
			pair := pairs[key]
			if pair == nil {
				pair = new([2]float64)
				pairs[key] = pair
			}
			pair[side] += e.val
		}
		if _, err := readFile(r, m, (*mtxReader).read); err != nil {
			return 0, err
		}
		worst := 0.0
		for _, p := range pairs {
			if p[0] != p[1] {
				worst = max(worst, math.Abs(p[0]-p[1])/max(math.Abs(p[0]), math.Abs(p[1])))
			}
		}
		return worst, nil
	})
}
