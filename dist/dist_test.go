package dist_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	_ "github.com/kernbench/kernbench/dist/cpu"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// solo returns a group of one rank, which is enough for tests of checks that happen before data moves.
func solo(t testing.TB) *dist.Group {
	t.Helper()
	g := must.Get(dist.Init(context.Background(),
		dist.Config{Backend: "cpu", Size: 1, ID: fmt.Sprint(t.Name(), "/", os.Getpid())}))(t)
	t.Cleanup(func() { g.Close() })
	return g
}

func refuses(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want an error with %q", what, err, want)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for want, c := range map[string]dist.Config{
		"rank is 2":               {Backend: "cpu", Rank: 2, Size: 2, ID: "x"},
		"size is 0":               {Backend: "cpu", ID: "x"},
		"no ID":                   {Backend: "cpu", Size: 1},
		`did you mean "cpu"`:      {Backend: "cpux", Size: 1, ID: "x"},
		"timeout is -1ns":         {Backend: "cpu", Size: 1, ID: "x", Timeout: -1},
		"known: cpu":              {Backend: "nothing-like-it", Size: 1, ID: "x"},
		"rank is -1, want 0 to 0": {Backend: "cpu", Rank: -1, Size: 1, ID: "x"},
	} {
		_, err := dist.Init(context.Background(), c)
		refuses(t, fmt.Sprintf("%+v", c), err, want)
	}
}

func TestCallsAreChecked(t *testing.T) {
	g := solo(t)
	f := func(n int) dist.Buffer { return dist.Of(make([]float32, n)) }
	long := make([]float32, 100)
	for want, c := range map[string]dist.Call{
		"unknown operation":                     {Op: "allreduc"},
		"in is f32 and out is f64":              {Op: dist.AllReduce, In: f(3), Out: dist.Of(make([]float64, 3))},
		"out has 2 elements":                    {Op: dist.AllReduce, In: f(3), Out: f(2)},
		"in has 2 elements":                     {Op: dist.Broadcast, In: f(2), Out: f(3)},
		"root is 7":                             {Op: dist.Reduce, In: f(3), Out: f(3), Root: 7},
		"peer is 0":                             {Op: dist.Send, In: f(3)},
		"count is -4":                           {Op: dist.AllReduce, Count: -4},
		"in and out overlap":                    {Op: dist.AllReduce, In: dist.Of(long[:50]), Out: dist.Of(long[1:51])},
		"all-to-all cannot be in place":         {Op: dist.AllToAll, In: dist.Of(long), Out: dist.Of(long)},
		"chunk is -1":                           {Op: dist.AllReduce, In: f(3), Out: f(3), Chunk: -1},
		`did you mean "ring"`:                   {Op: dist.AllReduce, In: f(3), Out: f(3), Algorithm: "rings"},
		"unknown allreduce algorithm":           {Op: dist.AllReduce, In: f(3), Out: f(3), Algorithm: "steps:nothing"},
		`"64X" is not a size of pieces`:         {Op: dist.AllReduce, In: f(3), Out: f(3), Algorithm: "ring@64X"},
		"2 bytes cannot hold an element of f32": {Op: dist.AllReduce, In: f(3), Out: f(3), Algorithm: "ring@2"},
		"want one of the two":                   {Op: dist.AllReduce, In: f(3), Out: f(3), Algorithm: "ring@8", Chunk: 2},
		"floating-point": {Op: dist.AllReduce, In: dist.Of(make([]int32, 3)),
			Out: dist.Of(make([]int32, 3)), Epilogue: &dist.Epilogue{}},
		"length that divides": {Op: dist.AllReduce, In: f(4), Out: f(4), Epilogue: &dist.Epilogue{Bias: f(3)}},
		"residual is 3 f32": {Op: dist.AllReduce, In: f(4), Out: f(4),
			Epilogue: &dist.Epilogue{Residual: f(3)}},
		"the norm's weight is 3 f32": {Op: dist.AllReduce, In: f(4), Out: f(4),
			Epilogue: &dist.Epilogue{Norm: &dist.RMSNorm{Weight: f(3)}}},
		"only an all-reduce may have a norm": {Op: dist.ReduceScatter, In: f(4), Out: f(4),
			Epilogue: &dist.Epilogue{Norm: &dist.RMSNorm{Weight: f(2)}}},
		"the norm's epsilon is -1": {Op: dist.AllReduce, In: f(4), Out: f(4),
			Epilogue: &dist.Epilogue{Norm: &dist.RMSNorm{Weight: f(2), Epsilon: -1}}},
		"codec int4 cannot encode f64": {Op: dist.AllReduce, In: dist.Make(dist.F64, 4), Out: dist.Make(dist.F64, 4),
			Codec: quant.Int4},
		"2 counts, want 1":              {Op: dist.AllGather, In: f(3), Out: f(3), Counts: []int{1, 2}},
		"counts are [-1]":               {Op: dist.AllGather, In: f(3), Out: f(3), Counts: []int{-1}},
		"counts [2] make 2":             {Op: dist.AllGather, In: f(3), Out: f(3), Count: 3, Counts: []int{2}},
		"only all-gather":               {Op: dist.AllReduce, In: f(3), Out: f(3), Counts: []int{3}},
		"in has 3 elements":             {Op: dist.AllToAll, In: f(3), Out: f(4), Counts: []int{4}},
		"no support for Reduction(200)": {Op: dist.AllReduce, In: f(4), Out: f(4), Reduction: 200},
	} {
		_, err := g.Prepare(c)
		refuses(t, fmt.Sprint(c.Op), err, want)
	}
	if err := g.Barrier(); err != nil {
		t.Errorf("after calls that could not be prepared: %v", err)
	}
}

