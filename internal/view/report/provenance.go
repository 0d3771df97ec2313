package report

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/tuned"
)

// Fact is a line of the provenance.
type Fact struct{ Name, Value string }

// Facts say where the numbers come from; what is not known is left out.
func Facts(h *journal.Header) []Fact {
	var out []Fact
	add := func(name, value string) {
		if value != "" {
			out = append(out, Fact{name, value})
		}
	}
	add("Run", h.Run)
	add("Bench", strings.TrimSpace(h.Bench+" "+prefixed("version ", h.Version)))
	if !h.Time.IsZero() {
		add("Date", h.Time.UTC().Format(time.RFC1123))
	}
	if h.Host.Hostname != "" || h.Host.CPU.Model != "" {
		add("Host", h.Host.Summary())
	}
	add("Operating system", h.Host.OS)
	add("CPU governor", h.Host.CPU.Governor)
	if h.Host.Build.Version != "" {
		add("Program", h.Host.Build.String())
	}
	add("Backend", h.Backend)
	add("Launcher", h.Launcher)
	add("Seed", strconv.FormatUint(h.Seed, 10))
	if h.Trials > 0 {
		add("Trials", strconv.Itoa(h.Trials))
	}
	if h.Points > 0 {
		add("Planned", unit.Plural(h.Points, "point")+", "+unit.Counted(h.Launches, "launch", "launches"))
	}
	if h.Resumed {
		add("Resumed", "yes")
	}
	return out
}

// EarlierFacts tell of the other runs whose rows are shown, a line each.
func EarlierFacts(earlier []journal.Header) []Fact {
	var out []Fact
	for i := range earlier {
		var words []string
		for _, f := range Facts(&earlier[i]) {
			switch f.Name {
			case "Date", "Host", "Program", "Launcher":
				words = append(words, f.Value)
			}
		}
		out = append(out, Fact{"Rows also of run " + earlier[i].Run, strings.Join(words, "; ")})
	}
	return out
}

// CommandLines are those of all runs whose rows are shown, each once, the earliest first.
func CommandLines(run *journal.Run) []string {
	headers := append(slices.Clip(run.Earlier), run.Header)
	lines := lists.Map(headers, func(h journal.Header) string { return commandLine(&h) })
	return lists.NonEmpty(lists.Distinct(lines)...)
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// pairs are the entries of a map in order.
func pairs(m map[string]string) []Fact {
	return lists.Map(sortedKeys(m), func(name string) Fact { return Fact{name, m[name]} })
}

func subtitle(h *journal.Header) string {
	date := ""
	if !h.Time.IsZero() {
		date = h.Time.UTC().Format("2 January 2006, 15:04 UTC")
	}
	return strings.Join(lists.NonEmpty(date, h.Host.Hostname, prefixed("run ", h.Run)), " · ")
}

// commandLine is what to paste into a shell to measure again, with the seed
// that was drawn if none was given.
func commandLine(h *journal.Header) string {
	if len(h.Argv) == 0 {
		return ""
	}
	words := slices.Clone(h.Argv)
	seeded := func(w string) bool { return w == "--seed" || strings.HasPrefix(w, "--seed=") }
	if h.Seed != 0 && !slices.ContainsFunc(words, seeded) {
		words = append(words, "--seed", strconv.FormatUint(h.Seed, 10))
	}
	return strings.Join(lists.Map(words, tuned.ShellWord), " ")
}

// redrawLine makes the views again without measuring.
func redrawLine(h *journal.Header) string {
	name := "kernbench"
	if len(h.Argv) > 0 {
		name = tuned.ShellWord(h.Argv[0])
	}
	if h.Run == "" {
		return name + " report ."
	}
	return name + " report " + tuned.ShellWord(".@"+h.Run)
}
