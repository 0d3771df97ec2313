// Package culprit decides which rank is to blame when a program of several ranks fails or hangs.
// Ranks depend on each other: when one crashes, the others lose their connection to it, and when one sleeps, the others
// wait for it. The evidence is what the kernel reports about each process, the order in which the ranks ended, and
// their last output. If the evidence is not conclusive, no rank is blamed.
//
// [TakeSnapshot] and [Summarize] determine what a rank was doing. [Blame] decides, for programs, for workers and for
// the nodes of a job: these differ only in the evidence that they have. All functions except TakeSnapshot are pure.
package culprit

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// State describes what the processes of a rank were doing. Its text completes the phrase "it was".
type State string

// The states. A rank that is asleep has put itself to sleep for some time. A rank that is waiting can be woken by
// another rank.
const (
	Unknown State = ""
	Busy    State = "busy"
	Waiting State = "waiting"
	Asleep  State = "asleep"
	Kernel  State = "stuck in the kernel"
	Stopped State = "stopped"
)

// Activity describes what a rank was doing when it was observed.
type Activity struct {
	State State         `json:"state,omitempty"`
	Call  string        `json:"call,omitempty"` // system call in which it waited
	CPU   time.Duration `json:"cpu"`            // CPU time used by its living processes
}

func (d Activity) String() string {
	text := cmp.Or(string(d.State), "in an unknown state")
	if d.Call != "" {
		text += " in " + d.Call
	}
	return text
}

// Evidence is what is known about a launch, or a job of several nodes, that has failed or hung.
type Evidence struct {
	Ranks    []Rank
	Late     time.Duration // the time in which it should have ended, if it was stopped for exceeding it
	Launcher *Launcher     // the program that started the ranks, if it has ended too
}

// Rank holds the evidence about one rank, or about a node of a job as a whole.
type Rank struct {
	Rank int
	// Order is the position in the order in which the ranks ended, or in which their ends were reported, from 1. It is
	// 0 if the rank had not ended.
	Order    int
	End      string // a text that says how it ended
	Failed   bool   // ended with a non-zero code or by a signal
	Signal   syscall.Signal
	Stopped  bool      // ended after the launch was told to stop
	Activity *Activity // what it was doing before it was told to stop; nil if not known
	LastLine string    // most informative line of its last output

	Node        bool // the whole node has failed, with all its ranks
	Interrupted bool // a user has interrupted the node
	Missed      bool // its launcher had ended all ranks; this one was missed first, perhaps by chance

	// The following fields are the report of the rank itself.
	Phase     string // what it was doing; "" if it makes no reports
	Waiting   bool   // it only waits for other ranks
	Secondary bool   // its failure is a consequence of another rank's
	Cause     *int   // that other rank, if known
	Skipped   bool   // it has left the task without a result and without a failure
}

// Kind is the kind of a verdict.
type Kind int

// The kinds: a rank has failed, no rank has ended in time, or the launcher was killed or cancelled.
const (
	Failed Kind = iota
	Hung
	LauncherEnded
)

// Verdict is the result of blaming.
type Verdict struct {
	Rank   int // -1 if none stands out
	Reason string
	Kind   Kind
	Phase  string // as reported
	Order  int    // Order of the failure that shows it, which may be that of another rank; 0 if there is none
}

// Blame decides who is to blame: the launcher if it was ended from outside, because it then ends all ranks, or else a
// rank.
func Blame(e Evidence) Verdict {
	if why := e.Launcher.cause(); why != "" {
		return Verdict{Rank: -1, Kind: LauncherEnded, Reason: why}
	}
	if e.Late > 0 {
		return blameHang(e.Ranks, e.Late)
	}
	return blameFailure(e.Ranks)
}

// abruptSignals are sent by another program or caused by a fault of the process itself. Other signals may be a
// consequence of another rank's end: a broken pipe, an abort after an uncaught exception, or a launcher that ends the
// remaining ranks.
var abruptSignals = []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGILL, syscall.SIGFPE,
	syscall.SIGSYS}

