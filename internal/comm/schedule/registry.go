package schedule

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/registry"
	"github.com/kernbench/kernbench/internal/base/suggest"
)

// Info holds the properties that an algorithm declares. Other packages get lists of algorithms and their
// properties from here (Algorithms, Evaluated, Lookup). Tests compare Direct, Order and Wide with the steps.
type Info struct {
	Collective string
	Name       string
	Aliases    []string // names in the results of other programs
	Short      string   // name for narrow places such as bar labels; "" means Name
	Help       string   // one-line description

	Takes  []string // the optional fields of Params that it uses
	Direct bool     // needs memory that peers access directly

	// Order is the order in which the ranks' elements are added. Wide reports whether 16-bit floats are
	// accumulated in f32 and rounded once, instead of at every hop. Both determine the bits of the result.
	Order Order
	Wide  bool

	// There are two kinds of algorithms without Steps. A variant (Like is set) runs the algorithm Like on
	// encoded elements; Codec is the name of the encoding in package quant, which a call selects instead of an
	// algorithm. The other kind needs Hardware that a schedule cannot describe; Traffic returns the bytes that
	// its busiest rank moves.
	Like     string
	Codec    string
	Hardware string
	Traffic  func(ranks int, bytes float64) float64

	// Most is the largest size in bytes for which evaluations time the algorithm; 0 means any size.
	Most int64
	// Untimed is the reason why evaluations verify the algorithm without timing it; "" means that they time it.
	Untimed string
}

// Order is the order in which an algorithm adds the elements of the ranks.
type Order uint8

const (
	// OwnOrder is specific to the algorithm. It depends on the number of ranks, the count and the chunk.
	OwnOrder Order = iota
	// RankOrder starts with rank 0 and adds one rank after the other, for any count and chunk. All algorithms
	// with this order give the same bits.
	RankOrder
)

// Algorithm is the registration of an algorithm for a collective.
type Algorithm struct {
	Info
	// Shape fills in default parameters and rejects values that the algorithm does not support, such as a
	// number of ranks. It may be nil.
	Shape func(*Params) error
	// Scratch returns the length of a rank's scratch buffer; nil means 0.
	Scratch func(p Params, rank int) int
	// Steps is a pure function of the complete parameters. If it is nil, see Info.Like.
	Steps func(p Params, rank int) iter.Seq[Step]
}

// The optional fields of Params, by the names used in Takes.
const (
	takesRoot    = "Root"
	takesWidth   = "Width"
	takesGroup   = "GroupSize"
	takesChunk   = "ChunkElems"
	takesInPlace = "InPlace"
	takesBlocks  = "Blocks"
)

// algorithms holds a registry for each collective. The first algorithm of a collective is its default when no
// tuning table chooses. This package registers its own algorithms before any init function runs, so the default
// does not depend on the packages that a program imports.
var algorithms = byCollective(slices.Concat(allReduces, otherCollectives))

func byCollective(list []Algorithm) map[string]*registry.Registry[Algorithm] {
	m := map[string]*registry.Registry[Algorithm]{}
	for _, a := range list {
		if m[a.Collective] == nil {
			m[a.Collective] = registry.NewOrdered(a.Collective+" algorithm", func(a Algorithm) registry.Entry {
				return registry.Entry{Name: a.Name, Help: a.Help, Aliases: a.Aliases}
			})
		}
		m[a.Collective].Register(a)
	}
	return m
}

// Register adds an algorithm. It must be called during initialisation, before any
// schedule is built, and panics if the registration is wrong.
func Register(a Algorithm) {
	if err := a.valid(); err != nil {
		panic(fmt.Sprintf("schedule: registering %s %s: %v", a.Collective, a.Name, err))
	}
	algorithms[a.Collective].Register(a)
}

func (a Algorithm) valid() error {
	switch {
	case algorithms[a.Collective] == nil:
		return errors.New("no such collective")
	case a.Help == "":
		return errors.New("no help")
	case a.Steps == nil && a.Hardware == "" && a.Codec == "":
		return errors.New("no steps, and neither hardware nor a codec to do without")
	}
	return nil
}

// Collectives returns the names of the collectives, sorted.
func Collectives() []string { return slices.Sorted(maps.Keys(algorithms)) }

