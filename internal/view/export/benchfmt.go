package export

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func init() {
	Formats.Register(Format{Name: "benchfmt", Help: "the Go benchmark format, which benchstat reads",
		Write: writeBenchfmt})
}

// writeBenchfmt writes the Go benchmark format, one line per trial, for benchstat and similar
// tools:
//
//	bench: allreduce
//	nccl_min_ctas: 4
//	BenchmarkAllreduce/size=65536/dtype=f32-8 200 12500 ns/op 9.1e+09 busbw-B/s
//
// Axes are part of the name (benchstat calls them /size), and the number of ranks is its -N
// suffix (/gomaxprocs). Backend, environment and options are configuration keys, which the
// format requires in lower case: benchstat -col nccl_min_ctas. Disturbed rows have the key
// quality, so that benchstat does not mix them with the others. Values that change with every
// run, such as its ID, are in comments, because benchstat never compares lines with different
// configurations.
//
// Characters that have a meaning in the format are written as %XX in names: slash, percent, white space,
// control characters, = in an axis name, and the dash of a final -N that is not the number of ranks. The
// configuration value "(unset)" stands for a variable that is removed. Text that is empty, equals
// "(unset)" or does not fit on a line is written as a quoted Go string. Rows that are not ok are comments.
func writeBenchfmt(w io.Writer, in Input, _ Options) error {
	b := bufio.NewWriter(w)
	f := newBenchfmtFile(in)
	if h := in.Header; h != nil {
		fmt.Fprintf(b, "# run %s\n", texttab.Plain(h.Run))
	}
	f.writeUnits(b)
	for _, r := range in.Rows {
		values := f.values(r)
		if r.Status != journal.OK || values == "" {
			why := strings.TrimSuffix(string(r.Status)+": "+string(r.Reason), ": ")
			if r.Status == journal.OK {
				why = "it has no metrics"
			}
			fmt.Fprintf(b, "# left out: Benchmark%s, trial %d: %s\n", benchName(r), r.Trial, texttab.Plain(why))
			continue
		}
		f.configure(b, f.config(r))
		fmt.Fprintf(b, "Benchmark%s %d%s\n", benchName(r), max(1, r.Samples*max(1, r.Batch)), values)
	}
	return b.Flush()
}

// benchfmtFile holds the state of the file being written.
type benchfmtFile struct {
	in      Input
	metrics []benchMetric
	envKeys map[string]string // configuration keys of environment variables
	current []setting         // configuration after the lines written so far
}

// setting is one configuration line.
type setting struct{ key, value string }

// benchMetric is a metric with its unit in this format, which also names it.
type benchMetric struct {
	name   string
	unit   string
	factor float64 // from the journal's unit to this one
}

// reservedKeys are the configuration keys that are not environment variables.
var reservedKeys = []string{"bench", "host", "cpu", "backend", "kind", "validated_by", "quality"}

