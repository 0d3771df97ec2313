package topo

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/suggest"
)

// shortKinds are the kinds as they may be written after a size.
var shortKinds = map[string]Kind{"ring": Ring, "torus": Torus, "mesh": Mesh,
	string(Ring): Ring, string(Torus): Torus, string(Mesh): Mesh}

// ParseArrangement reads who is whose neighbour: a kind, or a size and a kind, as in 4x4:torus
// and 8:ring. The grid is empty where there is no size.
func ParseArrangement(text string) (Kind, Grid, error) {
	size, word, sized := strings.Cut(text, ":")
	if !sized {
		size, word = "", text
	}
	kind, known := shortKinds[word]
	if !known {
		return "", Grid{}, fmt.Errorf("SIPs %q: %w; a size stands before the kind, as in 4x4:torus", text,
			suggest.Unknown("SIP topology", word, Kinds()))
	}
	if !sized {
		return kind, Grid{}, nil
	}
	g, err := ParseGrid(size)
	if err == nil && (g.W < 1 || g.H < 1) { // an empty grid stands for that of the file
		err = errors.New("it is empty")
	}
	if err == nil && !strings.Contains(size, "x") && kind != Ring {
		err = errors.New("it has no height")
	}
	if err != nil {
		return kind, g, fmt.Errorf("SIPs %q: want WIDTHxHEIGHT:torus, WIDTHxHEIGHT:mesh or COUNT:ring", text)
	}
	return kind, g, nil
}

// ParseGrid reads 4x4, or a number for a row.
func ParseGrid(text string) (g Grid, err error) {
	g.H = 1
	w, h, two := strings.Cut(text, "x")
	if g.W, err = strconv.Atoi(w); err == nil && two {
		g.H, err = strconv.Atoi(h)
	}
	return g, err
}

// Arrange is a copy with the SIPs that a text names (see ParseArrangement): a kind alone has as many
// as there are, in the grid that there is.
func (t *Topology) Arrange(text string) (*Topology, error) {
	kind, g, err := ParseArrangement(text)
	if err != nil {
		return nil, err
	}
	if g == (Grid{}) {
		g = t.SIPs.as(kind)
	}
	return t.WithSIPs(kind, g.W, g.H)
}

// as arranges as many SIPs as another kind.
func (s SIPs) as(kind Kind) Grid {
	if kind == Ring {
		return Grid{W: s.Count, H: 1}
	}
	if s.Kind != Ring {
		return s.Grid
	}
	w := 1 // the squarest that has as many
	for i := 1; i*i <= s.Count; i++ {
		if s.Count%i == 0 {
			w = i
		}
	}
	return Grid{W: w, H: s.Count / w}
}
