package tune

import (
	"cmp"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// line returns a space with one variable.
func line(n int) Space {
	s := Space{Levels: []int{n}}
	for i := range n {
		s.Settings = append(s.Settings, []int{i})
	}
	return s
}

// drive runs a study whose launches return the given outcomes.
func drive(space Space, cfg Config, answer func(Launch, Phase) Outcome) *Race {
	r := New(space, cfg)
	for next := r.Next(); next != nil; next = r.Next() {
		for _, l := range next {
			r.Observe(l, answer(l, r.phase))
		}
	}
	return r
}

// A setting that is fast in the race and fails when it is confirmed is not
// recommended; the next best is confirmed in its place.
func TestWinnerThatFailsLater(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	r := drive(line(5), Config{Launches: 120}, func(l Launch, p Phase) Outcome {
		if l.Setting == 3 && p == Confirm {
			return Outcome{Failed: "wrong result"}
		}
		return Outcome{Log: []float64{0, 0.2, -0.2, -0.4, 0.1}[l.Setting] + 0.01*rng.NormFloat64()}
	})
	a := r.Answer()
	if a.Best != 2 || !a.Done || a.Confirmed == nil || a.Confirmed.High >= 0 {
		t.Errorf("%+v", a)
	}
	if len(a.Failed) != 1 || a.Failed[0] != (Failure{3, "wrong result"}) {
		t.Errorf("out: %+v", a.Failed)
	}
	if slices.Contains(a.Raced, 3) || slices.Contains(a.Open, 3) {
		t.Error("a failing setting counts as good as the best")
	}
}

// If the winner was only lucky in the race, the claim is the smaller gain of the confirmation.
func TestClaimIsTheConfirmation(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	r := drive(line(6), Config{Launches: 150}, func(l Launch, p Phase) Outcome {
		o := Outcome{Log: 0.02 * rng.NormFloat64()}
		if l.Setting == 4 && p != Confirm { // fast only while it is chosen
			o.Log -= 0.5
		}
		return o
	})
	a := r.Answer()
	if a.Best != 4 || a.Expected > -0.4 {
		t.Fatalf("the lucky one was not chosen: %+v", a)
	}
	if c := a.Confirmed; c == nil || !c.Known || c.Low > 0 || c.High < 0 {
		t.Errorf("confirmed %+v: want an interval around no gain", c)
	}
	if !slices.Contains(a.Raced, 0) || !a.Refuted {
		t.Errorf("refuted %v, undistinguished %v: the confirmation sees no difference to the default, which the race "+
			"had dropped", a.Refuted, a.Raced)
	}
}

// If the machine becomes ten times slower, the time runs out before the race. Then no setting is
// dropped, a single lucky launch decides nothing, and both settings stay in the answer.
func TestTimeEndsBeforeTheRace(t *testing.T) {
	launches := 0
	r := drive(line(168), Config{Seconds: 165, Seed: 1}, func(l Launch, p Phase) Outcome {
		launches++
		o := Outcome{Seconds: 1, Log: 0.01 * float64(l.Setting%7)}
		if launches > 8 {
			o.Seconds = 15
		}
		if p == Explore && launches == 5 {
			o.Log = -0.3
		}
		return o
	})
	a := r.Answer()
	if a.Rounds != 0 || a.ChosenBy != 1 || a.Dropped != 0 || r.secondsSpent > 165 {
		t.Errorf("%d rounds, chosen by %d, %d dropped, %v s: %+v", a.Rounds, a.ChosenBy, a.Dropped, r.secondsSpent, a)
	}
	if c := a.Confirmed; c == nil || c.Known || !a.mayBe(r.space.Default) {
		t.Errorf("confirmed %+v, undistinguished %v %v", c, a.Raced, a.Open)
	}
}

// If launches become slower during the exploration, there is still time for six pairs.
func TestSlowerLaunchesLeaveTimeToConfirm(t *testing.T) {
	for slower := 1.0; slower <= 4; slower++ {
		rng := rand.New(rand.NewPCG(6, 1))
		seconds := 0.0
		r := drive(line(168), Config{Seconds: 200, Seed: 1}, func(l Launch, _ Phase) Outcome {
			o := Outcome{Seconds: 1, Log: 0.02 * rng.NormFloat64()}
			if seconds > 20 {
				o.Seconds = slower
			}
			seconds += o.Seconds
			if l.Setting != 0 {
				o.Log -= 0.5
			}
			return o
		})
		if a := r.Answer(); a.Confirmed == nil || !a.Confirmed.Known || a.Confirmed.High > -0.4 || seconds > 200 {
			t.Errorf("%v times slower: confirmed %+v after %v s", slower, a.Confirmed, seconds)
		}
	}
}

// With more noise, more pairs are reserved. The number is fixed before the first pair.
func TestPairsByNoise(t *testing.T) {
	for noise, least := range map[float64]int{0.01: minPairs, 0.5: 2 * minPairs} {
		rng := rand.New(rand.NewPCG(7, 1))
		found, pairs := 0, 0
		const studies = 20
		for seed := range uint64(studies) {
			r := drive(line(240), Config{Seed: seed}, func(l Launch, _ Phase) Outcome {
				o := Outcome{Log: noise * rng.NormFloat64()}
				if l.Setting%2 == 1 {
					o.Log -= 1
				}
				return o
			})
			a := r.Answer()
			if a.Confirmed == nil || a.Confirmed.Count < minPairs || a.Launches > DefaultLaunches(240) {
				t.Fatalf("launches differ by %v: %d launches, confirmed %+v", noise, a.Launches, a.Confirmed)
			}
			found, pairs = found+count(a.Confirmed.High < 0), pairs+a.Confirmed.Count
		}
		if found < studies-1 || pairs < studies*least {
			t.Errorf("launches differ by %v: a gain of 63 %% is confirmed in %d of %d studies, by %d pairs in all", noise,
				found, studies, pairs)
		}
	}
}

// Identical settings are not distinguished, and the default is kept.
func TestIdenticalSettings(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for rep := range 20 {
		r := drive(line(8), Config{Seed: uint64(rep)}, func(l Launch, _ Phase) Outcome {
			return Outcome{Log: 0.03 * rng.NormFloat64()}
		})
		a := r.Answer()
		if len(a.Raced) < 7 {
			t.Errorf("repetition %d: only %v are called equal", rep, a.Raced)
		}
	}
}

// If the default fails, the best setting has no gain. If all settings fail, there is no best.
func TestDefaultFails(t *testing.T) {
	r := drive(line(4), Config{}, func(l Launch, _ Phase) Outcome {
		if l.Setting == 0 {
			return Outcome{Failed: "hangs"}
		}
		return Outcome{Log: float64(l.Setting)}
	})
	if a := r.Answer(); a.Best != 1 || a.Confirmed != nil || a.Level == nil || !a.Done {
		t.Errorf("%+v", a)
	}
	for _, cfg := range []Config{{}, {Launches: 15}, {Launches: 30, Seconds: 5}, {Launches: 2}} {
		r = drive(line(4), cfg, func(Launch, Phase) Outcome { return Outcome{Failed: "no", Seconds: 1} })
		if a := r.Answer(); a.Best != -1 || !a.Done || cfg.Launches == 0 && len(a.Failed) != 4 {
			t.Errorf("%+v: %+v", cfg, a)
		}
	}
}

// The same outcomes give the same launches, on which --resume relies. The limits of launches and
// time are respected.
func TestDeterministicAndBounded(t *testing.T) {
	study := func(cfg Config) (order []Launch, a Answer) {
		rng := rand.New(rand.NewPCG(4, 1))
		b := newSynthetic(rng, normal(0.05))
		r := drive(b.space, cfg, func(l Launch, _ Phase) Outcome {
			order = append(order, l)
			return b.launch(rand.New(rand.NewPCG(uint64(l.Setting), uint64(l.Round))), l.Setting)
		})
		return order, r.Answer()
	}
	for _, cfg := range []Config{{Launches: 150}, {Launches: 150, Seconds: 60}, {Launches: 14},
		{Launches: 40, Seconds: 2}, {Seconds: 10}, {Seconds: 20}} {
		one, a := study(cfg)
		two, _ := study(cfg)
		if !reflect.DeepEqual(one, two) {
			t.Errorf("%+v: two studies of the same outcomes differ", cfg)
		}
		most := cmp.Or(cfg.Launches, DefaultLaunches(1000))
		if cfg.Seconds > 0 { // a launch takes a second; the first few show that
			most = min(most, max(int(cfg.Seconds), timingSettings+1))
		}
		if len(one) > most || !a.Done {
			t.Errorf("%+v: %d launches, done %v", cfg, len(one), a.Done)
		}
	}
}

// The smallest allowed budget leaves enough pairs for an interval.
func TestFewestLaunchesConfirm(t *testing.T) {
	for n := 2; n < 30; n += 3 {
		for seed := range uint64(10) {
			least := minLaunches
			r := drive(line(n), Config{Launches: least, Seed: seed}, func(l Launch, _ Phase) Outcome {
				return Outcome{Log: -float64(l.Setting)}
			})
			a := r.Answer()
			if a.Launches > least || a.Best != 0 && (a.Confirmed == nil || !a.Confirmed.Known) {
				t.Errorf("%d settings, seed %d: %+v", n, seed, a)
			}
			if a.Best != 0 && (slices.Contains(a.Raced, 0) || slices.Contains(a.Open, 0)) {
				t.Errorf("%d settings, seed %d: the default, which is slower, counts as equally good", n, seed)
			}
		}
	}
}

// A level with which every setting fails is soon avoided.
func TestFailingLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	b := newSynthetic(rng, normal(0.01))
	for s, l := range b.space.Settings {
		b.fails[s] = l[0] == 2
	}
	failed := 0
	drive(b.space, Config{Launches: 300}, func(l Launch, p Phase) Outcome {
		o := b.launch(rng, l.Setting)
		if o.Failed != "" {
			failed++
		}
		return o
	})
	if failed > 40 { // a fifth of the random sample of 88
		t.Errorf("%d launches of settings that cannot work", failed)
	}
}
