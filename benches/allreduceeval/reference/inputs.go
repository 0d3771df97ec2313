package reference

import (
	"math"
	"sync"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/verify"
)

// A kind of input is a pure function of rank and position.
const (
	Exact       = "exact"       // small integers: no order of additions rounds
	Adversarial = "adversarial" // a family in every block of 32 positions
	Mixed       = "mixed"       // magnitudes so different that every order of additions rounds in its own way
)

// The families of the adversarial input.
const (
	ordinary     = "mixed magnitudes"
	cancellation = "cancellation"
	signedZeros  = "signed zeros"
	notNumbers   = "NaN"
	infinities   = "infinities"
	denormals    = "denormals"
	largest      = "largest magnitudes"
)

// families in the order in which the blocks have them.
var families = []string{ordinary, cancellation, signedZeros, notNumbers, infinities, denormals, largest}

// Families are the positions at which the adversarial input has each family for
// the first time.
func Families() (first []int) {
	for f := range families {
		first = append(first, f*familyBlock)
	}
	return first
}

// familyBlock is as long as a group of the quantised all-reduce, so that a NaN
// spoils no other family there.
const familyBlock = 32

// adversarialPeriod is after how many positions the adversarial input repeats
// itself, so that its references need not be computed but for one period. That
// elements are in their place is for the exact input to show.
var adversarialPeriod = familyBlock * len(families) * 17

// familyAt is the family of a position.
func familyAt(position int) string { return families[position/familyBlock%len(families)] }

// Inputs are all ranks' vectors of one kind, type and seed.
type Inputs struct {
	kind  string
	d     dist.DType
	ranks int
	seed  uint64
	exact verify.Inputs
}

func NewInputs(kind string, d dist.DType, ranks int, seed uint64) Inputs {
	return Inputs{kind, d, ranks, seed, verify.NewInputs(seed, d, dist.Sum, ranks)}
}

// Kind is what they are for.
func (in Inputs) Kind() string { return in.kind }

// fill writes the numbers of a rank from a position on. All are values of the
// type.
func (in Inputs) fill(to []float64, rank, first int) {
	if in.kind == Exact {
		in.sums(to, first, rank, rank+1)
		return
	}
	if in.kind == Mixed {
		for i := range to {
			to[i] = mixed(verify.Hash(in.seed, rank, first+i))
		}
		in.d.Round(to)
		return
	}
	period := in.period(rank)
	n := copy(to, period[first%adversarialPeriod:])
	for n < len(to) {
		n += copy(to[n:], period)
	}
}

// periods are the adversarial inputs that were made so far: of few kinds, and
// each is asked for at every size.
var periods sync.Map

// period is a rank's adversarial input until it repeats itself.
func (in Inputs) period(rank int) []float64 {
	type key struct {
		d           dist.DType
		ranks, rank int
		seed        uint64
	}
	k := key{in.d, in.ranks, rank, in.seed}
	if made, ok := periods.Load(k); ok {
		return made.([]float64)
	}
	one := make([]float64, adversarialPeriod)
	for at := 0; at < len(one); at += familyBlock {
		in.family(one[at:at+familyBlock], familyAt(at), rank, at)
	}
	in.d.Round(one)
	periods.Store(k, one)
	return one
}

// sums writes what the exact inputs of the ranks [from, to) add up to. Integers
// are added, which no order rounds.
func (in Inputs) sums(dst []float64, first, from, to int) {
	var chunk [256]int64
	for off := 0; off < len(dst); off += len(chunk) {
		part := dst[off:min(len(dst), off+len(chunk))]
		sums := chunk[:len(part)]
		clear(sums)
		for rank := from; rank < to; rank++ {
			in.exact.AddTo(sums, rank, first+off)
		}
		for i, s := range sums {
			part[i] = float64(s)
		}
	}
}

// family writes numbers of one family. Those of integers are whole.
func (in Inputs) family(to []float64, family string, rank, first int) {
	for i := range to {
		p := first + i
		// What all ranks draw alike, and what each draws for itself.
		common, own := verify.Hash(in.seed^0xc0ffee, 0, p), verify.Hash(in.seed, rank, p)
		v := mixed(own)
		if !in.d.Float() {
			v = float64(int64(own%4001) - 2000)
			if family == largest {
				v = math.MaxInt32 - float64(own%3) // wraps around
			}
			to[i] = v
			continue
		}
		n := numbersOf(in.d)
		special := int(common % uint64(in.ranks)) // the rank with something particular
		switch family {
		case cancellation: // ranks come in pairs that leave only a little of each other
			pair := mixed(verify.Hash(in.seed, rank/2, p)) * 64
			if v = pair; rank%2 == 1 {
				v = -pair + (float64(own%64)-32)/256
			}
		case signedZeros: // a quarter of the positions has -0 from everyone, which gives -0
			v = 0
			if common%4 == 0 || own%2 == 0 {
				v = math.Copysign(0, -1)
			}
		case notNumbers: // every third position, from one rank
			if rank == special && p%3 == 0 {
				v = math.NaN()
			}
		case infinities: // from one rank, and at some positions the opposite from another
			if rank == special {
				v = math.Inf(1 - int(common>>32&2))
			} else if p%5 == 0 && rank == (special+1)%in.ranks {
				v = math.Inf(int(common>>32&2) - 1)
			}
		case denormals: // sums of few of the smallest are exact in any order, unless flushed
			v = n.smallest * (float64(own%61) - 30)
		case largest: // whether it overflows on the way depends on the order
			if v = n.largest; own%2 == 0 {
				v = -v
			}
			if own%8 == 7 {
				v /= 4
			}
		}
		to[i] = v
	}
}

// mixed is a number between -2048 and 2048 times 2^-6 to 2^5, with as many digits
// as a float64 has: whatever the type, sums of it round.
func mixed(h uint64) float64 { return float64(int64(h)) * 0x1p-52 * scales[h%12] }

var scales = [12]float64{0x1p-6, 0x1p-5, 0x1p-4, 0x1p-3, 0x1p-2, 0x1p-1, 1, 2, 4, 8, 16, 32}

// repeat repeats the first elements over the rest.
func repeat[E any](to []E, period int) {
	if period == 0 {
		return
	}
	for n := period; n < len(to); n *= 2 {
		copy(to[n:], to[:n])
	}
}
