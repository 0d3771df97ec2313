package reference

import (
	"math"
	"sync"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/verify"
)

// The kinds of inputs. Each is a pure function of rank and position.
const (
	Exact       = "exact"       // integers, for which no order of additions rounds
	Adversarial = "adversarial" // each block of 32 positions belongs to a family
	Mixed       = "mixed"       // magnitudes so different that every order of additions rounds differently
)

// The families of the adversarial inputs. docs/correctness.md lists the bugs that each of them finds.
const (
	mixedMagnitudes = "mixed magnitudes"
	cancellation    = "cancellation"
	signedZeros     = "signed zeros"
	nans            = "NaN"
	infinities      = "infinities"
	denormals       = "denormals"
	largest         = "largest magnitudes"
)

// families lists the families in the order of their blocks.
var families = []string{mixedMagnitudes, cancellation, signedZeros, nans, infinities, denormals, largest}

// FamilyStarts returns the first position of each family.
func FamilyStarts() (first []int) {
	for f := range families {
		first = append(first, f*familyBlock)
	}
	return first
}

// familyBlock is the length of a quantised group, so that a NaN does not make the elements of another
// family NaN.
const familyBlock = 32

// adversarialPeriod is the number of positions after which the adversarial inputs repeat, which limits
// the cost of their references to one period. Misplaced elements are detected by the exact inputs.
var adversarialPeriod = familyBlock * len(families) * 17

// familyAt returns the family of a position.
func familyAt(position int) string { return families[position/familyBlock%len(families)] }

// Inputs are the vectors of all ranks, for one kind, element type and seed. The vectors are endless; a
// Window selects a part.
type Inputs struct {
	kind  string
	d     dist.DType
	ranks int
	seed  uint64
	exact verify.Inputs
}

// NewInputs returns the inputs of one kind for a sum over that many ranks.
func NewInputs(kind string, d dist.DType, ranks int, seed uint64) Inputs {
	return Inputs{kind, d, ranks, seed, verify.NewInputs(seed, d, dist.Sum, ranks)}
}

// Kind returns Exact, Adversarial or Mixed.
func (in Inputs) Kind() string { return in.kind }

// fill writes a rank's inputs from position first on. All are values of the element type.
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

// periods caches the adversarial inputs. There are few, and every size uses them.
var periods sync.Map

// period returns one period of a rank's adversarial inputs.
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
	for first := 0; first < len(one); first += familyBlock {
		in.family(one[first:first+familyBlock], familyAt(first), rank, first)
	}
	in.d.Round(one)
	periods.Store(k, one)
	return one
}

// sums writes the sums of the exact inputs of ranks [from, to), computed on integers.
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

// family writes the inputs of one family. For integer types all families but the largest magnitudes
// have ordinary values.
func (in Inputs) family(to []float64, family string, rank, first int) {
	for i := range to {
		p := first + i
		// common is the same on all ranks, own differs from rank to rank.
		common, own := verify.Hash(in.seed^0xc0ffee, 0, p), verify.Hash(in.seed, rank, p)
		v := mixed(own)
		if !in.d.Float() {
			v = float64(int64(own%4001) - 2000)
			if family == largest {
				v = math.MaxInt32 - float64(own%3) // the sum wraps around
			}
			to[i] = v
			continue
		}
		n := limitsOf(in.d)
		special := int(common % uint64(in.ranks)) // the rank that gets the special value
		switch family {
		case cancellation: // ranks form pairs whose sum is tiny
			pair := mixed(verify.Hash(in.seed, rank/2, p)) * 64
			if v = pair; rank%2 == 1 {
				v = -pair + (float64(own%64)-32)/256
			}
		case signedZeros: // a quarter of the positions has -0 on all ranks, which must give -0
			v = 0
			if common%4 == 0 || own%2 == 0 {
				v = math.Copysign(0, -1)
			}
		case nans: // every third position, on one rank
			if rank == special && p%3 == 0 {
				v = math.NaN()
			}
		case infinities: // on one rank, and at some positions the opposite infinity on another
			if rank == special {
				v = math.Inf(1 - int(common>>32&2))
			} else if p%5 == 0 && rank == (special+1)%in.ranks {
				v = math.Inf(int(common>>32&2) - 1)
			}
		case denormals: // small multiples of the smallest number: their sums are exact unless flushed to zero
			v = n.smallest * (float64(own%61) - 30)
		case largest: // the order decides whether a partial sum overflows
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

// mixed returns a number between -2048 and 2048, scaled by 2^-6 to 2^5. It has the full mantissa of a
// float64, so sums of such numbers round in every type.
func mixed(h uint64) float64 { return float64(int64(h)) * 0x1p-52 * scales[h%12] }

var scales = [12]float64{0x1p-6, 0x1p-5, 0x1p-4, 0x1p-3, 0x1p-2, 0x1p-1, 1, 2, 4, 8, 16, 32}

// repeat copies the first period elements over the rest of the slice.
func repeat[E any](to []E, period int) {
	if period == 0 {
		return
	}
	for n := period; n < len(to); n *= 2 {
		copy(to[n:], to[:n])
	}
}
