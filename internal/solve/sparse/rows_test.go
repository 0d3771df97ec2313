package sparse

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// list returns the columns and values of a row.
func (s *Shapes) list(i int) (cols []int, vals []float64) {
	first, offsets, vals := s.Row(i)
	for _, d := range offsets {
		cols = append(cols, int(first+d))
	}
	return cols, vals
}

// Every row keeps its own entries, whatever it shares, even after other rows were renamed. Follows is true only for
// rows that really repeat.
func TestShapes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, cols := drawRows(t)
		s := build(t, rows, cols, Compressed).Shapes()
		limit := rapid.IntRange(0, cols).Draw(t, "limit")
		var beyond []int
		entries := 0
		for i, r := range rows {
			entries += len(r.Cols)
			if len(r.Cols) > 0 && slices.Max(r.Cols) >= limit {
				beyond = append(beyond, i)
			}
			for _, step := range []int{1, 2} {
				if i >= step && s.Follows(i, step, 1) && len(r.Cols) > 0 &&
					(r.Cols[0] != rows[i-step].Cols[0]+1 || len(r.Cols) != len(rows[i-step].Cols)) {
					t.Fatalf("row %d is said to follow the one %d before", i, step)
				}
			}
		}
		if got := s.Beyond(limit); !slices.Equal(got, beyond) || s.Entries() != entries || s.Stored() > entries {
			t.Fatalf("rows %v beyond %d, want %v; %d entries, %d stored, want %d", got, limit, beyond, s.Entries(), s.Stored(),
				entries)
		}
		for _, i := range beyond {
			s.Rename(i, func(c int32) int32 { return 2*c + 1 })
		}
		for i, r := range rows {
			want := slices.Clone(r.Cols)
			if slices.Contains(beyond, i) {
				for k, c := range want {
					want[k] = 2*c + 1
				}
			}
			if got, vals := s.list(i); !slices.Equal(got, want) || sameBits(vals, r.Vals) >= 0 {
				t.Fatalf("row %d is %v %v, want %v %v", i, got, vals, want, r.Vals)
			}
		}
	})
}

// Rows of a grid share their entries, and interpolation between grids needs no memory per row.
func TestShapesOfGrids(t *testing.T) {
	_, m := wholeMatrix(t, "poisson", Params{Rows: 10000}, Compressed)
	if s := m.Shapes(); 10*s.Stored() > s.Entries() {
		t.Errorf("%d of %d entries are stored", s.Stored(), s.Entries())
	}
	p := NewShapes(1000, 0)
	for i := range 1000 {
		if p.Add(int32(i/2), 0.5); i%2 == 0 {
			p.Add(int32(i/2+1), 0.5)
		}
		p.End()
	}
	if m, err := p.Matrix(1000, Compressed); err != nil || m.Bytes() < 40 || m.Bytes() > 300 || m.Entries() != 1500 {
		t.Errorf("%d entries in %d bytes, %v", m.Entries(), m.Bytes(), err)
	}
}
