package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/disttest"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/host/cudatest"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// together runs f on every rank of a group concurrently.
func together(t *testing.T, gs []*dist.Group, f func(rank int, g *dist.Group) error) {
	t.Helper()
	must.Do(t, errors.Join(disttest.Each(gs, func(g *dist.Group) error { return f(g.Rank(), g) })...))
}

// A single call, calls inside one launch and calls in a graph all leave the right sums, for every
// algorithm and for ranks as processes and as blocks of one kernel. They run one after the other on
// the same flags and slots.
func TestTimings(t *testing.T) {
	const size, count = 2, 1000
	for _, as := range []string{asProcesses, asBlocks} {
		log := filepath.Join(t.TempDir(), "calls")
		t.Setenv(cudatest.LogVariable, log)
		gs := must.Get(openWith(size, time.Minute, map[string]string{ranksAsKnob: as, blocksKnob: "2"}))(t)
		var in, out [size]dist.Buffer
		together(t, gs, func(r int, g *dist.Group) (err error) {
			if in[r], err = g.Alloc(dist.F32, count); err == nil {
				out[r], err = g.Alloc(dist.F32, count)
			}
			return err
		})
		for n, algorithm := range gs[0].Capabilities().Algorithms[dist.AllReduce] {
			together(t, gs, func(r int, g *dist.Group) error { return timedRight(g, in[r], out[r], algorithm, float32(1+n)) })
		}
		calls, err := os.ReadFile(log)
		cooperative := strings.Contains(string(calls), "cuLaunchCooperativeKernel")
		if err != nil || !strings.Contains(string(calls), "cuGraphLaunch of 48") || cooperative != (as == asBlocks) {
			t.Errorf("ranks as %s: not the launches that were asked for: %v\n%.2000s", as, err, calls)
		}
		if grid := map[string]string{asProcesses: " push_f32_2 2 x 256",
			asBlocks: " push_f32_2 4 x 256"}[as]; !strings.Contains(string(calls), grid) {
			t.Errorf("ranks as %s: no launch%s", as, grid)
		}
		together(t, gs, func(_ int, g *dist.Group) error { return g.Close() })
	}
}

// timedRight times a call in every way and checks the sums that each leaves.
func timedRight(g *dist.Group, in, out dist.Buffer, algorithm string, value float32) error {
	op, err := g.Prepare(dist.Call{Op: dist.AllReduce, In: in, Out: out, Algorithm: algorithm})
	if err != nil {
		return err
	}
	list, err := instrument.Timings(g, op)
	if err != nil {
		return err
	}
	if (len(list) == 3) != (algorithm != naive) { // naive cannot be timed this way: its copies are not part of a launch
		return errors.New(algorithm + " has the wrong ways to be timed")
	}
	for i, w := range list {
		v := value + 10*float32(i)
		if err := write(in, v+float32(g.Rank())); err != nil {
			return err
		}
		if err := write(out, -1); err != nil {
			return err
		}
		for range 3 {
			us, err := w.Sample()
			if err != nil {
				return err
			}
			if working := g.Rank() == 0 || g.Capabilities().Has(dist.FusedEpilogue); (us > 0) != working || math.IsNaN(us) {
				return errors.New(w.Name + " of " + algorithm + " took no time, or a rank without work did")
			}
		}
		if w.Check != nil {
			if err := w.Check(); err != nil {
				return err
			}
			if g.Rank() == 0 && g.Facts().RanksPerDevice == g.Size() &&
				(w.LimitUS <= 0 || !strings.Contains(w.Limit, "GB/s of the cache")) {
				return errors.New(algorithm + " has no limit")
			}
		}
		m, err := out.Mirror()
		if err != nil {
			return err
		}
		for _, got := range dist.Slice[float32](m) {
			if got != 2*v+1 {
				return errors.New(w.Name + " of " + algorithm + " leaves a wrong sum")
			}
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
	return nil
}

func write(b dist.Buffer, v float32) error {
	m, err := b.Mirror()
	if err != nil {
		return err
	}
	for i := range dist.Slice[float32](m) {
		dist.Slice[float32](m)[i] = v
	}
	return b.Update(m)
}

// Operations that one kernel cannot perform for all ranks are not offered, and invalid knobs are
// refused.
func TestKnobs(t *testing.T) {
	for _, c := range []struct {
		knobs map[string]string
		want  string
	}{
		{map[string]string{"block": "2"}, `backend cuda has no knob "block" (it has: ranks_as, blocks, scope, copy)`},
		{map[string]string{ranksAsKnob: "threads"}, "threads"},
		{map[string]string{blocksKnob: "0"}, "want auto or a number from 1 to 1024"},
	} {
		if _, err := openWith(1, time.Minute, c.knobs); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.knobs, err, c.want)
		}
	}
	k := knobs{asBlocks: true}
	if c := k.restrict(capabilities()); c.Can(dist.AllGather) || c.Has(dist.FusedEpilogue) ||
		len(c.Algorithms[dist.AllReduce]) != len(capabilities().Algorithms[dist.AllReduce])-1 {
		t.Errorf("ranks as blocks can %+v", c)
	}
	gs, err := openWith(2, time.Minute, map[string]string{blocksKnob: "5"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = gs[0].Prepare(dist.Call{Op: dist.AllReduce, In: dist.Make(dist.F32, 8), Out: dist.Make(dist.F32, 8)})
	if err == nil || !strings.Contains(err.Error(), "blocks=5: with 2 ranks on the GPU at most 4 of each run at once") {
		t.Errorf("more blocks than fit: %v", err)
	}
	together(t, gs, func(_ int, g *dist.Group) error { return g.Close() })
}

// auto takes algorithm and blocks only from table entries for this GPU. Blocks that the caller
// requests must fit; blocks from the table are reduced to fit.
func TestTuned(t *testing.T) {
	const text = `{"entries": [{"backend": "cuda", "device": %q, "ranks_per_device": 2, "knobs": {"ranks_as": "processes"}, "algorithm": "two-stage-push", "blocks": %d},
		{"algorithm": "one-stage"}]}`
	for _, c := range []struct {
		device, algorithm string
		blocks            int
		launch, refused   string
	}{
		{device: "Fake GPU 0", blocks: 3, launch: " push_f32_2 3 x 256"},
		{device: "Fake GPU 0", blocks: 99, launch: " push_f32_2 4 x 256"},
		{device: "Fake GPU 7", blocks: 3, launch: " onestage_f32_2 1 x 256"},
		{device: "Fake GPU 0", blocks: 3, algorithm: "lamport#2", launch: " lamport_f32_2 2 x 256"},
		{device: "Fake GPU 0", blocks: 3, algorithm: "lamport#5",
			refused: "blocks=5: with 2 ranks on the GPU at most 4 of each run at once"},
	} {
		log := filepath.Join(t.TempDir(), "calls")
		t.Setenv(cudatest.LogVariable, log)
		table := must.Get(tuning.Parse(fmt.Appendf(nil, text, c.device, c.blocks)))(t)
		gs := must.Get(openAs(2, dist.Config{Tuning: table, Timeout: time.Minute}))(t)
		together(t, gs, func(r int, g *dist.Group) error {
			_, err := g.Prepare(dist.Call{Op: dist.AllReduce, In: dist.Make(dist.F32, 100), Out: dist.Make(dist.F32, 100),
				Algorithm: c.algorithm})
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					return fmt.Errorf("want %q, got %w", c.refused, err)
				}
				return nil
			}
			return g.Do(dist.Call{Op: dist.AllReduce, In: dist.Make(dist.F32, 100), Out: dist.Make(dist.F32, 100),
				Algorithm: c.algorithm})
		})
		if calls, err := os.ReadFile(log); err != nil || !strings.Contains(string(calls), c.launch) {
			t.Errorf("%+v: %v, launched\n%s", c, err, calls)
		}
		together(t, gs, func(_ int, g *dist.Group) error { return g.Close() })
	}
}

