package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	_ "github.com/kernbench/kernbench/dist/cpu"  // its limits come from memory
	_ "github.com/kernbench/kernbench/dist/cuda" // its data is on devices

	"github.com/kernbench/kernbench/internal/result/dataset"
)

// kinds returns the distinct kinds of the warnings, with notes marked.
func kinds(ws []Warning) (out []string) {
	for _, w := range ws {
		k := w.Kind
		if w.Note {
			k += " (note)"
		}
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}

// clean returns a sweep as a healthy machine would measure it: algorithms with their own latency and
// traffic, several rank counts and element types, noise and limits.
func clean(rnd *rand.Rand) []Sample {
	var out []Sample
	noise := 0.02 * rnd.Float64()
	link := 50 + 400*rnd.Float64()
	hop := 1 + 5*rnd.Float64()
	for _, ranks := range []int{2, 4, 8} {
		for i, algorithm := range []string{"one-stage", "two-stage", "ring", "tree"} {
			for _, d := range []string{"bf16", "f32"} {
				for _, inPlace := range []bool{false, true} {
					s := series(algorithm, ranks)
					s.DType, s.InPlace = d, inPlace
					for _, b := range powers(10, 28) {
						moved, _ := Traffic(algorithm, ranks, b)
						limit := float64(moved) / link / 1e3
						latency := hop * (2 + float64(i)*float64(ranks))
						t := (latency + limit*1.3) * (1 + noise*rnd.NormFloat64())
						half := 0.5 * noise * t
						out = append(out, Sample{Series: s, Bytes: b, TimeUS: t, LowUS: t - half, HighUS: t + half, Samples: 50,
							Traffic: moved,
							Limits:  map[string]float64{"bandwidth": limit}, Utilisation: 100 * limit / t, UtilisationOf: "bandwidth",
							Kind: "measured", Rows: numbered(len(out))})
					}
				}
			}
		}
	}
	return out
}

// Clean data causes no warning under any seed. Notes about equal element types are correct.
func TestCheckIsSilentOnCleanData(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		for _, w := range Check(clean(rand.New(rand.NewPCG(seed, 7)))) {
			if !w.Note {
				t.Fatalf("seed %d: %s: %s", seed, w.Kind, w.Text)
			}
		}
	}
}

// Published times of real libraries are clean too, although they change protocols.
func TestCheckIsSilentOnPublishedCurves(t *testing.T) {
	for _, name := range CurveNames() {
		curve, _ := NamedCurve(name)
		link, _ := Ceilings("nvlink-h100")
		var samples []Sample
		for ranks, points := range curve.Ranks {
			for _, p := range points {
				s := Sample{Series: series(name, ranks), Bytes: p.Bytes, TimeUS: p.US, Limits: map[string]float64{}}
				for _, c := range link {
					s.Limits[c.Name] = c.US(LeastTraffic(ranks, p.Bytes))
				}
				samples = append(samples, s)
			}
		}
		want := []string(nil)
		if name == "staged-h100" {
			want = []string{FarBelow + " (note)", KnownFaster + " (note)"} // 3.1 GB/s on NVLink
		}
		if got := kinds(Check(samples)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v: %v", name, got, want, Check(samples))
		}
	}
}

// Each planted anomaly is found under every seed, with its kind and its rows.
func TestCheckCatchesPlanted(t *testing.T) {
	seeds := uint64(30)
	if testing.Short() {
		seeds = 4
	}
	for _, c := range []struct {
		kind  string
		plant func(s []Sample) (all []Sample, at int)
	}{
		{AboveLimit, func(s []Sample) ([]Sample, int) {
			s[40].TimeUS = s[40].Limits["bandwidth"] * 0.7
			s[40].LowUS, s[40].HighUS = s[40].TimeUS, s[40].TimeUS
			return s, 40
		}},
		{Identical, func(s []Sample) ([]Sample, int) { // a flag without effect
			at := len(s)
			for _, old := range slices.Clone(s) {
				if old.Algorithm == "ring" && old.Ranks == 4 {
					old.Algorithm, old.Rows = "multimem", numbered(len(s))
					old.TimeUS *= 1 + 0.2*old.noise()
					s = append(s, old)
				}
			}
			return s, at
		}},
		{NoCeiling, func(s []Sample) ([]Sample, int) { s[3].UtilisationOf = ""; return s, 3 }},
		{FallingRate, func(s []Sample) ([]Sample, int) { // at 8 ranks, an unmodelled resource is shared
			at := -1
			for i := range s {
				if s[i].Ranks == 8 && s[i].Algorithm == "two-stage" {
					s[i].TimeUS, s[i].LowUS, s[i].HighUS = s[i].TimeUS*1.8, s[i].LowUS*1.8, s[i].HighUS*1.8
					at = i
				}
			}
			return s, at
		}},
	} {
		for seed := range seeds {
			samples, at := c.plant(clean(rand.New(rand.NewPCG(seed, 9))))
			warnings := Check(samples)
			found := slices.IndexFunc(warnings, func(w Warning) bool {
				return w.Kind == c.kind && !w.Note && slices.Contains(numbersOf(w.Rows), at)
			})
			if found < 0 {
				t.Errorf("seed %d: %s at row %d was not seen: %v", seed, c.kind, at, kinds(warnings))
			}
		}
	}
}

