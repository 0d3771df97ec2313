package findings

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/llm"
)

// oracle recomputes from the cells of a random run what its report may say. It shares no code with the report except
// the formatting of numbers and the data of language models. Its methods return what is wrong.
type oracle struct{ run runOfCells }

const setting = "f32, 4 ranks, symmetric"

func named(c cellOfRun) bool { return c.algorithm != "auto" && c.algorithm != "quickreduce" }

// at returns the cells of a size that ran and match.
func (o oracle) at(size int64, match func(cellOfRun) bool) (cells []cellOfRun) {
	for _, c := range o.run.timed {
		if c.size == size && c.ran() && match(c) {
			cells = append(cells, c)
		}
	}
	return cells
}

// sizes returns the sizes with a time.
func (o oracle) sizes() (sizes []int64) {
	for _, c := range o.run.timed {
		if c.ran() && !slices.Contains(sizes, c.size) {
			sizes = append(sizes, c.size)
		}
	}
	return sizes
}

// fastestOf returns the cell with the shortest time.
func fastestOf(cells []cellOfRun) (best cellOfRun) {
	for i, c := range cells {
		us, _, _ := c.time()
		if least, _, _ := best.timeOrZero(); i == 0 || us < least || us == least && c.algorithm < best.algorithm {
			best = c
		}
	}
	return best
}

func (c cellOfRun) timeOrZero() (us, low, high float64) {
	if !c.ran() {
		return 0, 0, 0
	}
	return c.time()
}

// winners returns the algorithms that may be called the fastest at a size, or nil if the data cannot tell.
func (o oracle) winners(size int64) (names []string) {
	cells := o.at(size, named)
	for _, c := range o.run.timed {
		if !named(c) || !c.ran() && !c.required {
			continue
		}
		if !slices.ContainsFunc(cells, func(d cellOfRun) bool { return d.algorithm == c.algorithm }) {
			return nil // it ran, or should have run, at another size
		}
	}
	for _, c := range cells {
		if !c.settled() || !c.repeated() {
			return nil
		}
	}
	if len(cells) == 0 {
		return nil
	}
	best := fastestOf(cells)
	for _, c := range o.at(size, func(c cellOfRun) bool { return c.algorithm == "auto" && c.settled() }) {
		if best.slower(c) {
			return nil
		}
	}
	for _, c := range cells {
		if !c.slower(best) {
			names = append(names, c.algorithm)
		}
	}
	slices.Sort(names)
	return names
}

