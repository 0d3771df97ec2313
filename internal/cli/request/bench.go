package request

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/python"
	"github.com/kernbench/kernbench/internal/bench/sweep"
	"github.com/kernbench/kernbench/internal/cli/guide"
)

// normal treats --dof_per_rank and --dof-per-rank as the same flag, and --plot-only as a synonym of
// --render-only.
func normal(name string) string {
	if name = strings.ReplaceAll(name, "_", "-"); name == "plot-only" {
		return "render-only"
	}
	return name
}

// Normalize replaces underscores in flags, which torchrun uses, by hyphens.
func Normalize(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	return pflag.NormalizedName(normal(name))
}

// Clash returns an error for axes and options whose names are flags of `run`.
func Clash(b *bench.Bench) error {
	var errs []error
	for _, f := range benchFlags(b) {
		for _, fixed := range fixedNames() {
			if normal(f.name) == fixed {
				errs = append(errs, fmt.Errorf("bench %q: the name %q is taken by the flag --%s", b.Name, f.name, fixed))
			}
		}
	}
	return errors.Join(errs...)
}

// taken reports whether an axis of another program needs a qualified name, because its own name is a flag
// of `run` or has another meaning in expressions.
func taken(name string) bool {
	return name == bench.BackendName || name == "part" || slices.Contains(fixedNames(), normal(name))
}

// preset holds the values that --profile selects.
type preset struct {
	axes   []plan.Assign
	only   []string // expressions of --only
	trials int      // 0 if the profile does not set it
}

// presetOf returns the values of a profile by name, or none if the name is "".
func presetOf(b *bench.Bench, name string) (s preset, err error) {
	if name == "" {
		return s, nil
	}
	if len(b.Profiles) == 0 {
		return s, fmt.Errorf("bench %s has no profiles: leave --profile out", b.Name)
	}
	p, err := suggest.Find("profile", name, b.Profiles, func(p decl.Profile) string { return p.Name })
	if err != nil {
		return s, fmt.Errorf("bench %s: %w", b.Name, err)
	}
	for _, a := range p.Axes {
		switch a[0] {
		case "only":
			s.only = append(s.only, a[1])
		case "trials":
			if s.trials, err = strconv.Atoi(a[1]); err != nil || s.trials < 1 {
				return s, fmt.Errorf("bench %s: profile %s: trials=%s: want a number of at least 1", b.Name, name, a[1])
			}
		default:
			s.axes = append(s.axes, plan.Assign{Name: a[0], Text: a[1]})
		}
	}
	return s, nil
}

// benchFlag is the flag of an axis or option.
type benchFlag struct {
	name, help string
	axis       bool
	list       bool   // several values are possible
	implied    string // the value if the flag is given without one; "" if it needs one
}

// benchFlags returns the flags of a bench's axes and options, each name once.
func benchFlags(b *bench.Bench) []benchFlag {
	var out []benchFlag
	var axes lists.Set[string]
	for _, p := range b.Parts {
		for _, a := range p.Axes {
			if a.Name != bench.RanksAxis && axes.Add(a.Name) {
				values := texttab.Shorten(point.FormatSpec(a.Values), 60)
				help := fmt.Sprintf("axis of %s (%s), default %s", b.Name, a.Kind, values)
				out = append(out, benchFlag{a.Name, help, true, true, ""})
			}
		}
	}
	for _, o := range b.Options {
		help := o.Help
		if len(o.Choices) > 0 {
			help += " (" + strings.Join(o.Choices, ", ") + ")"
		}
		implied := ""
		if o.Kind == point.Bool && !o.Default.Bool() && !o.Sweepable { // --adjoint, like the program's own switches
			implied = "true"
		}
		help += fmt.Sprintf(", default %q", o.Default.Pretty())
		out = append(out, benchFlag{o.Name, help, false, o.Sweepable, implied})
	}
	return out
}

// Select finds the benches named by the arguments of `run`. It runs before the flags are parsed,
// because benches add flags. If a file declares several benches, --bench chooses among them. fl has the flags
// that do not depend on the bench. words is 1 if the first word names the bench or file, and else 0.
func Select(ctx context.Context, fl *pflag.FlagSet, known []*bench.Bench, args []string) (selected []*bench.Bench,
	words int, err error) {
	parsed := firstPass(fl, known, args)
	if flag, word := nameBench(parsed); word != "" {
		words = 1
		_ = parsed.Set(flag, word) // a list of texts accepts it
	}
	names, _ := parsed.GetStringArray("bench")
	files, _ := parsed.GetStringArray("file")
	var limit time.Duration // the flag parser reports a value that is not a time
	if texts, _ := parsed.GetStringArray(importFlag); len(texts) > 0 {
		limit, _ = time.ParseDuration(texts[len(texts)-1])
	}
	var ofFiles []*bench.Bench
	several := false
	for _, f := range files {
		found, err := LoadFile(ctx, f, max(limit, 0))
		if err != nil {
			return nil, words, err
		}
		ofFiles = append(ofFiles, found...)
		several = several || found[0].Script != nil
	}
	if several && len(names) > 0 {
		known, ofFiles = ofFiles, nil
	}
	if len(names) > 0 {
		if selected, err = Named(known, names); err != nil {
			return nil, words, err
		}
	}
	return append(selected, ofFiles...), words, nil
}

