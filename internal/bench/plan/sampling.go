package plan

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
)

// Sampling holds the sampling flags of the command line. Zero and nil fields keep the bench's
// declaration.
type Sampling struct {
	Cadence                measure.Cadence
	Cache                  measure.Cache
	Noise                  *float64 // relative to the median; 0 means that noise does not end the sampling
	MinSamples, MaxSamples int
	MinTime, MaxTime       time.Duration
}

// ParseNoise parses a fraction of the median, such as 1% or 0.01.
func ParseNoise(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f < 1) {
		return 0, fmt.Errorf("noise %q: want a fraction of the median from 0%% to below 100%%, such as 1%% or 0.01", text)
	}
	return f, nil
}

// apply returns the configuration with the flags applied. If the flags set only one of two bounds, the
// other bound is moved where necessary, so that the minimum never exceeds the maximum.
func (s Sampling) apply(c measure.Config) (measure.Config, error) {
	c.Cadence, c.Cache = cmp.Or(s.Cadence, c.Cadence), cmp.Or(s.Cache, c.Cache)
	if s.Noise != nil {
		if *s.Noise > 0 && measure.FixedCount(c.Stop) { // a target replaces a declared number of samples
			c.Stop = measure.Default().Stop
		}
		c.Stop.RelNoise = *s.Noise
	}
	c.Stop.MinSamples, c.Stop.MaxSamples = measure.Bounds(s.MinSamples, s.MaxSamples, c.Stop.MinSamples, c.Stop.MaxSamples)
	c.Stop.MinTime, c.Stop.MaxTime = measure.Bounds(s.MinTime, s.MaxTime, c.Stop.MinTime, c.Stop.MaxTime)
	return c, c.Validate()
}

// applyTo applies the flags to parts: to the sampling of bodies, and to the launches of commands.
func (s Sampling) applyTo(name string, parts []*decl.Part) error {
	if s == (Sampling{}) {
		return nil
	}
	for _, p := range parts {
		var err error
		if p.Command != nil {
			c := *p.Command
			if c.Until, err = s.launches(name, c.Until); err != nil {
				return err
			}
			p.Command = &c
			continue
		}
		if p.Measure, err = s.apply(p.Measure); err != nil {
			return err
		}
	}
	return nil
}

const (
	// MinLaunches is the smallest number of launches for which a 95 % confidence interval of
	// the median exists.
	MinLaunches = 6
	// maxLaunches ends the launches of a point whose noise stays above the target.
	maxLaunches = 50
)

// RepeatUntil returns the stopping rule that launches a program until the median is known to the given
// relative noise.
func RepeatUntil(noise float64) measure.Stop {
	return measure.Stop{RelNoise: noise, MinSamples: MinLaunches, MaxSamples: maxLaunches, MaxTime: measure.NoTimeLimit}
}

// launches applies the flags to the launches of a program. Each launch is a sample.
func (s Sampling) launches(name string, until measure.Stop) (measure.Stop, error) {
	if s.Cadence != "" || s.Cache != "" {
		return until, fmt.Errorf("bench %s runs a program, which takes its own samples: kernbench cannot set their "+
			"cadence or caches", name)
	}
	switch {
	case until != (measure.Stop{}):
	case s.Noise != nil && *s.Noise > 0:
		until = RepeatUntil(*s.Noise)
	default:
		until = measure.Stop{MinSamples: 1, MaxSamples: 1, MaxTime: measure.NoTimeLimit}
	}
	c := measure.Default()
	c.Stop = until
	c, err := s.apply(c)
	if err == nil && c.Stop.MaxSamples == 1 && (s.MinTime > 0 || s.MaxTime > 0) {
		err = fmt.Errorf("bench %s launches its program only once per point, so --min-time and --max-time have no effect: "+
			"add --noise or --max-samples", name)
	}
	return c.Stop, err
}

// keyInputs adds --cadence and --cache to the inputs of a point's key if they differ from the
// declaration. They change what is measured, so --resume must not mix such rows. The stopping rule
// changes only how precisely it is measured, so it is not an input.
func (s Sampling) keyInputs(declared measure.Config, inputs map[string]string) map[string]string {
	declared = withDefaults(declared)
	cadence, cache := s.Cadence != "" && s.Cadence != declared.Cadence, s.Cache != "" && s.Cache != declared.Cache
	if !cadence && !cache {
		return inputs
	}
	out := map[string]string{}
	maps.Copy(out, inputs)
	if cadence {
		out["--cadence"] = string(s.Cadence)
	}
	if cache {
		out["--cache"] = string(s.Cache)
	}
	return out
}
