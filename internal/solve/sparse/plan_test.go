package sparse

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
)

// owners is a layout that lists the owner of each row.
type owners []int

func (o owners) Owner(row int) int { return o[row] }

func (o owners) Rows(rank int) []Range {
	var out []Range
	for i, r := range o {
		switch n := len(out); {
		case r != rank:
		case n > 0 && out[n-1].Hi == i:
			out[n-1].Hi++
		default:
			out = append(out, Range{i, i + 1})
		}
	}
	return out
}

// plans makes the plans of all ranks and exchanges what they need.
func plans(t must.T, p Problem, layout Layout, ranks int) []*Plan {
	all := make([]*Plan, ranks)
	for r := range all {
		all[r] = NewPlan(p, layout, r)
	}
	for _, from := range all {
		for i := range from.Peers {
			peer := &from.Peers[i]
			must.Do(t, all[peer.Rank].Serve(from.Rank, from.Wants(peer)))
		}
	}
	return all
}

// exchange copies the ghosts from rank to rank.
func exchange(all []*Plan, vectors [][]float64) {
	for _, to := range all {
		for _, peer := range to.Peers {
			from := all[peer.Rank]
			for i := range from.Peers {
				if from.Peers[i].Rank == to.Rank {
					buf := make([]float64, from.Peers[i].SendCount())
					from.Pack(buf, vectors[from.Rank], 1, &from.Peers[i])
					copy(vectors[to.Rank][peer.Recv.Lo:peer.Recv.Hi], buf)
				}
			}
		}
	}
}

// product multiplies a vector on all ranks. The ghosts are invalid until the interior is done. spoil may change a
// rank's vector after the exchange.
func product(t must.T, p Problem, all []*Plan, format Format, x []float64,
	spoil func(v []float64, plan *Plan)) []float64 {
	vectors, outs := make([][]float64, len(all)), make([][]float64, len(all))
	matrices := make([]*Matrix, len(all))
	for r, plan := range all {
		vectors[r], outs[r] = make([]float64, plan.Owned+len(plan.Ghosts)), make([]float64, plan.Owned)
		for i := range vectors[r] {
			if vectors[r][i] = math.NaN(); i < plan.Owned {
				vectors[r][i] = x[plan.Global(i)]
			}
		}
		var err error
		if matrices[r], err = plan.Matrix(p, format); err != nil {
			t.Fatal(err)
		}
		for _, part := range plan.Interior {
			matrices[r].Multiply(outs[r], vectors[r], part.Lo, part.Hi)
		}
	}
	exchange(all, vectors)
	y := make([]float64, len(x))
	for r, plan := range all {
		if spoil != nil {
			spoil(vectors[r], plan)
		}
		for _, part := range plan.Boundary {
			matrices[r].Multiply(outs[r], vectors[r], part.Lo, part.Hi)
		}
		for i, v := range outs[r] {
			y[plan.Global(i)] = v
		}
	}
	return y
}

func TestRanksGiveTheWholeProduct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SampledFrom(variants).Draw(t, "problem")
		p := must.Get(New(v.kind, v.params))(t)
		ranks := rapid.IntRange(1, 8).Draw(t, "ranks")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		strips := rapid.Bool().Draw(t, "strips")
		o := make(owners, p.Size())
		for i := range o {
			if o[i] = rng.IntN(ranks); strips { // in both cases a rank may have no rows
				o[i] = i * ranks / p.Size()
			}
		}
		x := make([]float64, p.Size())
		for i := range x {
			x[i] = Noise(1, i)
		}
		want := product(t, p, plans(t, p, oneRank(p.Size()), 1), Compressed, x, nil)
		all := plans(t, p, o, ranks)
		got := product(t, p, all, Compressed, x, nil)
		// Local numbers change the position in memory, but not the order of summation.
		if i := sameBits(got, want); i >= 0 {
			t.Fatalf("row %d is %v, want %v", i, got[i], want[i])
		}
		// A wrong ghost must change the product.
		ghosts := 0
		spoiled := product(t, p, all, Plain, x, func(v []float64, plan *Plan) {
			ghosts += len(plan.Ghosts)
			for i := plan.Owned; i < len(v); i++ {
				v[i] += 1e6
			}
		})
		wrong := 0
		for i := range want {
			if spoiled[i] != want[i] {
				wrong++
			}
		}
		if wrong == 0 != (ghosts == 0) {
			t.Fatalf("%d ghosts, spoiled, made %d rows wrong", ghosts, wrong)
		}
	})
}

