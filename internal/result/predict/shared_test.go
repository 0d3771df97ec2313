package predict

import (
	"iter"
	"math"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/loggp"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/result/model"
)

func executed(t *testing.T, algorithm, buffers string, p schedule.Params) schedule.Schedule {
	t.Helper()
	s := must.Get(schedule.New(schedule.AllReduce, algorithm, p))(t)
	return asExecuted(s, model.Series{Backend: "cpu", Buffers: buffers}, 4)
}

// withBarrier adds a barrier at the end. The library does not need one, because the next call may use
// other slots while peers still read these.
type withBarrier struct{ sharedSchedule }

func (s withBarrier) Steps(rank int) iter.Seq[schedule.Step] {
	return func(yield func(schedule.Step) bool) {
		w := &stepWriter{Params: s.Params(), rank: rank, yield: yield}
		s.steps(w)
		w.signal()
		w.wait(w.everyone())
	}
}

// The steps of dist/cpu's special code form an all-reduce without races, and replace the schedule of
// the same name.
func TestInMemoryIsProved(t *testing.T) {
	for _, c := range [][2]string{{"two-stage", "symmetric"}, {"two-stage", "private"}, {"one-stage", "symmetric"},
		{"one-stage", "private"}} {
		for ranks := 2; ranks <= 5; ranks++ {
			for _, count := range []int{1, 3, 7, 64, 40_000} {
				for _, piece := range []int{0, 5, 1000} {
					if count/max(piece, 1) > 100 && piece > 0 {
						continue
					}
					s, own := executed(t, c[0], c[1], schedule.Params{Ranks: ranks, Count: count, ChunkElems: piece}).(sharedSchedule)
					if !own {
						t.Fatalf("%v: the steps are equal to the steps of the schedule", c)
					}
					if err := schedule.Check(withBarrier{s}); err != nil {
						t.Errorf("%v, %d ranks, %d elements, pieces of %d: %v", c, ranks, count, piece, err)
					}
				}
			}
		}
	}
	for _, s := range []model.Series{{Backend: "mpi"}, {}} { // the steps of other libraries are not known
		of, _ := schedule.New(schedule.AllReduce, "two-stage", schedule.Params{Ranks: 2, Count: 8})
		if _, own := asExecuted(of, s, 4).(sharedSchedule); own {
			t.Errorf("%+v has the steps of dist/cpu", s)
		}
	}
}

// Times are bytes over rates, plus flags between caches. In two-stage on symmetric memory no data
// crosses: each rank loads and stores as many bytes as the vector has. In one-stage, the data of all
// peers crosses once.
func TestInMemoryTimes(t *testing.T) {
	const elem, count = 4, 1 << 12 // one chunk
	n := loggp.Network{Latency: 100 * event.Nanosecond, Overhead: 10 * event.Nanosecond, Bandwidth: 1e6, Copy: 2e6,
		Load: 8e6, Fetch: 4e6, Store: 16e6}
	barrier := 2*n.Overhead + n.Latency
	for ranks := 2; ranks <= 4; ranks *= 2 {
		size, others := int64(elem*count), event.Time(ranks-1)
		more := (others - 1) * n.Overhead // each further peer's flag must be read
		for c, want := range map[[2]string]event.Time{
			{"two-stage", "symmetric"}: 2*(barrier+more) + n.Load.Time(size) + n.Store.Time(size),
			{"one-stage", "private"}: barrier + more + n.Copy.Time(size) + n.Load.Time(size) + others*n.Fetch.Time(size) +
				n.Store.Time(size),
		} {
			got, err := loggp.Run(executed(t, c[0], c[1], schedule.Params{Ranks: ranks, Count: count}), elem, n)
			if off := got.Time - want; err != nil || off < -10 || off > 10 || got.Bytes != 0 {
				t.Errorf("%v, %d ranks: %+v, want %v; %v", c, ranks, got, want, err)
			}
		}
	}
}

// A fit that needs more than the probed rates is not validated, however close it is, and does not
// count in the overall error.
func TestBeyondTheProbe(t *testing.T) {
	h := sampleHost()
	for share, beyond := range map[float64]bool{0.7: false, 1.2: false, 1.4: true, 4.3: true} {
		f := h.Fit(timesOf(t, h, "two-stage", Library{0.6, share}, nil))
		why := f.Validation(1 << 20).Reason
		if f.Reason != "" || math.Abs(f.Share/share-1) > 0.05 || strings.Contains(why, "of the probed rates") != beyond ||
			f.Usable() == beyond ||
			strings.Contains(f.String(), "; not validated: ") != beyond {
			t.Errorf("share %v: %v; %q", share, f, why)
		}
		if _, ok := Overall([]Fit{f}); ok == beyond {
			t.Errorf("share %v: counted in the error of all: %v", share, ok)
		}
	}
}