// importFlag is the flag that limits the import of a Python file.
const importFlag = "import-timeout"

// LoadFile reads the benches that a file declares, at least one. The file is a Python file, a
// program that speaks the protocol, or a sweep in YAML. limit limits the import of a Python file; 0
// means the default.
func LoadFile(ctx context.Context, path string, limit time.Duration) (found []*bench.Bench, err error) {
	if python.IsFile(path) {
		found, err = python.Load(ctx, path, os.Getenv(python.InterpreterVar), limit, taken)
	} else {
		found = make([]*bench.Bench, 1)
		found[0], err = sweep.Load(path)
	}
	if err != nil {
		return nil, err
	}
	for _, b := range found {
		if err := Clash(b); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Named returns the benches that match the names or globs, each once, or all benches if there are none.
func Named(known []*bench.Bench, names []string) (found []*bench.Bench, err error) {
	if len(names) == 0 {
		return known, nil
	}
	for _, name := range names {
		some, err := match(known, name)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return lists.Distinct(found), nil
}

// match returns the benches that match a name or glob, at least one.
func match(known []*bench.Bench, pattern string) (found []*bench.Bench, err error) {
	var names []string
	for _, b := range known {
		if ok, err := path.Match(pattern, b.Name); err != nil {
			return nil, fmt.Errorf("--bench %q: want a name or a glob such as 'gemm*': %w", pattern, err)
		} else if ok {
			found = append(found, b)
		}
		names = append(names, b.Name)
	}
	if len(found) == 0 {
		slices.Sort(names)
		return nil, suggest.Unknown("bench", pattern, names)
	}
	return found, nil
}

// Values returns the command line's values for a bench's axes and options.
type Values func(*bench.Bench) (axes, options []plan.Assign)

// Bind adds flags for the benches' axes and options, and returns the function that reads them after
// parsing. Benches may share names, but not with other flags of the command.
func Bind(fl *pflag.FlagSet, benches []*bench.Bench) (Values, error) {
	for _, b := range benches {
		for _, f := range benchFlags(b) {
			if flag := fl.Lookup(f.name); flag != nil {
				if _, shared := flag.Value.(*textFlag); !shared {
					return nil, fmt.Errorf("bench %q: the name %q is taken by the flag --%s: rename it", b.Name, f.name, flag.Name)
				}
				continue
			}
			kind := "VALUE"
			if f.axis {
				kind = "SPEC"
			}
			fl.Var(&textFlag{kind: kind, list: f.list}, f.name, f.help)
			fl.Lookup(f.name).NoOptDefVal = f.implied
		}
	}
	guide.Under(guide.BenchFlags, fl)
	return func(b *bench.Bench) (axes, options []plan.Assign) {
		for _, f := range benchFlags(b) {
			flag := fl.Lookup(f.name)
			if !flag.Changed {
				continue
			}
			as := plan.Assign{Name: f.name, Text: flag.Value.String()}
			if f.axis {
				axes = append(axes, as)
			} else {
				options = append(options, as)
			}
		}
		return axes, options
	}, nil
}

// textFlag is a text flag of a bench. Its kind, SPEC or VALUE, appears in --help.
type textFlag struct {
	text, kind string
	list       bool // several values are possible
	given      bool
}

func (f *textFlag) String() string { return f.text }
func (f *textFlag) Type() string   { return f.kind }
func (f *textFlag) Set(s string) error {
	if f.given && s != f.text {
		return twice(f.text, s, f.list)
	}
	f.text, f.given = s, true
	return nil
}

// twice is the error for a flag that is given again with another value. If several values are possible, the user
// probably wants both, so that the last one must not silently replace the first one.
func twice(before, now string, list bool) error {
	if list {
		return fmt.Errorf("given twice: give all values in one list: %s,%s", before, now)
	}
	return fmt.Errorf("given twice, as %s and as %s", before, now)
}

// specFlag is a flag of every bench whose value is a SPEC.
type specFlag struct{ text *string }

func (f specFlag) String() string { return "" }
func (f specFlag) Type() string   { return "SPEC" }
func (f specFlag) Set(s string) error {
	if *f.text != "" && s != *f.text {
		return twice(*f.text, s, true)
	}
	*f.text = s
	return nil
}

// assignFlag collects NAME=TEXT.
type assignFlag struct {
	list    *[]plan.Assign
	example string
	add     bool // a name may be given again, with further values
}

// AxisFlag returns a flag that collects values of axes. The example is for its error.
func AxisFlag(list *[]plan.Assign, example string) pflag.Value {
	return assignFlag{list, example, false}
}

func (f assignFlag) String() string { return "" }
func (f assignFlag) Type() string   { return "K=SPEC" }
func (f assignFlag) Set(s string) error {
	name, text, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return fmt.Errorf("want NAME=SPEC, such as %s", f.example)
	}
	same := func(a plan.Assign) bool { return a.Name == name }
	if before, again := lists.First(*f.list, same); again && before.Text != text && !f.add {
		return fmt.Errorf("%s is %w", name, twice(before.Text, text, true))
	}
	*f.list = append(*f.list, plan.Assign{Name: name, Text: text})
	return nil
}