// resolved returns the sizes at which the fastest algorithm is known.
func (o oracle) resolved() (sizes []int64) {
	for _, size := range o.sizes() {
		if len(o.winners(size)) > 0 {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// evidence checks that every ID leads to rows, that conclusions have an ID, and that comparisons rest
// on settled times of at least four launches. of holds the cell of each row.
func (o oracle) evidence(sections []bench.Section, of map[*journal.Row]int) (problems []string) {
	for _, s := range sections {
		for _, e := range append(slices.Clip(s.Sentences), s.Lines...) {
			for _, r := range e.Rows {
				i, known := of[r]
				if !known {
					problems = append(problems, fmt.Sprintf("%s cites a row that is not of the run", e.ID))
				} else if slices.Contains(comparisons, e.ID) &&
					(i < 0 || !o.run.timed[i].settled() || !o.run.timed[i].repeated()) {
					problems = append(problems, fmt.Sprintf("%s rests on %s, which cannot be compared", e.ID, r.Point))
				}
			}
		}
		if s.Title != "In short" {
			continue
		}
		for _, e := range s.Sentences {
			abstains := strings.Contains(e.Text, "not resolved: ") || strings.Contains(e.Text, "**Next:** Run the") ||
				len(o.run.checks) == 0 && strings.Contains(e.Text, "**Correctness:** no cell") || len(of) == 0
			if len(e.Rows) == 0 && !abstains {
				problems = append(problems, "no rows behind: "+e.Text)
			}
		}
	}
	return problems
}

// verdicts checks the lines about correctness, missing points and the quality of the times.
func (o oracle) verdicts(text string) (problems []string) {
	want := func(ok bool, format string, args ...any) {
		if line := fmt.Sprintf(format, args...); strings.Contains(text, line) != ok {
			problems = append(problems, fmt.Sprintf("%q is %v", line, !ok))
		}
	}
	all := strings.Join(o.run.checks, "")
	passed, failed, missing := strings.Count(all, "p"), strings.Count(all, "f"), strings.Count(all, "n")
	counted := func(n int, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprint(n, " ", many)
	}
	none := passed+failed == 0
	want(none, "correctness was **not run**")
	want(failed > 0, "results are **wrong** (%s)", counted(failed, "cell failed", "cells failed"))
	want(failed > 0, "**wrong results.** %d passed, %d failed, 0 skipped, %d not executed", passed, failed, missing)
	want(!none && failed == 0 && missing > 0, "**correct as far as it ran**, but %s not run",
		counted(missing, "required cell was", "required cells were"))
	want(!none && failed+missing == 0, "**correct** (%s passed)", counted(passed, "cell", "cells"))
	want(!none && failed+missing == 0, "all passed. Every required cell ran: %d passed", passed)

	unexecuted, settled, timed, single := 0, 0, 0, true
	for _, c := range o.run.timed {
		switch {
		case c.required:
			unexecuted++
		case c.ran():
			timed++
			single = single && len(c.launches) == 1
			if c.settled() {
				settled++
			}
		}
	}
	want(unexecuted > 0, "**Not measured:** %s not passed", counted(unexecuted,
		"required point was never executed, so it has", "required points were never executed, so they have"))
	ratio := fmt.Sprintf("(%d of %d settled", settled, timed)
	if single {
		ratio += ", one launch each"
	}
	want(timed > 0 && settled == timed, "times are **usable** %s)", ratio)
	want(timed > 0 && settled < timed && 2*settled >= timed, "times are **usable with care** %s", ratio)
	want(timed > 0 && 2*settled < timed, "times are **not usable** %s", ratio)
	return problems
}

// fastest checks the lines that name the fastest algorithms and their speed.
func (o oracle) fastest(text string) (problems []string) {
	sizes := o.sizes()
	var parts, open []string
	first, last, current := int64(0), int64(0), ""
	flush := func() {
		switch {
		case current == "":
		case first == last:
			parts = append(parts, fmt.Sprintf("%s at %s", current, unit.FormatBytes(first)))
		default:
			parts = append(parts, fmt.Sprintf("%s from %s to %s", current, unit.FormatBytes(first), unit.FormatBytes(last)))
		}
		current = ""
	}
	rivals := 0
	for _, size := range sizes {
		names := joinOr(o.winners(size))
		rivals = max(rivals, len(o.at(size, named)))
		if names == "" {
			flush()
			open = append(open, unit.FormatBytes(size))
			continue
		}
		if names != current {
			flush()
			current, first = names, size
		}
		last = size
	}
	flush()
	if len(parts) == 0 {
		if len(sizes) > 0 && !strings.Contains(text, "- **Fastest:** not resolved: ") {
			problems = append(problems, "does not say that the fastest is not resolved")
		}
	} else if len(open) > 0 {
		parts = append(parts, "not resolved at "+strings.Join(open, ", "))
	}
	line := "- **Fastest, " + setting + ":** " + strings.Join(parts, ", ")
	if claims := strings.Contains(text, "- **Fastest, "); rivals > 1 && len(parts) > 0 && !strings.Contains(text, line) ||
		len(parts) == 0 && claims {
		problems = append(problems, "want "+line)
	}
	speed := "- **Speed, " + setting + ":** at "
	if len(sizes) == 0 || len(o.winners(slices.Max(sizes))) == 0 {
		if strings.Contains(text, speed) {
			problems = append(problems, "states a speed at a size without a winner")
		}
		return problems
	}
	most := slices.Max(sizes)
	best := fastestOf(o.at(most, named))
	us, low, high := best.time()
	list, _ := best.counting()
	want := fmt.Sprintf(" with %s (%s to %s in %d launches), a busbw of %s GB/s", unit.FormatMicros(us),
		unit.FormatMicros(low), unit.FormatMicros(high), len(list), unit.FormatSig(float64(most)/us/1e3*1.5, 3))
	if at := strings.Index(text, speed+unit.FormatBytes(most)+" the fastest is "); at < 0 ||
		!strings.Contains(text[at:], want) {
		problems = append(problems, fmt.Sprintf("want %s%s ... %s", speed, unit.FormatBytes(most), want))
	}
	return problems
}

func joinOr(names []string) string {
	return strings.Replace(strings.Join(names, " or "), " or ", ", ", max(len(names)-2, 0))
}

func splitOr(list string) []string {
	return strings.Split(strings.ReplaceAll(list, " or ", ", "), ", ")
}

// best checks the table of the fastest algorithms: a line for each size.
func (o oracle) best(table [][]string) (problems []string) {
	if len(o.resolved()) == 0 {
		if table != nil {
			problems = append(problems, "a table of the fastest without a result")
		}
		return problems
	}
	for i, size := range o.sizes() {
		line := table[1+i]
		names, cells := o.winners(size), o.at(size, named)
		switch {
		case line[1] != unit.FormatBytes(size):
			problems = append(problems, fmt.Sprintf("line %d is about %s, not %d", i, line[1], size))
		case len(names) == 0 && !strings.HasPrefix(line[2], "not resolved: "):
			problems = append(problems, line[1]+": names "+line[2])
		case len(names) > 0 && !slices.Equal(splitOr(line[2]), names):
			problems = append(problems, fmt.Sprintf("%s: names %s, want %s", line[1], line[2], names))
		case len(names) > 0 && len(cells) > 1:
			best := fastestOf(cells)
			second := fastestOf(slices.DeleteFunc(cells, func(c cellOfRun) bool { return c.algorithm == best.algorithm }))
			a, _, _ := best.time()
			b, _, _ := second.time()
			if want := fmt.Sprintf("%.0f %%", 100*(b/a-1)); line[4] != second.algorithm || line[5] != want {
				problems = append(problems, fmt.Sprintf("%s: second %s %s, want %s %s", line[1], line[4], line[5],
					second.algorithm, want))
			}
		}
	}
	return problems
}

// tuning checks that the table lists what the file has, that no entry makes a call slower, and that an entry replaces a
// choice that is slower beyond the ranges of the launches.
func (o oracle) tuning(rows []journal.Row, text string, table [][]string) (problems []string) {
	files, err := Exports(dataset.All(rows))
	if err != nil {
		return []string{err.Error()}
	}
	if len(files) == 0 {
		return nil
	}
	file, err := tuning.Parse(files[0].Data)
	if err != nil {
		return []string{err.Error()}
	}
	entries := file.Entries()
	if len(entries) != max(len(table)-1, 0) || len(entries) == 0 && !strings.Contains(text, "has no entries: ") {
		problems = append(problems, fmt.Sprintf("%d entries, %d lines", len(entries), len(table)-1))
	}
	for i, e := range entries {
		if line := table[1+i]; line[4] != unit.FormatBytes(int64(e.MaxBytes)) || line[5] != e.Algorithm {
			problems = append(problems, fmt.Sprintf("line %v, entry %+v", line, e))
		}
	}
	good := func(c cellOfRun) bool {
		return c.settled() && c.repeated() && (c.algorithm == "auto" ||
			slices.Contains(schedule.Names(schedule.AllReduce), c.algorithm))
	}
	for _, size := range o.sizes() {
		builtIn := tuning.Default().Choose("cpu", schedule.AllReduce, 4, dtype.F32, int(size), true).Algorithm
		today, cells := builtIn, o.at(size, good)
		for _, c := range o.at(size, func(c cellOfRun) bool { return c.algorithm == "auto" }) {
			today = c.executed
		}
		chosen := file.For(tuning.Group{Host: "here"}).Choose("cpu", schedule.AllReduce, 4, dtype.F32, int(size), true)
		byName := map[string]cellOfRun{}
		for _, c := range cells {
			byName[c.algorithm] = c
		}
		now, measured := byName["auto"]
		if !measured {
			now, measured = byName[today]
		}
		delete(byName, "auto")
		best := fastestOf(slices.DeleteFunc(cells, func(c cellOfRun) bool { return c.algorithm == "auto" }))
		switch name := chosen.Algorithm; {
		case name == "" || name == today:
			own, has := byName[name] // auto may have taken another time with the same algorithm
			if name == today && measured && best.ran() && now.slower(best) && (!has || own.slower(best)) {
				problems = append(problems, fmt.Sprintf("%d: keeps %s, which is slower than %s", size, name, best.algorithm))
			}
		case !measured || !byName[name].ran() || !now.slower(byName[name]):
			problems = append(problems, fmt.Sprintf("%d: %s replaces %s, which is not known to be slower", size, name, today))
		}
	}
	return problems
}

// warnings checks which times contradict a limit, and which algorithms take the same time.
func (o oracle) warnings(text string) (problems []string) {
	want := map[string]bool{}
	sound := map[string][]cellOfRun{}
	for _, c := range o.run.timed {
		if !c.ran() {
			continue
		}
		us, low, high := c.time()
		if c.limit > 0 && max(us, high) < 0.8*c.limit && low > 0 {
			want[fmt.Sprintf("**above-limit**: %s, %s, cpu at %s takes %s", c.algorithm, setting, unit.FormatBytes(c.size),
				unit.FormatMicros(us))] = true
		}
		if c.settled() && c.algorithm != "auto" {
			sound[c.algorithm] = append(sound[c.algorithm], c)
		}
	}
	for a, as := range sound {
		for b, bs := range sound {
			if a < b && identical(as, bs) {
				want[fmt.Sprintf("**identical**: %s and %s take the same time", a, b)] = true
			}
		}
	}
	for line := range want {
		if !strings.Contains(text, line) {
			problems = append(problems, "lacks "+line)
		}
	}
	if n := strings.Count(text, "\n- "); n != len(want) {
		problems = append(problems, fmt.Sprintf("%d warnings, want %d: %v", n, len(want), want))
	}
	return problems
}

// identical repeats the rule of docs/models.md: equal within 0.02 % at one common size, 0.1 % at two, and within their
// noise at more.
func identical(as, bs []cellOfRun) bool {
	var diffs, allowed []float64
	for _, a := range as {
		for _, b := range bs {
			if a.size != b.size {
				continue
			}
			x, xl, xh := a.time()
			y, yl, yh := b.time()
			noise := math.Hypot((xh-xl)/2/x, (yh-yl)/2/y)
			if noise > 0.05 {
				noise = -1
			}
			diffs, allowed = append(diffs, math.Abs(x-y)/min(x, y)), append(allowed, noise)
		}
	}
	for i := range diffs {
		most := map[bool]float64{true: 0.0002, false: 0.001}[len(diffs) == 1]
		if len(diffs) > 2 {
			if allowed[i] < 0 {
				return false
			}
			most = max(most, allowed[i])
		}
		if diffs[i] > most {
			return false
		}
	}
	return len(diffs) > 0
}

var boundRE = regexp.MustCompile(`(latency|bandwidth)-bound (?:at|from) (\S+?)(?: to (\S+?))?(?:,|$| \()`)

// fits checks every fitted line against the times that it describes.
func (o oracle) fits(text string, table [][]string) (problems []string) {
	by := map[string][]cellOfRun{}
	for _, c := range o.run.timed {
		if c.ran() {
			by[c.algorithm] = append(by[c.algorithm], c)
		}
	}
	reliable := func(cells []cellOfRun) bool {
		return !slices.ContainsFunc(cells, func(c cellOfRun) bool { return !c.settled() || !c.repeated() })
	}
	if table == nil {
		for name, cells := range by {
			if reliable(cells) {
				problems = append(problems, "no line for "+name+": "+text)
			}
		}
		return problems
	}
	current := ""
	for _, line := range table[1:] {
		if line[1] != "" {
			current = line[1]
		}
		cells := by[current]
		if open := strings.HasPrefix(line[6], "not resolved: "); open == reliable(cells) && line[1] != "" {
			problems = append(problems, fmt.Sprintf("%s: %q, reliable %v", current, line[6], !open))
		}
		if line[2] != "" {
			problems = append(problems, checkLine(line, cells)...)
		}
	}
	return problems
}

// checkLine recomputes the worst error of a fitted line and what decides.
func checkLine(line []string, cells []cellOfRun) (problems []string) {
	from, to, _ := strings.Cut(line[2], " to ")
	alpha, beta := number(line[3]), math.Inf(1)
	if line[4] != "no limit seen" {
		beta = number(line[4]) * 1e3
	}
	low, high, worst := sizeOf(from), sizeOf(to), 0.0
	for _, c := range cells {
		if c.size >= low && c.size <= high {
			us, _, _ := c.time()
			worst = max(worst, math.Abs(alpha+float64(c.size)/beta-us)/us)
		}
	}
	if math.Abs(100*worst-number(line[5])) > 2.5 {
		problems = append(problems, fmt.Sprintf("%v: the worst error is %.1f %%", line, 100*worst))
	}
	for _, m := range boundRE.FindAllStringSubmatch(line[6], -1) {
		for _, size := range m[2:] {
			bytes := sizeOf(size)
			share := alpha / (alpha + float64(bytes)/beta)
			if bytes >= low && bytes <= high && bytes > 0 &&
				(m[1] == "latency" && share < 0.63 || m[1] == "bandwidth" && share > 0.37) {
				problems = append(problems, fmt.Sprintf("%v: alpha is %.0f %% at %s", line, 100*share, size))
			}
		}
	}
	return problems
}

// number reads the number at the beginning of a text such as "9.8 µs"; times are in microseconds.
func number(text string) float64 {
	word, name, _ := strings.Cut(text, " ")
	v, _ := strconv.ParseFloat(word, 64)
	switch name {
	case "ns":
		return v / 1e3
	case "ms":
		return v * 1e3
	}
	return v
}

// sizeOf reads a size such as 64Ki.
func sizeOf(text string) int64 {
	for shift, name := range map[int]string{10: "Ki", 20: "Mi", 30: "Gi"} {
		if head, is := strings.CutSuffix(text, name); is {
			v, _ := strconv.ParseFloat(head, 64)
			return int64(v * float64(int64(1)<<shift))
		}
	}
	v, _ := strconv.ParseInt(text, 10, 64)
	return v
}

// advice checks the recommendations.
func (o oracle) advice(text string) (problems []string) {
	var want []string
	all := strings.Join(o.run.checks, "")
	if n := strings.Count(all, "f"); n > 0 {
		want = append(want, fmt.Sprintf("Fix the %s first", unit.Plural(n, "failed cell")))
	}
	if n := strings.Count(all, "n"); n > 0 {
		want = append(want, fmt.Sprintf("Run the %s", unit.Plural(n, "required cell")))
	}
	want = append(want, o.speedAdvice()...)
	paths := strings.Count(text, "Find out which path ran")
	for _, line := range want {
		if !strings.Contains(text, line) {
			problems = append(problems, "lacks "+line)
		}
	}
	if got := len(regexp.MustCompile(`(?m)^\d+\. `).FindAllString(text, -1)); got != min(len(want)+paths, 12) {
		problems = append(problems, fmt.Sprintf("%d recommendations, want %v and %d about paths", got, want, paths))
	}
	return problems
}

// speedAdvice returns the beginnings of the recommendations about times.
func (o oracle) speedAdvice() (want []string) {
	sizes := o.resolved()
	if len(sizes) == 0 {
		return nil
	}
	logs, n, worst, where := 0.0, 0, 1.0, int64(0)
	lossy, lossyAt := 1.0, int64(0)
	for _, size := range sizes {
		best := fastestOf(o.at(size, named))
		us, _, _ := best.time()
		for _, c := range o.at(size, func(c cellOfRun) bool { return c.settled() && c.repeated() }) {
			t, _, _ := c.time()
			switch {
			case c.algorithm == "auto":
				n++
				if c.executed != best.algorithm && c.slower(best) {
					logs += math.Log(t / us)
					if t/us > worst {
						worst, where = t/us, size
					}
				}
			case c.algorithm == "quickreduce" && best.slower(c) && us/t > lossy:
				lossy, lossyAt = us/t, size
			}
		}
	}
	if mean := math.Exp(logs / float64(n)); where > 0 && mean >= 1.05 {
		want = append(want, fmt.Sprintf("%s: give auto this run's `tuning.json` on this host: %.2fx over all sizes in the "+
			"geometric mean, %.2fx at %s", setting, mean, worst, unit.FormatBytes(where)))
	}
	if lossy >= 1.05 {
		want = append(want, fmt.Sprintf("%s: where its error bound is acceptable, quickreduce is %.2fx faster at %s", setting,
			lossy, unit.FormatBytes(lossyAt)))
	}
	last := sizes[len(sizes)-1]
	best := fastestOf(o.at(last, named))
	us, _, _ := best.time()
	limit := best.limit
	for _, c := range o.at(last, named) {
		limit = min(limit, c.limit)
	}
	if limit > 0 && us/limit >= 1.05 {
		want = append(want, fmt.Sprintf("%s: at %s the fastest, %s, reaches %.0f %% of bandwidth; a better kernel "+
			"could be up "+
			"to %.2fx faster", setting, unit.FormatBytes(last), joinOr(o.winners(last)), 100*limit/us, us/limit))
	}
	return want
}

// inference checks the conclusion for each language model.
func (o oracle) inference(text string) (problems []string) {
	sizes := o.resolved()
	if len(sizes) == 0 {
		if len(o.sizes()) > 0 && !strings.HasPrefix(text, "Not resolved: ") {
			problems = append(problems, "concludes for language models from "+text)
		}
		return problems
	}
	curve := map[int64]float64{}
	for _, size := range sizes {
		curve[size], _, _ = fastestOf(o.at(size, func(c cellOfRun) bool {
			return named(c) || c.algorithm == "auto" && c.settled() && c.repeated()
		})).time()
	}
	gpu, _ := llm.NamedGPU(llm.GPUs()[0])
	for _, name := range strings.Split(Models, ",") {
		m, _ := llm.Named(name)
		step := func(tokens int) (each, share float64, known bool) {
			each, known = interpolate(sizes, curve, int64(tokens*m.Hidden*2))
			comm := each * float64(2*m.Layers)
			floor := llm.FloorUS(m, gpu, llm.Tensor, 4, llm.Load{Tokens: tokens, Sequences: tokens})
			return each, 100 * comm / (comm + floor), known
		}
		decode, decodeShare, hasDecode := step(1)
		prefill, prefillShare, hasPrefill := step(512)
		cost := func(each, share float64) string {
			return fmt.Sprintf("spends %.0f %% of its time in all-reduces, %d of %s each", share, 2*m.Layers,
				unit.FormatMicros(each))
		}
		want := "not known: the run has no times at"
		switch {
		case hasDecode && hasPrefill && max(decodeShare, prefillShare) < 5:
			want = fmt.Sprintf("a faster all-reduce would hardly be noticed: it takes %.0f %%", decodeShare)
		case hasDecode && hasPrefill && decodeShare >= prefillShare:
			want = fmt.Sprintf("make messages of %s faster first: decode %s (prefill: %.0f %%)",
				unit.FormatBytes(int64(m.Hidden*2)), cost(decode, decodeShare), prefillShare)
		case hasDecode && hasPrefill:
			want = fmt.Sprintf("make messages of %s faster first: prefill %s (decode: %.0f %%)",
				unit.FormatBytes(int64(512*m.Hidden*2)), cost(prefill, prefillShare), decodeShare)
		case hasDecode:
			want = "decode " + cost(decode, decodeShare) + "; prefill is not known"
		case hasPrefill:
			want = "prefill " + cost(prefill, prefillShare) + "; decode is not known"
		}
		if !strings.Contains(text, fmt.Sprintf("- **%s:** %s", m.Title, want)) {
			problems = append(problems, m.Title+": want "+want)
		}
	}
	return problems
}

// interpolate returns the time of a message between two sizes of a curve, linearly in logarithms.
func interpolate(sizes []int64, curve map[int64]float64, bytes int64) (us float64, known bool) {
	for i, b := range sizes {
		if b == bytes {
			return curve[b], true
		}
		if i > 0 && sizes[i-1] < bytes && bytes < b {
			a := sizes[i-1]
			x := math.Log2(float64(bytes)/float64(a)) / math.Log2(float64(b)/float64(a))
			return math.Exp(math.Log(curve[a])*(1-x) + math.Log(curve[b])*x), true
		}
	}
	return 0, false
}
