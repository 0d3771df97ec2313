package request

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// arguments are the arguments of `run`, split before its flags are complete: the flags of a bench are
// known only once the arguments have named it.
type arguments struct {
	flags []flagValue
	words []word // arguments that are neither flags nor values of known flags
}

// flagValue is a flag with its value, which is "" if it has none.
type flagValue struct{ name, value string }

// word is an argument by itself.
type word struct {
	text  string
	at    int    // its index
	after string // the unknown flag before it, whose value it may be
}

// split parses arguments like pflag, but accepts flags that are not in fl.
func split(fl *pflag.FlagSet, args []string) (a arguments) {
	for i := 0; i < len(args); i++ {
		arg, unknown := args[i], ""
		switch {
		case arg == "--":
			return a
		case len(arg) < 2 || arg[0] != '-':
			a.words = append(a.words, word{text: arg, at: i})
			continue
		case !strings.HasPrefix(arg, "--"):
			known, needsValue := a.short(fl, arg[1:])
			if known && needsValue && i+1 < len(args) {
				i++
				a.flags[len(a.flags)-1].value = args[i]
			}
			continue
		}
		name, value, has := strings.Cut(arg[2:], "=")
		name = normal(name)
		f := fl.Lookup(name)
		switch {
		case has || f != nil && f.NoOptDefVal != "" || name == "help" || i+1 == len(args):
		case f != nil:
			i++
			value = args[i]
		case !strings.HasPrefix(args[i+1], "-"):
			i++
			unknown = name
			a.words = append(a.words, word{args[i], i, unknown})
		}
		a.flags = append(a.flags, flagValue{name, value})
	}
	return a
}

// short reads the letters of an argument such as -qf. It reports whether the last one is known, and whether
// its value is the next argument.
func (a *arguments) short(fl *pflag.FlagSet, letters string) (known, needsValue bool) {
	for letters != "" {
		f := fl.ShorthandLookup(letters[:1])
		if letters = letters[1:]; f == nil {
			return false, false
		}
		a.flags = append(a.flags, flagValue{name: f.Name})
		if f.NoOptDefVal != "" {
			continue
		}
		a.flags[len(a.flags)-1].value = strings.TrimPrefix(letters, "=")
		return true, letters == ""
	}
	return true, false
}

// values returns the values of a flag.
func (a arguments) values(name string) []string {
	of := lists.Filter(a.flags, func(f flagValue) bool { return f.name == name && f.value != "" })
	return lists.Map(of, func(f flagValue) string { return f.value })
}

// NameBench adds --bench or --file before a bench or a file that is named without a flag: `run -q memory` means
// `run -q --bench memory`, and `run sweep.yaml` means `run -f sweep.yaml`. A word after a flag that is not in fl is the
// value of that flag, unless the word names a bench whose flag of this name takes no value.
func NameBench(fl *pflag.FlagSet, known []*bench.Bench, args []string) []string {
	a := split(fl, args)
	if slices.ContainsFunc(a.flags, func(f flagValue) bool { return f.name == "bench" || f.name == "file" }) {
		return args
	}
	w, found := lists.First(a.words, func(w word) bool { return w.after == "" || switchOf(known, w.text, w.after) })
	if !found {
		return args
	}
	flag := "--bench"
	switch filepath.Ext(w.text) {
	case ".yaml", ".yml", ".py":
		flag = "-f"
	}
	return slices.Insert(slices.Clone(args), w.at, flag)
}

// switchOf reports whether a bench of this name has a flag that needs no value.
func switchOf(known []*bench.Bench, name, flag string) bool {
	b, found := lists.First(known, func(b *bench.Bench) bool { return b.Name == name })
	return found && slices.ContainsFunc(benchFlags(b), func(f benchFlag) bool {
		return normal(f.name) == flag && f.implied != ""
	})
}

// owners returns the names of the benches that have a flag.
func owners(known []*bench.Bench, flag string) []string {
	of := lists.Filter(known, func(b *bench.Bench) bool {
		return slices.ContainsFunc(benchFlags(b), func(f benchFlag) bool { return normal(f.name) == normal(flag) })
	})
	return lists.Map(of, func(b *bench.Bench) string { return b.Name })
}
