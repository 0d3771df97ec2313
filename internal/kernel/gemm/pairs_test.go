package gemm_test

import (
	"flag"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/proof"
)

// Flags of TestPairs, which measures providers against each other in one process. bench-gemm.sh does the same with
// kernbench itself, but needs many times as long because it fills and verifies the operands for every sample.
var (
	pairs     = flag.Int("pairs", 0, "interleaved `samples` of every provider; 0 does not measure")
	shapes    = flag.String("shapes", "512,1024,2048,4096", "MxNxK or edges of cubes")
	types     = flag.String("types", "bf16,i8,f32,f64", "element types")
	threads   = flag.String("threads", "1,2", "numbers of threads")
	providers = flag.String("providers", "builtin,onednn,onednn-packed,openblas", "the first is compared with the others")
	window    = flag.Duration("window", 20*time.Millisecond, "time of a sample, at least one product")
	huge      = flag.Bool("huge", false, "keep the matrices in huge pages")
	reads     = flag.Bool("reads", false, "also compare with reading B, with the same threads")
)

// contender is a provider of a comparison.
type contender struct {
	name    string
	run     func() error
	samples []float64 // nanoseconds of a product
	shares  []float64 // arithmetic in the time of a product, and of the probes around it: flops x ns of the probe
}

// TestPairs prints a table with the rates of the providers and the ratios of their times.
func TestPairs(t *testing.T) {
	if *pairs == 0 {
		t.Skip("measures only with -pairs")
	}
	fmt.Println("| shape | type | threads | provider | G/s | share of peak | times as fast as it | 95 % |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, n := range strings.Split(*threads, ",") {
		for _, name := range strings.Split(*types, ",") {
			for _, shape := range strings.Split(*shapes, ",") {
				comparePairs(t, shape, must.Get(dtype.Parse(name))(t), must.Get(strconv.Atoi(n))(t))
			}
		}
	}
}

func comparePairs(t *testing.T, shape string, d dtype.DType, threads int) {
	dims := strings.Split(shape, "x")
	if len(dims) == 1 {
		dims = []string{shape, shape, shape}
	}
	var size [3]int
	for i := range size {
		size[i] = must.Get(strconv.Atoi(dims[i]))(t)
	}
	m, n, k := size[0], size[1], size[2]
	a, b, c := gemm.NewHuge(d, m, k), gemm.NewHuge(d, k, n), gemm.NewHuge(gemm.Result(d), m, n)
	if !*huge {
		a, b, c = gemm.New(d, m, k), gemm.New(d, k, n), gemm.New(gemm.Result(d), m, n)
	}
	proof.Reals(a, 1)
	proof.Reals(b, 2)
	var all []*contender
	for _, name := range strings.Split(*providers, ",") {
		p := must.Get(gemm.Lookup(gemm.Host, name))(t)
		if !slices.Contains(p.Types(), d) {
			continue
		}
		e := must.Get(p.Open(threads))(t)
		defer e.Close()
		if keeper, ok := e.(gemm.Keeper); ok {
			must.Do(t, keeper.Keep(b))
		}
		proof.Spoil(c)
		must.Do(t, e.Multiply(c, a, b))
		must.Do(t, proof.Close(c, a, b, 50, 1))
		all = append(all, &contender{name: name, run: func() error { return e.Multiply(c, a, b) }})
		if read := gemm.Reader(e, b); *reads && read != nil {
			all = append(all, &contender{name: "reading B", run: read})
		}
	}
	peak := gemm.PeakOf(d)
	for range *pairs {
		for _, x := range all {
			x.sample(t, peak)
		}
	}
	flops := 2 * float64(m) * float64(n) * float64(k)
	for i, x := range all {
		ratio, interval := "", ""
		if i > 0 {
			var list []float64
			for s, ns := range x.samples {
				list = append(list, ns/all[0].samples[s])
			}
			slices.Sort(list)
			edge := max(0, int(float64(len(list))/2-0.98*math.Sqrt(float64(len(list))))) // binomial, approximately
			ratio = fmt.Sprintf("%.2f", median(list))
			interval = fmt.Sprintf("%.2f to %.2f", list[edge], list[len(list)-1-edge])
		}
		got := flops / median(slices.Sorted(slices.Values(x.samples)))
		share := flops / float64(threads) / peak.Flops * median(slices.Sorted(slices.Values(x.shares)))
		fmt.Printf("| %s | %v | %d | %s | %.0f | %.0f %% | %s | %s |\n", shape, d, threads, x.name, got, 100*share,
			ratio, interval)
	}
	if *reads {
		fmt.Printf("%s %v, %d threads: B is %.1f MB, so %s reads %.1f GB/s\n", shape, d, threads, float64(len(b.Data))/1e6,
			all[0].name, float64(len(b.Data))/median(slices.Sorted(slices.Values(all[0].samples))))
	}
}

// settling is how long the threads of another library may still occupy the cores after their last product.
const settling = 20 * time.Millisecond

// sample adds the median of the products in a window, after the threads of the previous provider have gone to sleep.
func (x *contender) sample(t *testing.T, peak gemm.Peak) {
	time.Sleep(settling)
	must.Do(t, x.run()) // wakes this provider's threads
	var list, shares []float64
	const rounds = 500 // about 10 us
	probe := func() float64 {
		began := time.Now()
		peak.Run(rounds)
		return float64(time.Since(began).Nanoseconds()) / rounds
	}
	before := probe()
	for start := time.Now(); len(list) == 0 || time.Since(start) < *window; {
		began := time.Now()
		must.Do(t, x.run())
		ns := float64(time.Since(began).Nanoseconds())
		after := probe()
		list, shares = append(list, ns), append(shares, (before+after)/2/ns)
		before = after
	}
	slices.Sort(list)
	slices.Sort(shares)
	x.samples, x.shares = append(x.samples, median(list)), append(x.shares, median(shares))
}

func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
