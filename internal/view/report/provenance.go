package report

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/document"
	"github.com/kernbench/kernbench/internal/view/tuned"
)

// facts lists where the numbers of a run come from. Unknown facts are left out.
func facts(h *journal.Header) []document.Fact {
	var out []document.Fact
	add := func(name, value string) {
		if value != "" {
			out = append(out, document.Fact{Name: name, Value: value})
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
	if h.Launches > 0 { // nothing is planned for an import
		add("Planned", unit.Plural(h.Points, "point")+", "+unit.Counted(h.Launches, "launch", "launches"))
	}
	add("Tags", strings.Join(h.Tags, ", "))
	add("Note", h.Note)
	if h.Resumed {
		add("Resumed", "yes")
	}
	return out
}

// earlierFacts describes the other runs that have rows in the report, one fact each.
func earlierFacts(earlier []journal.Header) []document.Fact {
	return lists.Map(earlier, func(h journal.Header) document.Fact {
		var words []string
		for _, f := range facts(&h) {
			if slices.Contains([]string{"Date", "Host", "Program", "Launcher"}, f.Name) {
				words = append(words, f.Value)
			}
		}
		return document.Fact{Name: "Rows also of run " + h.Run, Value: strings.Join(words, "; ")}
	})
}

// commandLines returns the distinct commands of all runs that have rows in the report, the earliest first.
func commandLines(d *dataset.Dataset) []string {
	headers := append(slices.Clip(d.Earlier), d.Header)
	lines := lists.Map(headers, func(h journal.Header) string { return commandLine(&h) })
	return lists.NonEmpty(lists.Distinct(lines)...)
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// pairs returns the entries of a map in the order of their names.
func pairs(m map[string]string) []document.Fact {
	return lists.Map(slices.Sorted(maps.Keys(m)), func(name string) document.Fact {
		return document.Fact{Name: name, Value: m[name]}
	})
}

// subtitle returns the date, the host and the id of the run.
func subtitle(h *journal.Header) string {
	date := ""
	if !h.Time.IsZero() {
		date = h.Time.UTC().Format("2 January 2006, 15:04 UTC")
	}
	return strings.Join(lists.NonEmpty(date, h.Host.Hostname, prefixed("run ", h.Run)), " · ")
}

// commandLine returns the shell command that repeats a run. It includes the seed even if the user did not
// give one.
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

// redrawLine returns the shell command that writes the views again without measuring.
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
