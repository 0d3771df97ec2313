package cpu

import "github.com/kernbench/kernbench/dist"

func init() { dist.RegisterCodec(halved{}) }

// halved sends every element as a bf16, rounded to nearest: half the bytes of an f32.
type halved struct{}

func (halved) Name() string { return "bf16" }
func (halved) Help() string { return "every element rounded to bf16" }

// Group returns 1: elements are encoded one by one.
func (halved) Group() int { return 1 }

func (halved) Size(_ dist.DType, n int) int { return n * dist.BF16.Size() }

func (halved) Encode(dst, src []byte, d dist.DType) {
	for i := range len(src) / d.Size() {
		dist.BF16.Put(dst, i, d.Get(src, i))
	}
}

// DecodeReduce combines the sources element by element. Averages are reduced as sums: package dist
// divides afterwards.
func (halved) DecodeReduce(dst []byte, srcs [][]byte, d dist.DType, r dist.Reduction) {
	for i := range len(dst) / d.Size() {
		sum := dist.BF16.Get(srcs[0], i)
		for _, src := range srcs[1:] {
			switch x := dist.BF16.Get(src, i); r {
			case dist.Prod:
				sum *= x
			case dist.Min:
				sum = min(sum, x)
			case dist.Max:
				sum = max(sum, x)
			default:
				sum += x
			}
		}
		d.Put(dst, i, sum)
	}
}
