package request

import (
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// firstPass parses the arguments of `run` before its flags are complete: the flags of a bench are known only once the
// arguments have named it. fl has the flags of the command. The result has all of them as lists of texts, and accepts
// unknown flags. The word after one of these is its value, unless each bench that has the flag needs no value for it.
func firstPass(fl *pflag.FlagSet, known []*bench.Bench, args []string) *pflag.FlagSet {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	all.ParseErrorsAllowlist.UnknownFlags = true
	all.SetNormalizeFunc(Normalize)
	add := func(name, shorthand, implied string) {
		if all.Lookup(name) == nil {
			all.StringArrayP(name, shorthand, nil, "")
			all.Lookup(name).NoOptDefVal = implied
		}
	}
	fl.VisitAll(func(f *pflag.Flag) { add(f.Name, f.Shorthand, f.NoOptDefVal) })
	own := pflag.NewFlagSet("", pflag.ContinueOnError) // flags that a bench may replace
	var f Flags
	f.DeclareSampling(own)
	f.DeclareLabels(own)
	own.VisitAll(func(f *pflag.Flag) { add(f.Name, f.Shorthand, f.NoOptDefVal) })
	add("help", "h", "true")
	flags := lists.Map(known, benchFlags)
	for _, s := range slices.Concat(flags...) {
		needsValue := func(f benchFlag) bool { return normal(f.name) == normal(s.name) && f.implied == "" }
		if s.implied != "" && !slices.ContainsFunc(slices.Concat(flags...), needsValue) {
			add(s.name, "", s.implied)
		}
	}
	_ = all.Parse(args) // the complete flags report mistakes
	return all
}

// nameBench returns the first word of the arguments as the value of --bench or --file, if it takes the place of
// these flags: `run -q memory` means `run -q --bench memory`, and `run sweep.yaml` means `run -f sweep.yaml`.
func nameBench(parsed *pflag.FlagSet) (flag, word string) {
	words := parsed.Args()
	if end := parsed.ArgsLenAtDash(); end >= 0 {
		words = words[:end]
	}
	if len(words) == 0 || parsed.Changed("bench") || parsed.Changed("file") {
		return "", ""
	}
	switch filepath.Ext(words[0]) {
	case ".yaml", ".yml", ".py":
		return "file", words[0]
	}
	return "bench", words[0]
}

// owners returns the names of the benches that have a flag.
func owners(known []*bench.Bench, flag string) []string {
	of := lists.Filter(known, func(b *bench.Bench) bool {
		return slices.ContainsFunc(benchFlags(b), func(f benchFlag) bool { return normal(f.name) == normal(flag) })
	})
	return lists.Map(of, func(b *bench.Bench) string { return b.Name })
}