// TestPiecesByName checks that "ring@64K" sets the chunk of the call, and that it overrides the tuning
// table.
func TestPiecesByName(t *testing.T) {
	g := solo(t)
	for text, want := range map[string]struct {
		name  string
		chunk int
	}{"ring@1K": {"ring", 256}, "steps:ring@64K": {"ring", 16384}, "ring": {"ring", 0}, "auto@100": {"one-stage", 25}} {
		op, err := g.Prepare(dist.Call{Op: dist.AllReduce, In: dist.Make(dist.F32, 8), Out: dist.Make(dist.F32, 8),
			Algorithm: text})
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if p := op.Plan(); p.Algorithm != want.name || p.Chunk != want.chunk {
			t.Errorf("%s is %s in pieces of %d elements", text, p.Algorithm, p.Chunk)
		}
	}
}

func TestBuffer(t *testing.T) {
	s := []int32{1, 2, 3, 4, 5}
	b := dist.Of(s)
	part := b.Slice(1, 3)
	dist.Slice[int32](part)[0] = 20
	if s[1] != 20 || part.Count() != 3 || len(part.Bytes()) != 12 || part.DType() != dist.I32 || part.String() != "3 i32" {
		t.Errorf("part is %v of %v", part, s)
	}
	for name, misuse := range map[string]func(){
		"beyond": func() { b.Slice(3, 3) }, "negative": func() { b.Slice(-1, 2) },
		"type": func() { dist.Slice[float32](b) }, "overflow": func() { b.Slice(1, int(^uint(0)>>1)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			misuse()
		}()
	}
	if dist.Slice[float64](dist.Buffer{}) != nil || b.Slice(5, 0).Bytes() != nil {
		t.Error("an empty buffer has memory")
	}
}

// TestTuningOfOneHost checks that an entry that names a host is used only by groups whose ranks are
// all on it, so that every rank of a group chooses the same algorithm.
func TestTuningOfOneHost(t *testing.T) {
	name := must.Get(os.Hostname())(t)
	table := func(host string) *dist.Tuning {
		return must.Get(tuning.Parse(fmt.Appendf(nil,
			`{"entries": [{"host": %q, "algorithm": "ring"}, {"algorithm": "tree"}]}`, host)))(t)
	}
	with := func(others ...string) func(context.Context, []byte) ([][]byte, error) {
		return func(_ context.Context, mine []byte) ([][]byte, error) {
			all := [][]byte{mine}
			for _, o := range others {
				all = append(all, []byte(o))
			}
			return all, nil
		}
	}
	for what, c := range map[string]struct {
		host     string
		exchange func(context.Context, []byte) ([][]byte, error)
		want     string
	}{
		"this host":              {name, nil, "ring"},
		"another host":           {name + "x", nil, "tree"},
		"all ranks on this host": {name, with(name), "ring"},
		"some ranks elsewhere":   {name, with("other"), "tree"},
	} {
		_, err := dist.Init(t.Context(),
			dist.Config{Backend: "test-only", Size: 2, ID: t.Name(), Tuning: table(c.host), Exchange: c.exchange})
		refuses(t, what, err, "nobody can join")
		if got := asked.Tuning.Choose("cpu", string(dist.AllReduce), 2, dist.F32, 8, true).Algorithm; got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
	if got := table(name).Choose("cpu", string(dist.AllReduce), 2, dist.F32, 8, true).Algorithm; got != "tree" {
		t.Errorf("a table of no group: %s, want tree", got)
	}
}

func TestClosedGroup(t *testing.T) {
	g := solo(t)
	b := dist.Of(make([]float32, 4))
	op, err := g.Prepare(dist.Call{Op: dist.AllReduce, In: b, Out: b})
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, g.Close())
	refuses(t, "prepared before", op.Run(), "closed")
	refuses(t, "started", op.Start(), "closed")
	refuses(t, "closed", g.AllReduce(b, b, dist.Sum), "closed")
	_, err = g.Alloc(dist.F32, 1)
	refuses(t, "closed", err, "closed")
	if err := g.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// TestMake checks that new memory is zeroed and aligned for its type, and that no elements need no
// memory.
func TestMake(t *testing.T) {
	b := dist.Make(dist.F64, 3)
	if x := dist.Slice[float64](b); len(x) != 3 || x[0] != 0 || b.Memory() != nil {
		t.Errorf("got %v in %v", x, b.Memory())
	}
	if b := dist.Make(dist.BF16, 0); b.Count() != 0 || len(b.Bytes()) != 0 {
		t.Errorf("nothing is %v", b)
	}
}

// TestConvert converts float32 to every element type and back.
func TestConvert(t *testing.T) {
	long := make([]float32, 3000) // longer than the pieces that Convert works in
	for i := range long {
		long[i] = float32(i % 200)
	}
	for _, d := range dtype.All() {
		named, err := dtype.Parse(d.String())
		if err != nil || named != d {
			t.Errorf("%v is read as %v (%v)", d, named, err)
		}
		b, back := dist.Make(d, len(long)), make([]float32, len(long))
		if err := errors.Join(dist.Convert(b, dist.Of(long)), dist.Convert(dist.Of(back), b)); err != nil {
			t.Errorf("%v: %v", d, err)
		}
		if !slices.Equal(back, long) {
			t.Errorf("%v: the values came back otherwise", d)
		}
	}
	big := []int64{1<<62 + 1}
	same := make([]int64, 1)
	if err := dist.Convert(dist.Of(same), dist.Of(big)); err != nil || same[0] != big[0] {
		t.Errorf("%d became %d (%v)", big, same, err)
	}
	refuses(t, "converting 1 to 3000", dist.Convert(dist.Of(long), dist.Of(same)), "counts differ")
	third, h, b := dist.Of([]float32{1.0 / 3}), make([]dist.Float16, 1), make([]dist.BFloat16, 1)
	if err := errors.Join(dist.Convert(dist.Of(h), third), dist.Convert(dist.Of(b), third)); err != nil ||
		h[0].Float32() != 0.33325195 || b[0].Float32() != 0.33398438 {
		t.Errorf("a third is %v as f16 and %v as bf16 (%v)", h[0].Float32(), b[0].Float32(), err)
	}
}

func TestCodecsByName(t *testing.T) {
	for _, c := range quant.Codecs() {
		if got, err := dist.ParseCodec(c.Name()); err != nil || got != c {
			t.Errorf("%s: %v, %v", c.Name(), got, err)
		}
	}
	_, err := dist.ParseCodec("int9")
	refuses(t, "int9", err, `did you mean "int`)
	defer func() {
		if recover() == nil {
			t.Error("a second int4 was registered")
		}
	}()
	dist.RegisterCodec(quant.Int4)
}

// A group whose context has ended fails. A context that ends after the group was closed has no effect.
func TestContextEnds(t *testing.T) {
	g := solo(t)
	late, cancel := context.WithCancelCause(context.Background())
	g.Watch(late)
	reason := errors.New("the user went home")
	early, stop := context.WithCancelCause(context.Background())
	g.Watch(early)
	stop(reason)
	err := g.Barrier()
	for deadline := time.Now().Add(10 * time.Second); err == nil && time.Now().Before(deadline); {
		err = g.Barrier() // the goroutine that observes the context may need a moment
	}
	if !errors.Is(err, reason) {
		t.Errorf("a call after its context has ended: %v", err)
	}
	g.Close()
	cancel(reason)
	// A context that ends after the group has failed is not the reason.
	failed := solo(t)
	mistake := failed.Do(dist.Call{Op: dist.AllReduce, In: dist.Make(dist.F32, 2), Out: dist.Make(dist.F32, 1)})
	failed.Watch(early)
	time.Sleep(10 * time.Millisecond)
	if err := failed.Barrier(); err == nil || !strings.Contains(err.Error(), mistake.Error()) || errors.Is(err, reason) {
		t.Errorf("a call after a mistake, and after the end of a context: %v", err)
	}
}

// refusing is a backend without algorithms, whose driver refuses every kernel.
type refusing struct{ dist.Engine }

func (refusing) Join(context.Context, dist.Config) (dist.Engine, error) { return refusing{}, nil }

func (refusing) Rank() int { return 0 }
func (refusing) Size() int { return 1 }

func (refusing) Close() error { return nil }

func (refusing) Capabilities() dist.Capabilities {
	return dist.Capabilities{Ops: []dist.Collective{dist.Broadcast}, DTypes: []dist.DType{dist.F32}}
}

func (refusing) Prepare(dist.Plan) (run, release func() error, err error) {
	return nil, nil, &dist.UnavailableError{Err: errors.New("no such kernel")}
}

func init() { dist.Register(dist.Description{Name: "refusing"}, refusing{}) }

// An operation that names no algorithms has none to fall back on.
func TestUnavailableWithoutAlgorithms(t *testing.T) {
	g := must.Get(dist.Init(t.Context(), dist.Config{Backend: "refusing", Size: 1, ID: t.Name()}))(t)
	b := dist.Make(dist.F32, 1)
	_, err := g.Prepare(dist.Call{Op: dist.Broadcast, In: b, Out: b})
	refuses(t, "a kernel", err, "no such kernel")
}
