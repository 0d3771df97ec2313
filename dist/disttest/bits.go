package disttest

import (
	"bytes"
	"fmt"
	"math"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/comm/verify"
)

// bits checks results that depend on the order of additions, on inputs of very different magnitudes: they must be equal
// across ranks, runs and kinds of memory, between an algorithm's own code and its steps, and between the algorithms
// that add in rank order.
func (s Suite) bits(g *dist.Group) error {
	caps := g.Capabilities()
	for _, d := range []dist.DType{dist.F64, dist.F32, dist.F16, dist.BF16} {
		for _, count := range []int{5, 3001} {
			in := vector(d, count, func(i int) float64 {
				h := verify.Hash(3, g.Rank(), i)
				return math.Ldexp(float64(h%1000)-500, int(h>>20%12)-6)
			})
			var first []byte // result of the algorithms that add in rank order, which must agree
			names, prefixes := caps.Algorithms[dist.AllReduce], []string{"", tuning.StepsPrefix}
			if !caps.Has(dist.ScheduleSteps) {
				prefixes = prefixes[:1]
			}
			if !choosing(caps) {
				names = []string{"auto"}
			}
			for _, name := range names {
				ordered := inRankOrder(name, d)
				var runs []byte // result of the algorithm's own code; its steps must give the same
				for _, prefix := range prefixes {
					if !ordered && !caps.Has(dist.ScheduleOrder) {
						runs = nil // the algorithm's own code may add in another order
					}
					for _, how := range ways(caps, ordered) {
						out, err := s.sum(g, d, in, prefix+name, how)
						if err != nil {
							return err
						}
						if runs != nil && !bytes.Equal(runs, out) {
							return fmt.Errorf("%s%s of %d %v, %v: other bits than a run before, by its own code or by its steps", prefix,
								name, count, d, how)
						}
						runs = out
					}
				}
				if ordered {
					if first != nil && !bytes.Equal(first, runs) {
						return fmt.Errorf("%s of %d %v: bits differ from another algorithm that adds in rank order", name, count, d)
					}
					first = runs
				}
			}
		}
	}
	return nil
}

// way is a variant of a call on which no bit may depend.
type way struct {
	chunk     int
	symmetric bool
}

func (w way) String() string {
	memory := "private"
	if w.symmetric {
		memory = "symmetric"
	}
	return fmt.Sprintf("chunk %d, %s memory", w.chunk, memory)
}

// ways returns the variants of an all-reduce. A chunk changes the order of additions, unless that is the rank order.
func ways(caps dist.Capabilities, ordered bool) []way {
	list := []way{{}, {}}
	if caps.Has(dist.SymmetricMemory) {
		list = append(list, way{symmetric: true})
	}
	if ordered {
		list = append(list, way{chunk: 128})
	}
	return list
}

// inRankOrder reports whether an all-reduce promises the bits of adding in rank order, with one rounding or with a
// rounding at every addition.
func inRankOrder(algorithm string, d dist.DType) bool {
	info, _ := schedule.Lookup(schedule.AllReduce, algorithm)
	return info.Order == schedule.RankOrder && (info.Wide || d.Size() > 2)
}

// sum reduces in and checks that every rank got the same bits.
func (s Suite) sum(g *dist.Group, d dist.DType, in []byte, algorithm string, how way) ([]byte, error) {
	count := len(in) / d.Size()
	out := make([]byte, len(in))
	from, to := as(dist.Of(in), d, count), as(dist.Of(out), d, count)
	if how.symmetric {
		var err error
		if from, err = g.Alloc(d, count); err != nil {
			return nil, err
		}
		defer g.Free(from)
		if to, err = g.Alloc(d, count); err != nil {
			return nil, err
		}
		defer g.Free(to)
		if err := put(from, in); err != nil {
			return nil, err
		}
	}
	if err := g.Do(dist.Call{Op: dist.AllReduce, In: from, Out: to, Algorithm: algorithm, Chunk: how.chunk}); err != nil {
		return nil, err
	}
	got, err := get(to)
	if err != nil {
		return nil, err
	}
	copy(out, got)
	if err := identical(g, d, out); err != nil {
		return nil, fmt.Errorf("%s of %d %v: %w", algorithm, count, d, err)
	}
	return out, nil
}

// identical checks that all ranks got the same bits.
func identical(g *dist.Group, d dist.DType, got []byte) error {
	all, count := make([]byte, len(got)*g.Size()), len(got)/d.Size()
	if err := g.AllGather(as(dist.Of(all), d, count*g.Size()), as(dist.Of(got), d, count)); err != nil {
		return err
	}
	for r := range g.Size() {
		if !bytes.Equal(all[r*len(got):(r+1)*len(got)], got) {
			return fmt.Errorf("ranks %d and %d got different bits", g.Rank(), r)
		}
	}
	return nil
}
