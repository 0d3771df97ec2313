package schedule

import (
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Sum is a node of the tree of additions that produces some elements of an output: either the input of one rank or a
// sum of other nodes.
type Sum struct {
	Rank  int    // whose input this is, if there are no terms
	Terms []*Sum // in the order of the additions
	Wide  bool   // the terms are added in a wider type and rounded once
}

// plus returns the sum of s and a term. If it is wide, s is too, and the term becomes another one of its terms. The
// result is nil if sums are not traced, so that the term is nil.
func (s *Sum) plus(term *Sum, wide bool) *Sum {
	switch {
	case term == nil:
		return nil
	case wide:
		return &Sum{Terms: append(slices.Clip(s.Terms), term), Wide: true}
	}
	return &Sum{Terms: []*Sum{s, term}}
}

// SumRange is a range of elements of the output that have the same tree of additions.
type SumRange struct {
	Off, N int
	Sum    *Sum
}

// Sums checks a schedule as Check does, and returns the additions that produce the output of rank 0, in the order of
// its elements.
func Sums(s Schedule) ([]SumRange, error) {
	parts := newSets(s.Ranks(), true)
	v := newChecker(s, parts)
	if err := v.run(); err != nil {
		return nil, err
	}
	length := s.Params().Len(s.Collective(), Output, 0)
	m, off := v.locate(0, Range{Output, 0, length})
	pieces, err := v.all.load(m, nil, off, length)
	return lists.Map(pieces, func(p piece) SumRange { return SumRange{p.off, p.n, parts.list[p.sum].order} }), err
}