// lostPeer matches the last output line of a program that has lost its connection to another rank.
var lostPeer = regexp.MustCompile(`(?i)connection (was )?(reset|closed|aborted|lost|refused)|broken ?pipe|` +
	`closed by (the )?(peer|remote)|` +
	`reset by peer|EOFError|unexpected EOF|\bpeer\b.*(gone|died|exited|lost|closed)|` +
	`remote (process|peer|rank|end)\b.*(exited|closed|failed|died|gone)|socket (was )?closed|lost (connection|contact)|` +
	`ConnectionError|DistNetworkError|ncclRemoteError|transport endpoint is not connected`)

// blameFailure chooses the rank to blame if at least one has failed: the most suspicious, and among equals the first.
// If that may be a victim, the cause can be a rank that has not failed by itself.
func blameFailure(ranks []Rank) Verdict {
	failed := lists.Filter(ranks, func(r Rank) bool { return r.Failed && !r.Stopped })
	if len(failed) == 0 {
		return Verdict{Rank: -1, Reason: "the program failed"}
	}
	slices.SortStableFunc(failed, func(a, b Rank) int {
		return cmp.Or(cmp.Compare(suspicion(a), suspicion(b)), cmp.Compare(a.Order, b.Order))
	})
	first := failed[0]
	v := Verdict{Rank: first.Rank, Phase: first.Phase, Order: first.Order,
		Reason: "the program ended with " + endWithLine(first)}
	if len(failed) > 1 {
		v.Reason += "; after it " + FormatRanks(rankNumbers(failed[1:])) + " failed too"
	}
	if cause, did := behind(first, ranks); did != "" {
		v.Rank, v.Reason = cause, fmt.Sprintf("the program %s, and %s then lost it", did, FormatRanks(rankNumbers(failed)))
	}
	return v
}

// behind returns the rank that has caused the failure of another one, and what it did. did is "" if the failed rank is
// itself to blame. rank is -1 if no rank stands out.
func behind(failed Rank, ranks []Rank) (rank int, did string) {
	const stopped = "was stopped (SIGSTOP)"
	held := lists.Filter(ranks, func(r Rank) bool { return !r.Stopped && r.was(Stopped) }) // while the launch ran
	switch {
	case suspicion(failed) <= abrupt:
		return -1, ""
	case len(held) > 0 && !slices.ContainsFunc(held, func(r Rank) bool { return r.Rank == failed.Rank }):
		return held[0].Rank, stopped // ranks that wait for it eventually give up and fail
	case failed.Missed: // a rank may have asked the launcher to end all (MPI_Abort)
		if tellers := lists.Filter(ranks, reportsOwnError); len(tellers) == 1 {
			return tellers[0].Rank, "ended with " + endWithLine(tellers[0])
		}
		return -1, ""
	case !isVictim(failed):
		return -1, ""
	}
	// Every rank that ended by itself has lost another rank. The cause may be a rank that has skipped the task, or one
	// that was about to end when the launch was stopped.
	for _, r := range ranks {
		switch {
		case r.Skipped:
			return -1, "skipped the task"
		case r.Stopped && r.was(Stopped):
			return r.Rank, stopped
		case r.Stopped && reportsOwnError(r):
			return r.Rank, "ended with " + endWithLine(r)
		}
	}
	if failed.Cause != nil { // it cannot report itself
		return *failed.Cause, "was lost"
	}
	return -1, ""
}

// was reports whether a rank was in a state when it was observed.
func (r Rank) was(s State) bool { return r.Activity != nil && r.Activity.State == s }

// reportsOwnError reports whether a rank's last output reports an error that is not the loss of another rank.
func reportsOwnError(r Rank) bool { return errorLine.MatchString(r.LastLine) && !isVictim(r) }

// abrupt is the largest suspicion of a failure that cannot be a consequence of another one.
const abrupt = 1

