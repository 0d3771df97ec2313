package bandwidth

import (
	"testing"
)

func TestBusFactor(t *testing.T) {
	for _, test := range []struct {
		op    string
		ranks int
		want  float64
	}{
		{"all_reduce", 8, 1.75}, {"all-reduce", 2, 1}, {"allreduce", 1, 0},
		{"reduce_scatter", 4, 0.75}, {"all_gather", 4, 0.75}, {"alltoall", 2, 0.5}, {"all_to_all", 2, 0.5},
		{"alltoallv", 4, 0.75}, {"gather", 4, 0.75}, {"scatter", 4, 0.75},
		{"broadcast", 8, 1}, {"reduce", 8, 1}, {"sendrecv", 8, 1}, {"hypercube", 8, 1},
	} {
		if got, ok := Factor(test.op, test.ranks); !ok || got != test.want {
			t.Errorf("%s of %d ranks: %v, %v; want %v", test.op, test.ranks, got, ok, test.want)
		}
	}
	for _, op := range []string{"barrier", "", "allreduced"} {
		if _, ok := Factor(op, 4); ok {
			t.Errorf("%q has a bus factor", op)
		}
	}
	if _, ok := Factor("reduce", 0); ok {
		t.Error("no ranks have a bus factor")
	}
	// 1 GB in a millisecond.
	if got := Alg(1e9, 1000); got != 1000 {
		t.Errorf("AlgBW = %v GB/s, want 1000", got)
	}
	if got, ok := Bus("all_reduce", 8, 1e9, 1000); !ok || got != 1750 {
		t.Errorf("BusBW = %v GB/s, want 1750", got)
	}
}
