package bench

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"

	"github.com/kernbench/kernbench/internal/base/point"
)

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
	return with(Option(name, point.Float, def, help), func(_ *declaration, o *DeclaredOption) { o.From0 = true })
}

// with is an option clause that goes on to change what it has declared.
func with(option Clause, change func(d *declaration, o *DeclaredOption)) Clause {
	return func(d *declaration) {
		before := len(d.bench.Options)
		option(d)
		for i := range d.bench.Options[before:] {
			change(d, &d.bench.Options[before+i])
		}
	}
}

// SecondsOption is the name of the option that [Seconds] declares.
const SecondsOption = "seconds"

// Seconds declares the option --seconds, by which a user bounds the sampling of a
// point; the body gives it to [State.SampleAtMost].
func Seconds(def, help string) Clause {
	return with(Option(SecondsOption, point.Float, def, help), func(_ *declaration, o *DeclaredOption) { o.Above0 = true })
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

// Sweepable has the option that a clause declares take a list, as an axis does: with
// several values, which must be texts or files, it is an axis of that run, the
// outermost. Among files [BuiltIn] stands for none; files of equal content are one value.
func Sweepable(option Clause) Clause {
	return with(option, func(d *declaration, o *DeclaredOption) {
		if o.Sweep = o.Kind == point.String; !o.Sweep {
			d.fault("option %q: only texts and files can be swept", o.Name)
		}
	})
}

// BuiltIn is the word for no file among the values of a [Sweepable] file option.
const BuiltIn = point.NoFile

// FileOf is the path of the file that an option names, "" for none, whether the option is
// swept or not: for [Refuse] and [RanksOf].
func FileOf(p, options Point, name string) string {
	v, swept := p.Get(name)
	if !swept {
		v = options.At(name)
	}
	path, _ := v.File()
	return path
}

// File reads the file that an option names; without one, the path is empty. A file that is
// not what it was when the run was planned is an error: the row would be another's.
func (s *State) File(name string) (path string, data []byte, err error) {
	path, sha := s.Value(name).File()
	if path == "" {
		return "", nil, nil
	}
	if data, err = os.ReadFile(path); err != nil {
		return path, nil, fmt.Errorf("--%s: %w", name, err)
	}
	sha = cmp.Or(sha, s.set.Inputs[name])
	if now := fmt.Sprintf("%x", sha256.Sum256(data)); !strings.HasPrefix(now, sha) {
		return path, nil, fmt.Errorf("--%s: %s has changed since the run was planned: its SHA-256 was %s, it is %s", name,
			path, sha, now)
	}
	return path, data, nil
}