func TestPlanOfStrips(t *testing.T) {
	p, _ := New("poisson", Params{Rows: 900})
	o := make(owners, 900)
	for i := range o {
		o[i] = i / 300
	}
	all := plans(t, p, o, 3)
	middle := all[1]
	if len(middle.Ghosts) != 60 || len(middle.Peers) != 2 || middle.Peers[0].SendCount() != 30 ||
		len(middle.Peers[0].Send) != 1 {
		t.Errorf("the middle strip has %d ghosts and peers %+v", len(middle.Ghosts), middle.Peers)
	}
	if len(middle.Interior) != 1 || middle.Interior[0] != (Range{30, 270}) || len(middle.Boundary) != 2 {
		t.Errorf("interior %v, boundary %v", middle.Interior, middle.Boundary)
	}
	if middle.CutEntries != 60 || middle.Entries != 300*5-20 {
		t.Errorf("%d entries, %d of them in ghosts", middle.Entries, middle.CutEntries)
	}
}

// If the pattern of the matrix is not symmetric, a rank may send rows to a rank from which it needs none.
func TestServeWithoutNeeding(t *testing.T) {
	f := must.Get(ReadMatrix(strings.NewReader("%%MatrixMarket matrix coordinate real general\n3 3 4\n1 1 1\n2 2 1\n3 "+
		"3 1\n1 3 5\n"), nil))(t)
	all := plans(t, f, owners{0, 1, 2}, 3)
	if len(all[2].Peers) != 1 || all[2].Peers[0].SendCount() != 1 || len(all[2].Ghosts) != 0 {
		t.Errorf("rank 2: peers %+v, ghosts %v", all[2].Peers, all[2].Ghosts)
	}
	if len(all[0].Interior)+len(all[2].Interior) != 0 || len(all[1].Boundary) != 0 {
		t.Errorf("interiors %v, %v and boundary %v: rows that need a ghost or that others need are boundary rows",
			all[0].Interior,
			all[2].Interior, all[1].Boundary)
	}
	got := product(t, f, all, Compressed, []float64{1, 2, 3}, nil)
	if got[0] != 16 {
		t.Errorf("product %v, want 16 in row 0", got)
	}
	if err := all[0].Serve(1, []int{2}); err == nil || !strings.Contains(err.Error(), "does not own") {
		t.Errorf("serving a row of another rank: error %v", err)
	}
}

// Long interior ranges are multiples of rowStep, and boundary and interior rows together are all rows.
func TestLongInteriorIsEven(t *testing.T) {
	p := must.Get(New("poisson", Params{Rows: 40000}))(t) // lines of 200 points
	of := make(owners, p.Size())
	for i := range of {
		of[i] = i / 10050 // not a multiple of the line length
	}
	for _, plan := range plans(t, p, of, 4) {
		rows := 0
		for _, r := range append(plan.Boundary, plan.Interior...) {
			rows += r.Len()
		}
		if len(plan.Interior) != 1 || rows != plan.Owned {
			t.Fatalf("rank %d: interior %v, boundary %v of %d rows", plan.Rank, plan.Interior, plan.Boundary, plan.Owned)
		}
		in := plan.Interior[0]
		if in.Lo%rowStep != 0 || in.Hi%rowStep != 0 && in.Hi != plan.Owned || in.Len() < plan.Owned-2*200-2*rowStep {
			t.Errorf("rank %d: interior %v of %d rows", plan.Rank, in, plan.Owned)
		}
	}
}
