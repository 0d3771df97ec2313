package allreduceeval

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// patience is how long a rank waits for another in a cell that should pass.
const patience = 30 * time.Second

// auto leaves the algorithm to the backend.
const auto = "auto"

// The algorithms of the matrix beside those of the schedules.
const (
	quickreduce = "quickreduce" // 8-bit integers; the others name their bits
	lamport     = "lamport"
	multimem    = "multimem"
)

// needs says what an algorithm needs that no backend of this program has.
var needs = map[string]string{
	lamport:  "stores of 16 bytes that peers see whole, as NVLink gives them to GPUs: data and flag in one",
	multimem: "a switch that adds (NVLink SHARP: 4 or more Hopper GPUs, multicast memory)",
}

// algorithms are the rows of the matrix.
var algorithms = []string{"naive", "one-stage", "two-stage", "ring", "recursive-doubling", "halving-doubling", "tree",
	quickreduce, quickreduce + "-int6", quickreduce + "-int4", lamport, multimem}

// codecOf is the codec of a quantised algorithm, nil of another.
func codecOf(algorithm string) *quant.Codec {
	switch algorithm {
	case quickreduce:
		return &quant.Int8
	case quickreduce + "-int6":
		return &quant.Int6
	case quickreduce + "-int4":
		return &quant.Int4
	}
	return nil
}

// lab is what one rank keeps from cell to cell of a launch: the group, memory,
// and the inputs and expectations that cells share.
type lab struct {
	g     *dist.Group
	space [2]struct{ in, out []byte } // private and symmetric memory
	place [2]dist.Place
	calls uint64 // so far; every second one has other inputs, so that no result stands for the next
	d     dist.DType
	cache map[any]any // of this element type
}

var labs = struct {
	sync.Mutex
	byRank map[string]*lab
}{byRank: map[string]*lab{}}

func labName(s *bench.State) string { return fmt.Sprintf("%s/%d", s.Session(), s.Rank()) }

// openLab gives this rank's lab of the launch. All ranks of it call it alike.
func openLab(ctx context.Context, s *bench.State, d dist.DType) (*lab, error) {
	labs.Lock()
	l := labs.byRank[labName(s)]
	labs.Unlock()
	if l == nil {
		g, err := dist.Init(ctx, dist.Config{Backend: s.Backend(), Rank: s.Rank(), Size: s.Size(), Timeout: patience, ID: s.Session() + "/eval"})
		if err != nil {
			return nil, err
		}
		l = &lab{g: g}
		labs.Lock()
		labs.byRank[labName(s)] = l
		labs.Unlock()
	}
	if l.d != d {
		l.d, l.cache = d, map[any]any{}
	}
	return l, nil
}

// closeLab drops a lab whose group has failed, or that nobody needs any more.
func closeLab(s *bench.State) {
	labs.Lock()
	l := labs.byRank[labName(s)]
	delete(labs.byRank, labName(s))
	labs.Unlock()
	if l != nil {
		l.g.Close()
	}
}

// cached gives what was made for the key, or makes it.
func cached[K comparable, V any](l *lab, key K, build func() (V, error)) (V, error) {
	if v, ok := l.cache[key]; ok {
		return v.(V), nil
	}
	v, err := build()
	if err == nil {
		l.cache[key] = v
	}
	return v, err
}

// The kinds of memory.
const (
	privateMemory = iota
	symmetricMemory
)

var memoryNames = []string{"private", "symmetric"}

// memories are the kinds that the backend has.
func (l *lab) memories() []int {
	if l.g.Capabilities().Symmetric {
		return []int{privateMemory, symmetricMemory}
	}
	return []int{privateMemory}
}

// reserve makes both kinds of memory large enough for a vector and a guard
// behind it. It is a collective.
func (l *lab) reserve(bytes int) error {
	if len(l.space[privateMemory].in) >= bytes {
		return nil
	}
	bytes += 512 // the next size has a few elements more
	l.space[privateMemory].in, l.space[privateMemory].out = aligned(bytes), aligned(bytes)
	if !l.g.Capabilities().Symmetric {
		return nil
	}
	for _, b := range []*[]byte{&l.space[symmetricMemory].in, &l.space[symmetricMemory].out} {
		if len(*b) > 0 {
			if err := l.g.Free(l.buffer(*b, dist.U8, len(*b), symmetricMemory)); err != nil {
				return err
			}
		}
		got, err := l.g.Alloc(dist.U8, bytes)
		if err != nil {
			return err
		}
		*b, l.place[symmetricMemory] = got.Bytes(), got.Place()
	}
	return nil
}

// aligned is memory that any element type may lie in.
func aligned(bytes int) []byte {
	words := make([]uint64, (bytes+7)/8)
	if len(words) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), bytes)
}

// buffer is elements at the begin of memory.
func (l *lab) buffer(b []byte, d dist.DType, count, memory int) dist.Buffer {
	if count == 0 {
		return dist.NewBuffer(d, 0, nil, l.place[memory])
	}
	return dist.NewBuffer(d, count, unsafe.Pointer(&b[0]), l.place[memory])
}

// lacking says why the backend cannot run the row: skipped is for what makes no
// sense, not executed for what should run and cannot.
func (l *lab) lacking(algorithm string, d dist.DType, epilogue bool) error {
	caps := l.g.Capabilities()
	if need, ok := needs[algorithm]; ok && !has(caps.Algorithms[dist.AllReduce], algorithm) {
		return bench.NotExecuted(false, "%s needs %s; backend %s has none", algorithm, need, l.g.Backend())
	}
	name, codec := planned(algorithm)
	switch {
	case !has(caps.Ops, dist.AllReduce) || !has(caps.Reductions, dist.Sum):
		return bench.NotExecuted(true, "backend %s has no all-reduce of sums", l.g.Backend())
	case !has(caps.DTypes, d):
		return bench.NotExecuted(false, "backend %s has no %v (it has %s)", l.g.Backend(), d, list(caps.DTypes))
	case epilogue && !caps.Epilogue:
		return bench.NotExecuted(false, "backend %s has no epilogue", l.g.Backend())
	case codec != nil && !caps.Codec:
		return bench.NotExecuted(false, "backend %s moves no encoded elements", l.g.Backend())
	case codec == nil && name != auto && !has(caps.Algorithms[dist.AllReduce], name):
		return bench.NotExecuted(false, "backend %s has no %s (it has %s)", l.g.Backend(), algorithm, strings.Join(caps.Algorithms[dist.AllReduce], ", "))
	}
	return nil
}

// planned is how a call asks for an algorithm of the matrix.
func planned(algorithm string) (name string, codec *quant.Codec) {
	if c := codecOf(algorithm); c != nil {
		return "", c
	}
	return algorithm, nil
}

func has[T comparable](list []T, v T) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

func list[T fmt.Stringer](values []T) string {
	var names []string
	for _, v := range values {
		names = append(names, v.String())
	}
	return strings.Join(names, ", ")
}
