package bench

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"strings"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// Option declares a parameter with one value per run. The default is parsed like [ParseValue]
// does. Every row records the value.
func Option(name string, kind Kind, def, help string) Clause {
	return func(d *decl.Declaration) {
		v, err := point.Parse(kind, def)
		if err != nil {
			fault(d.Bench, "option %q: default: %w", name, err)
			return
		}
		d.Bench.Options = append(d.Bench.Options, decl.Option{Name: name, Kind: kind, Default: v, Help: help})
	}
}

// OutputFile declares an option that names a file which the body writes. Such an option cannot change
// a result, so it is not part of a point's identity: a row with the option replaces a row without it.
func OutputFile(name, help string) Clause {
	return change(Option(name, point.String, "", help), func(_ *Bench, o *decl.Option) { o.Output = true })
}

// Quantity declares an option that is a real number of 0 or more.
func Quantity(name, def, help string) Clause {
	return decl.Within(decl.AtLeast(0), Option(name, point.Float, def, help))
}

// change returns a clause that declares an option and then modifies it.
func change(option Clause, modify func(b *Bench, o *decl.Option)) Clause {
	return func(d *decl.Declaration) {
		before := len(d.Bench.Options)
		option(d)
		for i := range d.Bench.Options[before:] {
			modify(d.Bench, &d.Bench.Options[before+i])
		}
	}
}

// Seconds declares the option --seconds, which limits the sampling time of a point. The body
// passes its value to [State.SampleAtMost].
func Seconds(def, help string) Clause {
	return decl.Within(decl.Between(0, math.Inf(1)), Option(SecondsOption, point.Float, def, help))
}

// Choice declares an option that accepts only the given texts. The first is the default.
func Choice(name, help string, choices ...string) Clause {
	return func(d *decl.Declaration) {
		if len(choices) == 0 {
			fault(d.Bench, "option %q: no choices", name)
			return
		}
		d.Bench.Options = append(d.Bench.Options, decl.Option{Name: name, Kind: point.String,
			Default: point.StringValue(choices[0]), Help: help, Choices: choices})
	}
}

// FileOption declares an option that names a file. Rows record the file's SHA-256, so an edited
// file makes a different point.
func FileOption(name, def, help string) Clause {
	return change(Option(name, point.String, def, help), func(_ *Bench, o *decl.Option) { o.File = true })
}

// Sweepable lets an option accept a list like an axis does. The option must hold texts or files.
// With several values it becomes the outermost axis of the run. In a list of files, [BuiltIn]
// stands for no file, and files with equal content count as one value.
func Sweepable(option Clause) Clause {
	return change(option, func(b *Bench, o *decl.Option) {
		if o.Sweepable = o.Kind == point.String; !o.Sweepable {
			fault(b, "option %q: only texts and files can be swept", o.Name)
		}
	})
}

// BuiltIn stands for no file among the values of a [Sweepable] file option.
const BuiltIn = point.NoFile

// FilePath returns the path of the file that an option names, or "" for none. It works whether
// the option is swept or not. Use it in [Refuse] and [DefaultRanks].
func FilePath(p, options Point, name string) string {
	path, _ := point.ValueOf(p, options, name).File()
	return path
}

// File reads the file that an option names. The path is empty if the option names none. A file
// that has changed since the run was planned is an error, because the row would be recorded
// under the wrong content.
func (s *State) File(name string) (path string, data []byte, err error) {
	path, sha := s.Value(name).File()
	if path == "" {
		return "", nil, nil
	}
	if data, err = infile.ReadRegular(path, infile.Table); err != nil {
		return path, nil, fmt.Errorf("--%s: %w", name, err)
	}
	sha = cmp.Or(sha, s.set.Inputs[name])
	if now := fmt.Sprintf("%x", sha256.Sum256(data)); !strings.HasPrefix(now, sha) {
		return path, nil, fmt.Errorf("--%s: %s has changed since the run was planned: its SHA-256 was %s, now it is %s",
			name, path, sha, now)
	}
	return path, data, nil
}