// Algorithms returns the algorithms of a collective that have steps, so that any backend can execute them, in
// order of registration. It returns none for an unknown collective.
func Algorithms(collective string) []Info {
	return infos(collective, func(a Algorithm) bool { return a.Steps != nil })
}

// Names returns the names of the algorithms of a collective.
func Names(collective string) []string {
	return lists.Map(Algorithms(collective), func(info Info) string { return info.Name })
}

// Evaluated returns the algorithms that an evaluation of the collective shows: first the ones with steps, then variants
// and the ones that need hardware.
func Evaluated(collective string) []Info {
	return append(Algorithms(collective), infos(collective, func(a Algorithm) bool { return a.Steps == nil })...)
}

func infos(collective string, keep func(Algorithm) bool) []Info {
	r := algorithms[collective]
	if r == nil {
		return nil
	}
	return lists.Map(lists.Filter(r.All(), keep), func(a Algorithm) Info { return a.Info })
}

// Lookup returns the properties of an algorithm by its name or an alias.
func Lookup(collective, name string) (Info, error) {
	a, err := lookup(collective, name)
	return a.Info, err
}

func lookup(collective, name string) (Algorithm, error) {
	r, ok := algorithms[collective]
	if !ok {
		return Algorithm{}, suggest.Unknown("collective", collective, Collectives())
	}
	return r.Lookup(name)
}

// Fits returns an error if the algorithm does not exist or does not support this number of ranks.
func Fits(collective, name string, ranks int) error {
	_, err := New(collective, name, Params{Ranks: ranks})
	return err
}

// resolveParams fills in the defaults of p, or returns an error that lists all invalid parameters.
func (a Algorithm) resolveParams(collective string, p *Params) error {
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
	if p.Blocks != nil {
		want, last := p.Ranks, len(p.Blocks.n)-1
		if collective == AllToAll {
			want *= p.Ranks
		}
		if last+1 != want || want > 0 && p.Blocks.off[last]+p.Blocks.n[last] != p.Count {
			refuse("Blocks are %v, want %d with %d elements in all", p.Blocks.n, want, p.Count)
		}
	}
	for _, f := range p.options() {
		switch {
		case f.value != 0 && !slices.Contains(a.Takes, f.name):
			refuse("%s is set, but this algorithm takes %s", f.name, takesText(a.Takes))
		case f.value < 0 && f.name != takesRoot:
			refuse("%s is %d, want 0 (the default) or more", f.name, f.value)
		}
	}
	if len(faults) == 0 && a.Shape != nil {
		if err := a.Shape(p); err != nil {
			return err
		}
	}
	return errors.Join(faults...)
}

// option is an optional field of Params with its value as an integer; 0 means not set.
type option struct {
	name  string
	value int
}

func (p Params) options() []option {
	inPlace, blocks := 0, 0
	if p.InPlace {
		inPlace = 1
	}
	if p.Blocks != nil {
		blocks = 1
	}
	return []option{{takesRoot, p.Root}, {takesWidth, p.Width}, {takesGroup, p.GroupSize},
		{takesChunk, p.ChunkElems}, {takesInPlace, inPlace}, {takesBlocks, blocks}}
}

func takesText(takes []string) string {
	if len(takes) == 0 {
		return "no options"
	}
	return "only " + strings.Join(takes, ", ")
}

// torusShape fills in Width, which must divide Ranks.
func torusShape(p *Params) error {
	if p.Width == 0 {
		p.Width = p.Ranks / nearlySquareDivisor(p.Ranks)
	}
	if p.Ranks%p.Width != 0 {
		return fmt.Errorf("%d ranks are no torus of width %d: Width must divide Ranks", p.Ranks, p.Width)
	}
	return nil
}

// groupShape fills in GroupSize, which must divide Ranks.
func groupShape(p *Params) error {
	if p.GroupSize == 0 {
		p.GroupSize = nearlySquareDivisor(p.Ranks)
	}
	if p.Ranks%p.GroupSize != 0 {
		return fmt.Errorf("%d ranks cannot be cut into groups of %d: GroupSize must divide Ranks", p.Ranks, p.GroupSize)
	}
	return nil
}

// nearlySquareDivisor returns the largest divisor of n that is not above its square root.
func nearlySquareDivisor(n int) int {
	best := 1
	for d := 1; d*d <= n; d++ {
		if n%d == 0 {
			best = d
		}
	}
	return best
}
