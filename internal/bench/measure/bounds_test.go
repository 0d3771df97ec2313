package measure

import (
	"math"
	"testing"
)

func TestBounds(t *testing.T) {
	for _, c := range [][6]int{ // requested bounds, defaults, result
		{0, 0, 3, 9, 3, 9}, {5, 7, 3, 9, 5, 7}, {5, 0, 3, 9, 5, 9}, {20, 0, 3, 9, 20, 20},
		{0, 5, 3, 9, 3, 5}, {0, 2, 3, 9, 2, 2},
	} {
		if low, high := Bounds(c[0], c[1], c[2], c[3]); low != c[4] || high != c[5] {
			t.Errorf("Bounds(%v) = %d, %d", c[:4], low, high)
		}
	}
}

// TestFixedCount checks that noise, a range of samples and a time limit may each end the sampling.
func TestFixedCount(t *testing.T) {
	fixed := Stop{MinSamples: 7, MaxSamples: 7, MaxTime: NoTimeLimit}
	if !FixedCount(fixed) {
		t.Error("7 samples without other limits are not fixed")
	}
	noise, samples, limited := fixed, fixed, fixed
	noise.RelNoise, samples.MaxSamples, limited.MaxTime = 0.01, 8, NoTimeLimit-1
	for _, s := range []Stop{noise, samples, limited} {
		if FixedCount(s) {
			t.Errorf("%+v is fixed", s)
		}
	}
}

// TestLimitsOfConfig checks the first values that are refused, and the last that are not.
func TestLimitsOfConfig(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*Config)
		good   bool
	}{
		"no noise":            {func(c *Config) { c.Stop.RelNoise = 0 }, true},
		"negative noise":      {func(c *Config) { c.Stop.RelNoise = -1e-9 }, false},
		"noise of 1":          {func(c *Config) { c.Stop.RelNoise = 1 }, false},
		"noise below 1":       {func(c *Config) { c.Stop.RelNoise = math.Nextafter(1, 0) }, true},
		"equal times":         {func(c *Config) { c.Stop.MinTime = c.Stop.MaxTime }, true},
		"min above max time":  {func(c *Config) { c.Stop.MinTime = c.Stop.MaxTime + 1 }, false},
		"no time":             {func(c *Config) { c.Stop.MinTime, c.Stop.MaxTime = 0, 0 }, false},
		"no limit":            {func(c *Config) { c.Stop.MaxTime = NoTimeLimit }, true},
		"one sample":          {func(c *Config) { c.Stop.MinSamples, c.Stop.MaxSamples = 1, 1 }, true},
		"no sample":           {func(c *Config) { c.Stop.MinSamples = 0 }, false},
		"one warm-up call":    {func(c *Config) { c.Warmup.MinCalls, c.Warmup.MaxCalls = 1, 1 }, true},
		"fewer warm-up calls": {func(c *Config) { c.Warmup.MinCalls, c.Warmup.MaxCalls = 2, 1 }, false},
	} {
		config := Default()
		c.change(&config)
		if err := config.Validate(); (err == nil) != c.good {
			t.Errorf("%s: %v", what, err)
		}
	}
}