func newBenchfmtFile(in Input) *benchfmtFile {
	f := &benchfmtFile{in: in, envKeys: map[string]string{}}
	used := map[string]bool{}
	for _, k := range reservedKeys {
		used[k] = true
	}
	for _, c := range Columns(in.Header, in.Rows) {
		switch c.Role {
		case Metric:
			f.metrics = append(f.metrics, newBenchMetric(c.Key, c.Unit))
		case Env:
			key := configKey(c.Key)
			for !unicode.IsLower(firstRune(key)) || used[key] {
				key = "env." + key
			}
			used[key] = true
			f.envKeys[c.Key] = key
		}
	}
	return f
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// configKey converts a name to a valid key: without upper case, white space and colons.
func configKey(name string) string {
	return strings.Map(func(r rune) rune {
		r = unicode.ToLower(r)
		// Some upper-case letters, such as ℂ, have no lower case.
		if unicode.IsUpper(r) || unicode.IsSpace(r) || !unicode.IsPrint(r) || r == ':' {
			return '_'
		}
		return r
	}, name)
}

// decimalPrefixes are removed from units, so that benchstat can scale the values itself.
var decimalPrefixes = map[byte]float64{'k': 1e3, 'M': 1e6, 'G': 1e9, 'T': 1e12, 'P': 1e15}

// newBenchMetric returns the unit of a metric: ns/op for the time, and the metric's name with its base
// unit for others, such as busbw-B/s. The name is needed because two metrics may have the same unit.
func newBenchMetric(name, unit string) benchMetric {
	if name == headline {
		return benchMetric{name, "ns/op", 1e3}
	}
	factor := 1.0
	if unit != "" {
		base := unit[1:]
		if f := decimalPrefixes[unit[0]]; f != 0 && (base == "B/s" || base == "B" || strings.HasPrefix(base, "FLOP")) {
			unit, factor = base, f
		}
	}
	if unit != "" && !namesUnit(name, unit) {
		unit = name + "-" + unit
	} else {
		unit = name
	}
	return benchMetric{name, texttab.Plain(strings.Join(strings.Fields(unit), "_")), factor}
}

// writeUnits writes which direction of each metric is better, and that simulated values are exact.
// Otherwise benchstat would recommend more trials for them.
func (f *benchfmtFile) writeUnits(b *bufio.Writer) {
	better := map[string]string{}
	if f.in.Header != nil {
		for _, m := range f.in.Header.Metrics {
			better[m.Name] = m.Better
		}
	}
	simulated := len(f.in.Rows) > 0
	for i := range f.in.Rows {
		simulated = simulated && f.in.Rows[i].Kind == journal.Simulated
	}
	for _, m := range f.metrics {
		facts := ""
		if better[m.name] != "" {
			facts += " better=" + better[m.name]
		}
		if simulated {
			facts += " assume=exact"
		}
		if facts != "" {
			fmt.Fprintf(b, "Unit %s%s\n", m.unit, facts)
		}
	}
}

// values returns the numbers of a row's line, each after a space.
func (f *benchfmtFile) values(r *journal.Row) string {
	var b strings.Builder
	for _, m := range f.metrics {
		if v, ok := r.Metrics[m.name]; ok {
			// Fifteen digits hide the rounding error of the unit conversion.
			b.WriteString(" " + strconv.FormatFloat(v*m.factor, 'g', 15, 64) + " " + m.unit)
		}
	}
	return b.String()
}

// configure writes the lines that change the current configuration to the wanted one. A key
// without a value removes it.
func (f *benchfmtFile) configure(b *bufio.Writer, want []setting) {
	for _, s := range f.current {
		if !slices.ContainsFunc(want, func(w setting) bool { return w.key == s.key }) {
			fmt.Fprintf(b, "%s:\n", s.key)
		}
	}
	for _, s := range want {
		if !slices.Contains(f.current, s) {
			fmt.Fprintf(b, "%s: %s\n", s.key, s.value)
		}
	}
	f.current = want
}

// config returns the configuration of a row.
func (f *benchfmtFile) config(r *journal.Row) []setting {
	var out []setting
	add := func(key, value string) {
		if value != "" {
			out = append(out, setting{key, configValue(value)})
		}
	}
	add("bench", r.Bench)
	add("host", r.Host)
	if f.in.Header != nil {
		add("cpu", f.in.Header.Host.CPU.Model)
	}
	add("backend", r.Backend)
	add("kind", string(r.Kind))
	add("validated_by", r.Details[journal.ValidatedByDetail])
	if r.Disturbed() {
		add("quality", string(journal.QualityDisturbed))
	}
	for _, e := range r.Env {
		value := e.Text()
		if e.Set {
			value = configValue(e.Value)
		}
		out = append(out, setting{f.envKeys[e.Name], value})
	}
	for _, c := range r.Options {
		out = append(out, setting{"option." + configKey(c.Name), configValue(c.Value.String())})
	}
	return out
}

// configValue quotes a text that a configuration line would change.
func configValue(s string) string {
	if s == "" || s == "(unset)" || s[0] == '"' || s != strings.TrimSpace(s) || texttab.Plain(s) != s {
		return strconv.Quote(s)
	}
	return s
}

// benchName returns the name in a row's line without the prefix Benchmark. It begins with an
// upper-case letter, as the format requires.
func benchName(r *journal.Row) string {
	bench := escapeName(r.Bench, "")
	if first := firstRune(bench); unicode.IsLower(first) {
		bench = string(unicode.ToUpper(first)) + bench[utf8.RuneLen(first):]
	}
	var b strings.Builder
	b.WriteString(bench)
	if r.Part != "" {
		b.WriteString("/part=" + escapeName(r.Part, ""))
	}
	for _, c := range r.Point {
		b.WriteString("/" + escapeName(c.Name, "=") + "=" + escapeName(c.Value.String(), ""))
	}
	if r.NumRanks != nil {
		return b.String() + "-" + strconv.Itoa(*r.NumRanks)
	}
	return escapeFinalNumber(b.String())
}

// escapeName writes characters that would end a name, and the characters in also, as %XX.
func escapeName(s, also string) string {
	var b strings.Builder
	for i, r := range s {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError && s[i] != 0xef { // an invalid byte
			size = 1
		}
		if size == 1 && r == utf8.RuneError || r == '/' || r == '%' || unicode.IsSpace(r) || !unicode.IsPrint(r) ||
			strings.ContainsRune(also, r) {
			for _, c := range []byte(s[i : i+size]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
			continue
		}
		b.WriteString(s[i : i+size])
	}
	return b.String()
}

// escapeFinalNumber escapes the dash of a final -N, so that it is not taken for the number of
// ranks.
func escapeFinalNumber(name string) string {
	digits := strings.TrimRight(name, "0123456789")
	if len(digits) < len(name) && strings.HasSuffix(digits, "-") {
		return digits[:len(digits)-1] + "%2D" + name[len(digits):]
	}
	return name
}
