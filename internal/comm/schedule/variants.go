package schedule

import "slices"

// Variants returns the parameters with which tests exercise an algorithm: no options, each option that
// it takes alone (every shape, another root, in place, in pieces, uneven blocks), and all options together. It returns
// none if the algorithm does not support this number of ranks.
func Variants(info Info, ranks, count int) []Params {
	if Fits(info.Collective, info.Name, ranks) != nil || info.Collective == Barrier && count > 0 {
		return nil // New rejects it
	}
	plain := Params{Ranks: ranks, Count: count}
	together := plain
	variants := []Params{plain}
	vary := func(option string, apply func(*Params)) {
		if slices.Contains(info.Takes, option) {
			variant := plain
			apply(&variant)
			apply(&together)
			variants = append(variants, variant)
		}
	}
	for d := 1; d <= ranks; d++ {
		if ranks%d == 0 {
			vary(takesGroup, func(p *Params) { p.GroupSize = d })
			vary(takesWidth, func(p *Params) { p.Width = d })
		}
	}
	together.GroupSize, together.Width = 0, 0
	vary(takesRoot, func(p *Params) { p.Root = ranks * 2 / 3 })
	vary(takesInPlace, func(p *Params) { p.InPlace = true })
	vary(takesChunk, func(p *Params) { p.ChunkElems = count/2 + 1 })
	vary(takesBlocks, func(p *Params) { p.Blocks = uneven(info.Collective, ranks, count) })
	return append(variants, together)
}

// uneven divides a vector into uneven blocks. Every second block also gets the elements of the previous one,
// which becomes empty. If there are only two blocks, it gets half of them, so that both have data.
func uneven(collective string, ranks, count int) *Blocks {
	if collective == AllToAll {
		ranks *= ranks
	}
	counts := make([]int, ranks)
	for i := range counts {
		_, counts[i] = Split(count, ranks, i)
		if i%2 == 1 {
			moved := counts[i-1]
			if ranks == 2 {
				moved /= 2
			}
			counts[i-1], counts[i] = counts[i-1]-moved, counts[i]+moved
		}
	}
	return NewBlocks(counts)
}