// The encodings of the inputs and the sums of one piece fit into scratch memory, for any number of
// ranks, and also for vectors of a gigabyte, which go in pieces.
func TestEncodingsFit(t *testing.T) {
	most := maxEncoded(nil, 2)
	if most%quant.Group != 0 || most < stageBytes/2 {
		t.Errorf("%d elements go at once", most)
	}
	for ranks := 1; ranks <= gpu.MaxRanks; ranks++ {
		for _, count := range []int{1, 31, 33, most - 1, most, most + 1, 256 << 20, 1 << 30} {
			for codec, w := range codecVariants {
				piece := min(count, most)
				slot := slotBytes(piece, ranks, w.bits)
				// part is the size of the rank with most groups, as the kernel distributes them.
				groups, part := (piece+quant.Group-1)/quant.Group, 0
				for r := range ranks {
					part = max(part, (groups*(r+1)/ranks-groups*r/ranks)*quant.Group)
				}
				if 2*ranks*slot > 2*stageBytes {
					t.Errorf("%s, %d of %d elements, %d ranks: slots of %d bytes do not fit", codec.Name(), piece, count, ranks, slot)
				}
				if need := codec.Size(dist.BF16, part); slot < need {
					t.Errorf("%s, %d of %d elements, %d ranks: %d bytes in a slot of %d", codec.Name(), piece, count, ranks, need,
						slot)
				}
			}
		}
	}
}

// A vector that goes in pieces has the same bits as in one piece, including its tail, in device memory
// and in host memory.
func TestEncodedPieces(t *testing.T) {
	const count = 100_003
	sums := map[int][]byte{}
	for _, room := range []int{encodedScratch, 64 << 10} {
		was := encodedScratch
		encodedScratch = room
		t.Cleanup(func() { encodedScratch = was })
		log := filepath.Join(t.TempDir(), "calls")
		t.Setenv(cudatest.LogVariable, log)
		gs := must.Get(open(2, time.Minute))(t)
		together(t, gs, func(r int, g *dist.Group) error {
			in, err := g.Alloc(dist.BF16, count)
			if err != nil {
				return err
			}
			host := dist.Make(dist.BF16, count)
			for i := range host.Bytes() {
				host.Bytes()[i] = byte(i*7+r) & 0x3f
			}
			if err := errors.Join(in.Update(host), g.Do(dist.Call{Op: dist.AllReduce, In: in, Out: in, Codec: quant.Int6}),
				g.Do(dist.Call{Op: dist.AllReduce, In: host, Out: host, Codec: quant.Int6})); err != nil {
				return err
			}
			m, err := in.Mirror()
			if err != nil {
				return err
			}
			if !bytes.Equal(m.Bytes(), host.Bytes()) {
				return errors.New("memory of the group and of the program have different sums")
			}
			if r == 0 {
				sums[room] = bytes.Clone(m.Bytes())
			}
			return nil
		})
		calls, err := os.ReadFile(log)
		if want := 2 * 2 * ((count + maxEncoded(nil, 2) - 1) / maxEncoded(nil, 2)); err != nil ||
			strings.Count(string(calls), "quickreduce6_bf16") != want {
			t.Errorf("%d launches, want %d (%v)", strings.Count(string(calls), "quickreduce6_bf16"), want, err)
		}
		together(t, gs, func(_ int, g *dist.Group) error { return g.Close() })
		encodedScratch = was
	}
	if !bytes.Equal(sums[2*stageBytes], sums[64<<10]) || len(sums) != 2 {
		t.Error("pieces have other bits than the whole")
	}
}
