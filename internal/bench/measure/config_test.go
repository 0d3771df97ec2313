package measure

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestValidateNamesEveryFault(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	bad := Config{
		Cadence: "often", Cache: "tepid",
		Stop:      Stop{RelNoise: math.NaN(), MinSamples: 0, MaxSamples: -1, MinTime: -1, MaxTime: 48 * time.Hour},
		Warmup:    Warmup{MinCalls: 0, MaxCalls: -1, MaxTime: -1},
		ColdBytes: -1,
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("no fault found")
	}
	for _, want := range []string{
		`cadence "often"`, `cache "tepid"`, "relative noise NaN", "min samples 0", "max samples -1", "min time -1ns",
		"max time 48h0m0s", "warm-up min calls 0", "warm-up max calls -1", "warm-up max time -1ns", "cold bytes -1",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	if got := len(strings.Split(err.Error(), "\n")); got != 11 {
		t.Errorf("%d faults, want 11:\n%v", got, err)
	}
}

// TestFingerprint: every setting that affects sampling changes the fingerprint.
func TestFingerprint(t *testing.T) {
	seen := map[int64]bool{}
	for i, change := range []func(*Config){
		func(*Config) {},
		func(c *Config) { c.Cadence = Isolated },
		func(c *Config) { c.Cache = Cold },
		func(c *Config) { c.Stop.RelNoise = 0.02 },
		func(c *Config) { c.Stop.MinSamples++ },
		func(c *Config) { c.Stop.MaxSamples++ },
		func(c *Config) { c.Stop.MinTime++ },
		func(c *Config) { c.Stop.MaxTime++ },
		func(c *Config) { c.Warmup.MinCalls++ },
		func(c *Config) { c.Warmup.MaxCalls++ },
		func(c *Config) { c.Warmup.MaxTime++ },
		func(c *Config) { c.ColdBytes++ },
	} {
		c := Default()
		change(&c)
		if seen[c.fingerprint()] {
			t.Errorf("change %d is not seen", i)
		}
		seen[c.fingerprint()] = true
	}
	c := Default()
	c.Progress = func(string, int) {}
	if !seen[c.fingerprint()] {
		t.Error("a progress hook makes another configuration")
	}
}

func TestColdBytes(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		given int
		cache int64
		want  int
	}{
		{0, 32 * mib, 40 * mib},
		{0, 300 * mib, MaxColdBytes},
		{400 * mib, 300 * mib, 400 * mib},
		{16 * mib, 32 * mib, 16 * mib},
		{32 * mib, 32 * mib, 32 * mib}, {33 * mib, 32 * mib, 33 * mib},
	} {
		if got := coldBytes(test.given, test.cache); got != test.want {
			t.Errorf("%d given, cache of %d: %d", test.given, test.cache, got)
		}
	}
}

func TestSweepTouchesEveryLine(t *testing.T) {
	buffer := make([]uint64, 1001)
	evictCaches(buffer)
	for i := 0; i < len(buffer); i += cacheLine / 8 {
		if buffer[i] != 1 {
			t.Fatalf("word %d was not written", i)
		}
	}
	evictCaches(nil)
}