// The same steps under two names may take the same time: with two ranks, ring and halving-doubling are
// one algorithm.
func TestSameWorkIsNoSurprise(t *testing.T) {
	a := line(series("ring", 2), 5, 100, 0, powers(10, 20), nil)
	b := line(series("halving-doubling", 2), 5, 100, 0, powers(10, 20), nil)
	if got := Check(slices.Concat(a, b)); len(got) > 0 {
		t.Errorf("the same steps: %v", got)
	}
	c := line(series("one-stage", 2), 5, 100, 0, powers(10, 20), nil)
	if got := kinds(Check(slices.Concat(a, c))); !slices.Equal(got, []string{Identical}) {
		t.Errorf("different steps with one time: %v", got)
	}
}

// Close times are not identical: variants that are half a per cent apart, or too noisy to compare,
// cause no warning.
func TestCloseIsNotIdentical(t *testing.T) {
	a := line(series("nccl", 2), 5, 100, 0, powers(10, 20), nil)
	near := line(series("other", 2), 5, 100, 0, powers(10, 20), nil)
	for i := range near {
		near[i].TimeUS *= 1.005
	}
	if got := Check(slices.Concat(a, near)); len(got) > 0 {
		t.Errorf("half a per cent apart: %v", got)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	if got := Check(slices.Concat(line(series("nccl", 2), 5, 100, 0.3, powers(10, 20), rnd),
		line(series("other", 2), 5, 100, 0.3, powers(10, 20), rnd))); len(got) > 0 {
		t.Errorf("30 %% of noise: %v", got)
	}
	env := series("nccl", 2)
	env.Variant = "NCCL_ALGO=Tree"
	if got := Check(slices.Concat(a, line(env, 5, 100, 0, powers(10, 20), nil))); !slices.Equal(kinds(got),
		[]string{Identical}) || !strings.Contains(got[0].Text, "the plain call and NCCL_ALGO=Tree") {
		t.Errorf("a variable without effect: %v", got)
	}
}

// The numbers of the published report cause exactly these warnings.
func TestCheckPublishedReport(t *testing.T) {
	rows := published()
	samples := SamplesOf(dataset.All(rows))
	for i := range samples {
		samples[i].Limits = map[string]float64{"nvlink-h100 line": Ceiling{GBs: 450}.US(LeastTraffic(2, samples[i].Bytes))}
	}
	var got []string
	for _, w := range Check(samples) {
		got = append(got, fmt.Sprintf("%s %v: %s", w.Kind, numbersOf(w.Rows, rows...), w.Text))
	}
	want := []string{
		"identical [2 4]: default and multimem take the same time (86.4 ms and 86.41 ms at 256Mi, 0.012 % apart): closer " +
			"than two different data paths usually are. The switch between them most likely had no effect, so this says " +
			"nothing about the difference until it is shown which path was taken",
		"far-below [3]: default, bf16, 2 ranks, cuda at 512Mi is bandwidth-bound at 3.11 GB/s, 145 times slower than its " +
			"ceiling, nvlink-h100 line: the data most likely takes another path, such as through host memory",
		"known-faster [0 1 2 3]: default, bf16, 2 ranks, cuda: the published nccl-h100 is 85 to 102 times faster at the " +
			"same sizes, so at least that much is possible over this link",
		"known-faster [4]: multimem, bf16, 2 ranks, cuda: the published nccl-h100 is 98 times faster at the same sizes, " +
			"so at least that much is possible over this link",
		"known-faster [5]: default, f32, 2 ranks, cuda: the published nccl-h100 is 98 times faster at the same sizes, so " +
			"at least that much is possible over this link",
		"equal-dtypes [2 5]: bf16 and f32 take equal time (86.4 ms) for equal bytes (256Mi), which is what a bandwidth " +
			"limit predicts and no evidence against one",
	}
	if !slices.Equal(got, want) {
		t.Errorf("warnings are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A CPU's memory rate is known less well than a link's, and the reachable rate is not a limit.
func TestLimitMargins(t *testing.T) {
	s := Sample{Series: series("nccl", 2), Bytes: 1 << 20, TimeUS: 85, Limits: map[string]float64{"link": 100},
		Rows: numbered(0)}
	if got := kinds(Check([]Sample{s})); !slices.Equal(got, []string{AboveLimit}) {
		t.Errorf("15 %% above a link: %v", got)
	}
	s.HighUS = 97 // the interval comes close enough to the limit
	if got := Check([]Sample{s}); len(got) > 0 {
		t.Errorf("within the interval: %v", got)
	}
	s.HighUS, s.Backend = 0, "cpu"
	if got := Check([]Sample{s}); len(got) > 0 {
		t.Errorf("15 %% above a memory: %v", got)
	}
	s.Backend, s.Limits = "nccl", map[string]float64{"nvlink-h100 reachable": 100}
	if got := kinds(Check([]Sample{s})); !slices.Equal(got, []string{KnownFaster + " (note)"}) {
		t.Errorf("above what is usually reached: %v", got)
	}
}

// Ranks on one CPU share its memory, so a falling rate is expected unless a limit says otherwise.
func TestFallingRateNeedsAFairScale(t *testing.T) {
	few, many := series("nccl", 2), series("nccl", 8)
	a, b := line(few, 5, 100, 0, powers(10, 28), nil), line(many, 5, 20, 0, powers(10, 28), nil)
	if got := kinds(Check(slices.Concat(a, b))); !slices.Equal(got, []string{FallingRate}) {
		t.Errorf("a fifth of the rate: %v", got)
	}
	for i := range a {
		a[i].Backend, b[i].Backend = "cpu", "cpu"
	}
	if got := Check(slices.Concat(a, b)); len(got) > 0 {
		t.Errorf("on one CPU: %v", got)
	}
}

// A series is compared with the published curve of the link that its limits name. A much slower series
// gets a note; a similar one, or one without a link, gets none.
func TestKnownFaster(t *testing.T) {
	curve, _ := NamedCurve("nccl-h100")
	link, _ := Ceilings("nvlink-h100")
	for _, c := range []struct {
		slower float64
		link   []Ceiling
		want   string
	}{{90, link, "nccl-h100 is 90 times faster"}, {3, link[:1], "nccl-h100 is 3 times faster"}, {1.9, link, ""},
		{90, nil, ""}} {
		var samples []Sample
		for _, p := range curve.Ranks[2] {
			s := Sample{Series: series("ours", 2), Bytes: p.Bytes, TimeUS: c.slower * p.US, Limits: map[string]float64{}}
			for _, ceiling := range c.link {
				s.Limits[ceiling.Name] = ceiling.US(float64(p.Bytes))
			}
			samples = append(samples, s)
		}
		got := checkPublished(samples)
		if (len(got) == 1) != (c.want != "") || len(got) == 1 && (!got[0].Note || !strings.Contains(got[0].Text, c.want)) {
			t.Errorf("%g times slower, %d ceilings: %v, want %q", c.slower, len(c.link), got, c.want)
		}
	}
}

// Without a named ceiling, only devices are compared with the slowest link between devices. Hosts may
// be connected by slower links, and ranks on one GPU by none.
func TestFarBelowWithoutCeiling(t *testing.T) {
	for _, c := range []struct {
		backend string
		gbs     float64
		sharing int
		far     bool
	}{{"cuda", 3.1, 0, true}, {"cuda", 14, 0, false}, {"cuda", 3.1, 2, false}, {"mpi", 3.1, 0, false},
		{"cpu", 3.1, 0, false}} {
		s := series("ring", 2)
		s.Backend, s.Sharing = c.backend, c.sharing
		if got := kinds(Check(line(s, 5, c.gbs, 0, powers(24, 29), nil))); slices.Contains(got, FarBelow+" (note)") != c.far {
			t.Errorf("%s at %g GB/s, sharing %d: %v, want far below %v", c.backend, c.gbs, c.sharing, got, c.far)
		}
	}
}

// Equal samples have equal digests; any other number gives another digest.
func TestDigest(t *testing.T) {
	a := []Sample{{Series: Series{Algorithm: "ring"}, Bytes: 1024, TimeUS: 1.402,
		Limits: map[string]float64{"a": 1, "b": 2}}}
	b := []Sample{{Series: Series{Algorithm: "ring"}, Bytes: 1024, TimeUS: 1.402,
		Limits: map[string]float64{"b": 2, "a": 1}}}
	if Digest(a) != Digest(b) {
		t.Error("equal samples differ")
	}
	b[0].TimeUS = 1.403
	if Digest(a) == Digest(b) {
		t.Error("another time is the same")
	}
}
