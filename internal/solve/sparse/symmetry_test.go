package sparse

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// lopsided is a matrix whose entries (1, 2) and (2, 1) differ by a quarter of the larger one. Entry (3, 1) has no
// mirror image, and entry (2, 3) is given in two parts.
const lopsided = `%%MatrixMarket matrix coordinate real general
3 3 8
1 1 5
1 2 3
2 1 4
2 2 7
2 3 1
2 3 1
3 2 2
3 1 0.5
`

func TestLoadSymmetric(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.mtx")
	must.Do(t, os.WriteFile(path, []byte(lopsided), 0o600))
	want := [3][3]float64{{5, 3.5, 0.25}, {3.5, 7, 2}, {0.25, 2, 0}}
	for name, keep := range map[string]func(int) bool{"all": nil, "row 1": func(row int) bool { return row == 1 }} {
		f := must.Get(LoadSymmetric(path, keep))(t)
		if !f.Traits().Symmetric {
			t.Errorf("%s: not symmetric", name)
		}
		for i := range want {
			if keep != nil && !keep(i) {
				continue
			}
			var r Row
			f.Row(i, &r)
			var got [3]float64
			for k, col := range r.Cols {
				got[col] += r.Vals[k]
			}
			if got != want[i] {
				t.Errorf("%s: row %d is %v, want %v", name, i, got, want[i])
			}
		}
	}
}

func TestLoadAsymmetry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.mtx")
	must.Do(t, os.WriteFile(path, []byte(lopsided), 0o600))
	for first, want := range []float64{1, 0, 0} { // pairs by their smaller index; a missing mirror image is 0
		if got := must.Get(LoadAsymmetry(path, func(i int) bool { return i == first }))(t); got != want {
			t.Errorf("pairs of row %d: %v, want %v", first, got, want)
		}
	}
	must.Do(t, os.WriteFile(path, []byte("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 3\n2 1 4\n"), 0o600))
	if got := must.Get(LoadAsymmetry(path, func(int) bool { return true }))(t); math.Abs(got-0.25) > 1e-15 {
		t.Errorf("got %v, want 0.25", got)
	}
}
