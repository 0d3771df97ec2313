package schedule

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Info describes an algorithm to a person choosing one.
type Info struct {
	Name   string
	Help   string
	Needs  string   // what it demands of the parameters; "" is nothing
	Takes  []string // the optional fields of Params it uses
	Direct bool     // needs memory that peers reach directly
}

// algorithm is an entry of the registry.
type algorithm struct {
	Info
	shape   func(*Params) error          // fills in defaults; nil: nothing to decide
	scratch func(p Params, rank int) int // nil: none
	steps   func(e *emitter)
}

// The optional fields of Params, by the names used in Takes.
const (
	takesRoot    = "Root"
	takesWidth   = "Width"
	takesHeight  = "Height"
	takesGroup   = "GroupSize"
	takesChunk   = "ChunkElems"
	takesInPlace = "InPlace"
)

var registry = map[string][]algorithm{
	AllReduce: {
		{Info: Info{Name: "naive", Help: "everyone sends to rank 0, which adds up and sends the sum back",
			Takes: []string{takesChunk, takesInPlace}}, steps: naive},
		{Info: Info{Name: "one-stage", Help: "every rank reads all inputs and adds everything itself: fewest hops", Direct: true,
			Takes: []string{takesChunk, takesInPlace}}, steps: oneStage, scratch: oneStageScratch},
		{Info: Info{Name: "two-stage", Help: "every rank adds its part from all inputs, then reads the other parts: least traffic in few hops", Direct: true,
			Takes: []string{takesChunk, takesInPlace}}, steps: twoStage},
		{Info: Info{Name: "ring", Help: "reduce-scatter then all-gather between neighbours: least traffic over links",
			Takes: []string{takesChunk, takesInPlace}}, steps: ring},
		{Info: Info{Name: "recursive-doubling", Help: "whole vectors exchanged at distances 1, 2, 4...: fewest messages",
			Takes: []string{takesChunk, takesInPlace}}, steps: recursiveDoubling, scratch: pieceScratch},
		{Info: Info{Name: "halving-doubling", Help: "reduce-scatter by halves, all-gather by doubling: few messages and least traffic",
			Takes: []string{takesChunk, takesInPlace}}, steps: halvingDoubling},
		{Info: Info{Name: "tree", Help: "reduce up a binary tree and broadcast down; pieces are pipelined",
			Takes: []string{takesChunk, takesInPlace}}, steps: tree},
		{Info: Info{Name: "torus", Help: "rings along rows, then along columns, then back along rows", Needs: "Width * Height = Ranks",
			Takes: []string{takesWidth, takesHeight, takesChunk, takesInPlace}}, shape: torusShape, steps: torus},
		{Info: Info{Name: "hierarchical", Help: "two-stage within groups, halving-doubling between them", Needs: "GroupSize divides Ranks", Direct: true,
			Takes: []string{takesGroup, takesChunk, takesInPlace}}, shape: groupShape, steps: hierarchical},
	},
	ReduceScatter: {
		{Info: Info{Name: "ring", Help: "partial sums travel once round the ring", Takes: []string{takesInPlace}},
			steps: ringReduceScatter, scratch: ringReduceScatterScratch},
		{Info: Info{Name: "direct", Help: "every rank adds its block from all inputs", Direct: true, Takes: []string{takesInPlace}},
			steps: directReduceScatter},
	},
	AllGather: {
		{Info: Info{Name: "ring", Help: "blocks travel once round the ring", Takes: []string{takesInPlace}}, steps: ringAllGather},
		{Info: Info{Name: "direct", Help: "every rank reads all blocks", Direct: true, Takes: []string{takesInPlace}}, steps: directAllGather},
	},
	Broadcast: {
		{Info: Info{Name: "tree", Help: "down a binary tree; pieces are pipelined",
			Takes: []string{takesRoot, takesChunk, takesInPlace}}, steps: treeBroadcast},
		{Info: Info{Name: "direct", Help: "every rank reads the root's input", Direct: true,
			Takes: []string{takesRoot, takesInPlace}}, steps: directBroadcast},
	},
	ReduceTo: {
		{Info: Info{Name: "tree", Help: "up a binary tree; pieces are pipelined",
			Takes: []string{takesRoot, takesChunk, takesInPlace}}, steps: treeReduce, scratch: treeReduceScratch},
		{Info: Info{Name: "direct", Help: "every rank adds its part from all inputs and puts it at the root", Direct: true,
			Takes: []string{takesRoot, takesInPlace}}, steps: directReduce, scratch: directReduceScratch},
	},
	Gather: {
		{Info: Info{Name: "linear", Help: "every rank sends its block to the root", Takes: []string{takesRoot, takesInPlace}}, steps: linearGather},
		{Info: Info{Name: "direct", Help: "every rank puts its block at the root", Direct: true,
			Takes: []string{takesRoot, takesInPlace}}, steps: directGather},
	},
	Scatter: {
		{Info: Info{Name: "linear", Help: "the root sends every rank its block", Takes: []string{takesRoot, takesInPlace}}, steps: linearScatter},
		{Info: Info{Name: "direct", Help: "every rank reads its block from the root", Direct: true,
			Takes: []string{takesRoot, takesInPlace}}, steps: directScatter},
	},
	AllToAll: {
		{Info: Info{Name: "pairwise", Help: "in round k, send to the k-th rank after and receive from the k-th before"}, steps: pairwise},
		{Info: Info{Name: "direct", Help: "every rank reads its block of every input", Direct: true}, steps: directAllToAll},
	},
	Barrier: {
		{Info: Info{Name: "dissemination", Help: "flags at distances 1, 2, 4...: few flags in log2 hops"}, steps: dissemination},
		{Info: Info{Name: "direct", Help: "a flag to everyone, then wait for everyone's: one hop"}, steps: directBarrier},
	},
}

