package bench

import "github.com/kernbench/kernbench/internal/base/point"

// Option declares an option: a parameter with one value per run, by default def as
// [ParseValue] reads it. Every row records it.
func Option(name string, kind Kind, def, help string) Clause {
	return func(d *declaration) {
		v, err := point.Parse(kind, def)
		if err != nil {
			d.fault("option %q: default: %w", name, err)
			return
		}
		d.bench.Options = append(d.bench.Options, DeclaredOption{Name: name, Kind: kind, Default: v, Help: help})
	}
}

// Quantity declares an option that is a real number of 0 or more.
func Quantity(name, def, help string) Clause {
	return func(d *declaration) {
		Option(name, point.Float, def, help)(d)
		if n := len(d.bench.Options); n > 0 {
			d.bench.Options[n-1].From0 = true
		}
	}
}

// SecondsOption is the name of the option that [Seconds] declares.
const SecondsOption = "seconds"

// Seconds declares the option --seconds, by which a user bounds the sampling of a
// point; the body gives it to [State.SampleAtMost].
func Seconds(def, help string) Clause {
	return func(d *declaration) {
		Option(SecondsOption, point.Float, def, help)(d)
		if n := len(d.bench.Options); n > 0 {
			d.bench.Options[n-1].Above0 = true
		}
	}
}

// Choice declares an option that takes one of the given texts, the first by
// default.
func Choice(name, help string, choices ...string) Clause {
	return func(d *declaration) {
		if len(choices) == 0 {
			d.fault("option %q: no choices", name)
			return
		}
		d.bench.Options = append(d.bench.Options, DeclaredOption{Name: name, Kind: point.String,
			Default: point.StringValue(choices[0]), Help: help, Choices: choices})
	}
}

// FileOption declares an option that names a file. The row records the file's
// SHA-256, so a changed file is a different point.
func FileOption(name, def, help string) Clause {
	return func(d *declaration) {
		d.bench.Options = append(d.bench.Options, DeclaredOption{Name: name, Kind: point.String,
			Default: point.StringValue(def), Help: help, File: true})
	}
}