// suspicion returns a sort key for failures. The smaller it is, the more likely the failure is the cause.
func suspicion(r Rank) int {
	switch {
	case r.Interrupted: // the others follow from it, even if a rank received it first
		return 0
	case r.Node || slices.Contains(abruptSignals, r.Signal):
		return abrupt
	case !isVictim(r):
		return 2
	}
	return 3
}

func isVictim(r Rank) bool {
	return r.Secondary || r.Signal == syscall.SIGPIPE || lostPeer.MatchString(r.LastLine)
}

// endWithLine describes how a rank ended, with its last line of output.
func endWithLine(r Rank) string {
	if r.LastLine == "" {
		return r.End
	}
	return r.End + ": " + r.LastLine
}

// blameHang chooses the rank to blame if ranks have not ended in time. after is the time that they had.
func blameHang(ranks []Rank, after time.Duration) Verdict {
	v := Verdict{Rank: -1, Kind: Hung}
	late := fmt.Sprintf("the program did not end within %v", after)
	var running, ended []Rank
	for _, r := range ranks {
		if r.Order == 0 || r.Stopped {
			running = append(running, r)
		} else {
			ended = append(ended, r)
		}
	}
	if len(running) == 0 { // all of them ended while they were observed
		v.Reason = late
		return v
	}
	if running[0].Phase != "" { // they report what they do
		first := running[max(0, slices.IndexFunc(running, func(r Rank) bool { return !r.Waiting }))]
		v.Rank, v.Phase, v.Reason = first.Rank, first.Phase, fmt.Sprintf("not finished within %v", after)
		return v
	}
	slices.SortFunc(ended, func(a, b Rank) int { return cmp.Compare(a.Order, b.Order) })
	groups, clear := outlier(running)
	were := lists.Map(groups, func(g group) string { return g.String() })
	if len(ended) > 0 {
		were = append(were, FormatRanks(rankNumbers(ended))+" had ended")
	}
	v.Reason = late + ": " + strings.Join(were, ", ")
	switch first := groups[0].ranks[0]; {
	case len(ranks) == 1:
		v.Rank, v.Reason = first.Rank, late+": it was "+withCPU(first)
	case clear, len(running) == 1:
		v.Rank = first.Rank
	case len(ended) > 0 && len(ended) < len(running): // the others probably wait for a rank that has ended
		v.Rank = ended[0].Rank
		v.Reason = fmt.Sprintf("%s: rank %d had ended with %s, %s", late, ended[0].Rank, ended[0].End, groups[0])
	default:
		v.Reason += "; none stands out"
	}
	return v
}

func withCPU(r Rank) string {
	if r.Activity == nil {
		return Activity{}.String()
	}
	return fmt.Sprintf("%v, having used %.1f s of CPU time", r.Activity, r.Activity.CPU.Seconds())
}

// group is a set of ranks with the same activity.
type group struct {
	Activity
	ranks []Rank
}

func (g group) String() string {
	if len(g.ranks) == 1 {
		return fmt.Sprintf("%s was %v", FormatRanks(rankNumbers(g.ranks)), g.Activity)
	}
	return fmt.Sprintf("%s were %v", FormatRanks(rankNumbers(g.ranks)), g.Activity)
}

// outlier groups ranks by activity, the most suspicious first, and reports whether the first
// group clearly stands out. It compares states; the system calls count only if all states are
// equal.
func outlier(ranks []Rank) (groups []group, clear bool) {
	states := groupBy(ranks, func(d Activity) Activity { return Activity{State: d.State} })
	clear = standsOut(states)
	for _, g := range states {
		calls := groupBy(g.ranks, func(d Activity) Activity { return Activity{State: d.State, Call: d.Call} })
		if len(states) == 1 {
			clear = standsOut(calls)
		}
		groups = append(groups, calls...)
	}
	return groups, clear
}

func standsOut(groups []group) bool {
	return len(groups) > 1 && groups[0].State != Unknown && compareSuspicion(groups[0], groups[1]) < 0
}