// Collectives lists the collectives there are, sorted.
func Collectives() []string { return slices.Sorted(maps.Keys(registry)) }

// Algorithms lists the algorithms of a collective, none for an unknown one.
func Algorithms(collective string) []Info {
	var infos []Info
	for _, a := range registry[collective] {
		info := a.Info
		info.Takes = slices.Clone(info.Takes)
		infos = append(infos, info)
	}
	return infos
}

// settle refuses parameters that make no sense and fills in defaults. It
// names all faults at once.
func (a algorithm) settle(collective string, p *Params) error {
	var faults []error
	refuse := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if p.Ranks < 1 {
		refuse("Ranks is %d, want at least 1", p.Ranks)
	}
	if p.Count < 0 {
		refuse("Count is %d, want 0 or more", p.Count)
	}
	if collective == Barrier && p.Count != 0 {
		refuse("Count is %d, but a barrier moves no elements: want 0", p.Count)
	}
	if slices.Contains(a.Takes, takesRoot) && (p.Root < 0 || p.Root >= max(p.Ranks, 1)) {
		refuse("Root is %d, want a rank from 0 to %d", p.Root, p.Ranks-1)
	}
	for _, f := range p.options() {
		switch {
		case f.value != 0 && !slices.Contains(a.Takes, f.name):
			refuse("%s is set, but this algorithm takes %s", f.name, takesText(a.Takes))
		case f.value < 0 && f.name != takesRoot:
			refuse("%s is %d, want 0 (the default) or more", f.name, f.value)
		}
	}
	if len(faults) == 0 && a.shape != nil {
		if err := a.shape(p); err != nil {
			return err
		}
	}
	return errors.Join(faults...)
}

// option is one of the optional fields of Params.
type option struct {
	name  string
	value int
}

func (p Params) options() []option {
	inPlace := 0
	if p.InPlace {
		inPlace = 1
	}
	return []option{{takesRoot, p.Root}, {takesWidth, p.Width}, {takesHeight, p.Height},
		{takesGroup, p.GroupSize}, {takesChunk, p.ChunkElems}, {takesInPlace, inPlace}}
}

func takesText(takes []string) string {
	if len(takes) == 0 {
		return "no options"
	}
	return "only " + strings.Join(takes, ", ")
}

// torusShape completes Width and Height, from one of them if it is given.
func torusShape(p *Params) error {
	switch {
	case p.Width == 0 && p.Height == 0:
		p.Height = squarest(p.Ranks)
		p.Width = p.Ranks / p.Height
	case p.Width == 0:
		p.Width = p.Ranks / p.Height
	case p.Height == 0:
		p.Height = p.Ranks / p.Width
	}
	if p.Width*p.Height != p.Ranks {
		return fmt.Errorf("a torus of %d x %d has %d ranks, but Ranks is %d", p.Width, p.Height, p.Width*p.Height, p.Ranks)
	}
	return nil
}

func groupShape(p *Params) error {
	if p.GroupSize == 0 {
		p.GroupSize = squarest(p.Ranks)
	}
	if p.Ranks%p.GroupSize != 0 {
		return fmt.Errorf("%d ranks cannot be cut into groups of %d: GroupSize must divide Ranks", p.Ranks, p.GroupSize)
	}
	return nil
}

// squarest is the largest divisor of n that is not above its square root.
func squarest(n int) int {
	best := 1
	for d := 1; d*d <= n; d++ {
		if n%d == 0 {
			best = d
		}
	}
	return best
}
