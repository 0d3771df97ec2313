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
	reads     = flag.Bool("reads", false, "also compare with reading B, with the same threads")
)

// contender is a provider of a comparison.
type contender struct {
	name    string
	run     func() error
	samples []float64    // nanoseconds of a product
	shares  [2][]float64 // of the arithmetic alone, and of a loop over tiles in the first-level cache
}

// TestPairs prints a table with the rates of the providers and the ratios of their times.
func TestPairs(t *testing.T) {
	if *pairs == 0 {
		t.Skip("measures only with -pairs")
	}
	fmt.Println("| shape | type | threads | provider | G/s | of peak | of tiles in L1 | times as fast as it | 95 % |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
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
	a, b, c := gemm.New(d, m, k), gemm.New(d, k, n), gemm.New(gemm.Result(d), m, n)
	must.Do(t, proof.Reals(a, b, 1))
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
	flops := 2 * float64(m) * float64(n) * float64(k)
	for range *pairs {
		for _, x := range all {
			x.sample(t, flops/float64(threads), gemm.PeakOf(d), gemm.TilesOf(d))
		}
	}
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
		fmt.Printf("| %s | %v | %d | %s | %.0f | %s | %s | %s | %s |\n", shape, d, threads, x.name, got,
			percent(x.shares[0]), percent(x.shares[1]), ratio, interval)
	}
	if *reads {
		fmt.Printf("%s %v, %d threads: B is %.1f MB, so %s reads %.1f GB/s\n", shape, d, threads, float64(len(b.Data))/1e6,
			all[0].name, float64(len(b.Data))/median(slices.Sorted(slices.Values(all[0].samples))))
	}
}

// probeFlops is the work of a probe: about 25 µs with tile registers.
const probeFlops = 6e7

// settling is how long the threads of another library may still occupy the cores after their last product. OpenBLAS
// waits for 2^26 cycles.
const settling = 50 * time.Millisecond

func percent(shares []float64) string {
	return fmt.Sprintf("%.0f %%", 100*median(slices.Sorted(slices.Values(shares))))
}

// sample adds the median of the products in a window, after the threads of the previous provider have gone to sleep.
// The probes of the arithmetic run before and after the window on the same thread, because the rate of a core may
// change several times in a second. They do not run between products, because the other threads would fall asleep.
func (x *contender) sample(t *testing.T, flops float64, probes ...gemm.Peak) {
	time.Sleep(settling)
	must.Do(t, x.run())
	var list []float64
	probe := func() (rates [2]float64) {
		for i, p := range probes {
			rounds := int(probeFlops/p.Flops) + 1
			p.Run(rounds/8 + 1) // brings its operands into the cache
			began := time.Now()
			p.Run(rounds)
			rates[i] = p.Flops * float64(rounds) / float64(time.Since(began).Nanoseconds())
		}
		return rates
	}
	before := probe()
	must.Do(t, x.run()) // wakes this provider's threads
	for start := time.Now(); len(list) == 0 || time.Since(start) < *window; {
		began := time.Now()
		must.Do(t, x.run())
		list = append(list, float64(time.Since(began).Nanoseconds()))
	}
	after := probe()
	slices.Sort(list)
	ns := median(list)
	x.samples = append(x.samples, ns)
	for i := range x.shares {
		x.shares[i] = append(x.shares[i], flops/ns/((before[i]+after[i])/2))
	}
}

func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