// groupBy groups ranks by a part of their activity, the most suspicious group first.
func groupBy(ranks []Rank, part func(Activity) Activity) (groups []group) {
	for _, r := range ranks {
		var d Activity
		if r.Activity != nil {
			d = part(*r.Activity)
		}
		i := slices.IndexFunc(groups, func(g group) bool { return g.Activity == d })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{Activity: d})
		}
		groups[i].ranks = append(groups[i].ranks, r)
	}
	slices.SortStableFunc(groups, compareSuspicion)
	return groups
}

// compareSuspicion orders groups. First come states that another rank cannot cause (stopped, stuck
// in the kernel, asleep), then smaller groups, then ranks that do not wait for a message.
func compareSuspicion(a, b group) int {
	return cmp.Or(cmp.Compare(a.haltOrder(), b.haltOrder()), cmp.Compare(len(a.ranks), len(b.ranks)),
		cmp.Compare(a.waitOrder(), b.waitOrder()))
}

func (g group) haltOrder() int {
	if i := slices.Index([]State{Stopped, Kernel, Asleep}, g.State); i >= 0 {
		return i
	}
	return 3
}

// waitOrder returns a sort key: the larger it is, the more likely the ranks wait for a message from another rank.
func (g group) waitOrder() int {
	switch {
	case g.State == Busy:
		return 0
	case g.Call == "futex": // a lock within the process, or shared memory
		return 1
	}
	return 2
}

func rankNumbers(ranks []Rank) []int {
	out := lists.Map(ranks, func(r Rank) int { return r.Rank })
	slices.Sort(out)
	return out
}

// FormatRanks lists ranks as "rank 2", "ranks 0, 1, 3" or "ranks 0 to 2046".
func FormatRanks(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d", ranks[0])
	}
	var parts []string
	for i := 0; i < len(ranks); {
		end := i
		for end+1 < len(ranks) && ranks[end+1] == ranks[end]+1 {
			end++
		}
		if end-i < 2 { // a pair is listed as two ranks
			end = i
			parts = append(parts, fmt.Sprint(ranks[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d to %d", ranks[i], ranks[end]))
		}
		i = end + 1
	}
	return "ranks " + strings.Join(parts, ", ")
}

// maxLineRunes is the longest part of a line that is quoted.
const maxLineRunes = 200

var (
	// goCrash matches the first line of a Go runtime crash report, which stack traces follow.
	goCrash = regexp.MustCompile(`(?m)^(panic|fatal error): .*`)
	// errorLine matches a line that reports an error.
	errorLine = regexp.MustCompile(`(?i)\b\w*(error|exception)\b|` +
		`\b(panic|fatal|assert\w*|abort\w*|fail\w*|cannot|not found)\b|^\s*what\(\):`)
	ansiCodes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")
)

// CrashReport returns the crash report of a Go program, from its first line on, or nil if the text has none.
func CrashReport(text []byte) []byte {
	if at := goCrash.FindIndex(text); at != nil {
		return text[at[0]:]
	}
	return nil
}

// SalientLine returns the most informative line of a rank's last output: the last one that reports
// an error, looking at stderr first, or else the last line of either stream.
func SalientLine(stderr, stdout string) string {
	last := ""
	for _, text := range []string{stderr, stdout} {
		text = ansiCodes.ReplaceAllString(text, "")
		if at := goCrash.FindString(text); at != "" {
			return shorten(at)
		}
		lines := strings.Split(text, "\n")
		for i := len(lines) - 1; i >= 0; i-- {
			line := lines[i]
			switch {
			case !strings.ContainsFunc(line, unicode.IsLetter):
			case errorLine.MatchString(line):
				return shorten(line)
			case last == "":
				last = line
			}
		}
	}
	return shorten(last)
}

func shorten(line string) string {
	line = strings.TrimSpace(line)
	if r := []rune(line); len(r) > maxLineRunes {
		return string(r[:maxLineRunes-1]) + "…"
	}
	return line
}
