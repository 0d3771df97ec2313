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

// Sampling is what the command line asks of how points are sampled. What is zero, or nil,
// stays as the bench declares it.
type Sampling struct {
	Cadence                measure.Cadence
	Cache                  measure.Cache
	Noise                  *float64 // 0: the noise does not end the sampling
	MinSamples, MaxSamples int
	MinTime, MaxTime       time.Duration
}

// ParseNoise reads a share of the median, such as 1% or 0.01.
func ParseNoise(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f < 1) {
		return 0, fmt.Errorf("noise %q: want a share of the median from 0%% to below 100%%, such as 1%% or 0.01", text)
	}
	return f, nil
}

// apply is the configuration with what is asked for. Of two bounds the one that is given
// moves the other that is not.
func (s Sampling) apply(c measure.Config) (measure.Config, error) {
	c.Cadence, c.Cache = cmp.Or(s.Cadence, c.Cadence), cmp.Or(s.Cache, c.Cache)
	if s.Noise != nil {
		c.Stop.RelNoise = *s.Noise
	}
	c.Stop.MinSamples, c.Stop.MaxSamples = measure.Bounds(s.MinSamples, s.MaxSamples, c.Stop.MinSamples, c.Stop.MaxSamples)
	c.Stop.MinTime, c.Stop.MaxTime = measure.Bounds(s.MinTime, s.MaxTime, c.Stop.MinTime, c.Stop.MaxTime)
	return c, c.Validate()
}

// sample gives the parts what is asked of the sampling.
func (s Sampling) sample(name string, parts []*decl.Part) error {
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
	// MinLaunches is how many an interval of their median needs.
	MinLaunches = 6
	// maxLaunches ends the launches of a point that nothing else ends.
	maxLaunches = 50
)

// Repeated is the rule for launches of a program that noise ends.
func Repeated(noise float64) measure.Stop {
	return measure.Stop{RelNoise: noise, MinSamples: MinLaunches, MaxSamples: maxLaunches, MaxTime: measure.NoTimeLimit}
}

// launches is what is asked for of a program, of which each launch is a sample.
func (s Sampling) launches(name string, until measure.Stop) (measure.Stop, error) {
	if s.Cadence != "" || s.Cache != "" {
		return until, fmt.Errorf("bench %s runs a program, which takes its own samples: kernbench cannot set their "+
			"cadence or caches", name)
	}
	switch {
	case until != (measure.Stop{}):
	case s.Noise != nil && *s.Noise > 0:
		until = Repeated(*s.Noise)
	default:
		until = measure.Stop{MinSamples: 1, MaxSamples: 1, MaxTime: measure.NoTimeLimit}
	}
	c := measure.Default()
	c.Stop = until
	c, err := s.apply(c)
	if err == nil && c.Stop.MaxSamples == 1 && (s.MinTime > 0 || s.MaxTime > 0) {
		err = fmt.Errorf("bench %s launches its program once a point, which no --min-time or --max-time changes: give "+
			"--noise or --max-samples too", name)
	}
	return c.Stop, err
}

// kind adds to the inputs of a point's key what makes its time another quantity than the
// one that the bench declares: --resume must not take one for the other. How many samples
// are taken makes none.
func (s Sampling) kind(declared measure.Config, inputs map[string]string) map[string]string {
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
