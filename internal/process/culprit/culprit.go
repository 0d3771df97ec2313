// Package culprit decides which rank of a program is to blame when the program fails or hangs. Ranks
// that depend on each other fall together: one crashes and the others lose their connection to it, one
// sleeps and the others wait for it. What the kernel tells of each process, the order in which they
// ended and what they said last is mostly enough to tell the one from the others; where it is not, no
// rank is named.
//
// [Read] and [Sum] find out what a rank is at, [Failed] and [Hung] decide. All but Read and [Stat] are pure.
package culprit

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// State is what the processes of a rank are at, in words that complete "it was".
type State string

// The states. A rank that is asleep has set itself to sleep and nothing wakes it; one that waits may
// be woken by another.
const (
	Unknown State = ""
	Busy    State = "busy"
	Waiting State = "waiting"
	Asleep  State = "asleep"
	Kernel  State = "stuck in the kernel"
	Stopped State = "stopped"
)

// Activity is what a rank was at when it was looked at.
type Activity struct {
	State State         `json:"state,omitempty"`
	Call  string        `json:"call,omitempty"` // the system call in which it waited
	CPU   time.Duration `json:"cpu"`            // that its living processes had used
}

func (d Activity) String() string {
	text := cmp.Or(string(d.State), "in an unknown state")
	if d.Call != "" {
		text += " in " + d.Call
	}
	return text
}

// Rank is what is known of a rank of a launch that failed or hung.
type Rank struct {
	Rank int
	// Order is the rank's place in the order in which the ranks ended, from 1; 0 when it still ran.
	Order    int
	End      string // how it ended, in words
	Failed   bool   // it ended with a non-zero code or by a signal
	Signal   syscall.Signal
	Stopped  bool      // it ended after it had been told to
	Activity *Activity // when the launch was stopped; nil when not known
	LastLine string    // its last words
}

// Verdict is the rank to blame, -1 when none stands out, and what to say of it.
type Verdict struct {
	Rank   int
	Reason string
}

// ownSignals are those that come from the fault of the process itself or from outside. The others may
// follow from the end of another rank: a broken pipe, an uncaught exception that ends in abort, a
// launcher that ends the rest.
var ownSignals = []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGILL, syscall.SIGFPE,
	syscall.SIGSYS}

// IsAbrupt reports whether a signal ends a process from outside or for a fault of its own.
func IsAbrupt(s syscall.Signal) bool { return slices.Contains(ownSignals, s) }

// lostPeer matches the last words of one who has lost another.
var lostPeer = regexp.MustCompile(`(?i)connection (was )?(reset|closed|aborted|lost|refused)|broken ?pipe|closed by (the )?(peer|remote)|` +
	`reset by peer|EOFError|unexpected EOF|\bpeer\b.*(gone|died|exited|lost|closed)|` +
	`remote (process|peer|rank|end)\b.*(exited|closed|failed|died|gone)|socket (was )?closed|lost (connection|contact)|` +
	`ConnectionError|DistNetworkError|ncclRemoteError|transport endpoint is not connected`)

// BlameFailure decides between ranks of which at least one failed. The first to end is the cause, unless it says that it lost
// another; of those that the same moment has taken, one that was killed by a signal.
func BlameFailure(ranks []Rank) Verdict {
	var failed, told []Rank
	for _, r := range ranks {
		switch {
		case r.Failed && !r.Stopped:
			failed = append(failed, r)
		case r.Stopped:
			told = append(told, r)
		}
	}
	slices.SortStableFunc(failed, func(a, b Rank) int { return cmp.Compare(a.Order, b.Order) })
	slices.SortStableFunc(failed, func(a, b Rank) int { return cmp.Compare(suspicion(a), suspicion(b)) })
	if len(failed) == 0 {
		return Verdict{Rank: -1, Reason: "the program failed"}
	}
	first := failed[0]
	if victim(first) {
		// All who ended by themselves have lost another. It may be one that was still ending when it was stopped.
		for _, r := range told {
			if r.Activity != nil && r.Activity.State == Stopped {
				return Verdict{r.Rank, fmt.Sprintf("the program was stopped (SIGSTOP), and %s", lostIt(failed))}
			}
			if telling.MatchString(r.LastLine) && !victim(r) {
				return Verdict{r.Rank, fmt.Sprintf("the program ended with %s, and %s", with(r), lostIt(failed))}
			}
		}
	}
	reason := "the program ended with " + with(first)
	if len(failed) > 1 {
		reason += "; after it " + failedToo(failed[1:])
	}
	return Verdict{first.Rank, reason}
}

// SoleReporter is the only rank whose last words tell of an error of its own, -1 when there is none or there
// are several. It is the cause where all have been killed at once, by a launcher that one has asked
// to.
func SoleReporter(ranks []Rank) int {
	teller := -1
	for _, r := range ranks {
		if telling.MatchString(r.LastLine) && !victim(r) {
			if teller >= 0 {
				return -1
			}
			teller = r.Rank
		}
	}
	return teller
}

// suspicion is smaller for a rank that is more likely the cause.
func suspicion(r Rank) int {
	switch {
	case IsAbrupt(r.Signal):
		return 0
	case victim(r):
		return 2
	}
	return 1
}

func victim(r Rank) bool { return r.Signal == syscall.SIGPIPE || lostPeer.MatchString(r.LastLine) }

// with is how a rank ended, with its last words.
func with(r Rank) string {
	if r.LastLine == "" {
		return r.End
	}
	return r.End + ": " + r.LastLine
}

func lostIt(victims []Rank) string {
	return fmt.Sprintf("%s then lost it", FormatRanks(numbers(victims)))
}

func failedToo(ranks []Rank) string { return FormatRanks(numbers(ranks)) + " failed too" }

// BlameHang decides between ranks that did not end in time: after is how long they had.
func BlameHang(ranks []Rank, after time.Duration) Verdict {
	late := fmt.Sprintf("the program did not end within %v", after)
	var running, ended []Rank
	for _, r := range ranks {
		if r.Order == 0 || r.Stopped {
			running = append(running, r)
		} else {
			ended = append(ended, r)
		}
	}
	if len(running) == 0 { // they ended while they were looked at
		return Verdict{-1, late}
	}
	slices.SortFunc(ended, func(a, b Rank) int { return cmp.Compare(a.Order, b.Order) })
	groups, clear := oddOneOut(running)
	were := lists.Map(groups, func(g group) string { return g.String() })
	if len(ended) > 0 {
		were = append(were, FormatRanks(numbers(ended))+" had ended")
	}
	reason := late + ": " + strings.Join(were, ", ")
	switch first := groups[0].ranks[0]; {
	case len(ranks) == 1:
		return Verdict{first.Rank, late + ": it was " + withCPU(first)}
	case clear, len(running) == 1:
		return Verdict{first.Rank, reason}
	case len(ended) > 0 && len(ended) < len(running): // the others wait for one that has left
		return Verdict{ended[0].Rank, fmt.Sprintf("%s: rank %d had ended with %s, %s", late, ended[0].Rank, ended[0].End,
			groups[0])}
	}
	return Verdict{-1, reason + "; none stands out"}
}

func withCPU(r Rank) string {
	if r.Activity == nil {
		return Activity{}.String()
	}
	return fmt.Sprintf("%v, having used %.1f s of CPU time", r.Activity, r.Activity.CPU.Seconds())
}

// group is ranks that were at the same.
type group struct {
	Activity
	ranks []Rank
}

func (g group) String() string {
	if len(g.ranks) == 1 {
		return fmt.Sprintf("%s was %v", FormatRanks(numbers(g.ranks)), g.Activity)
	}
	return fmt.Sprintf("%s were %v", FormatRanks(numbers(g.ranks)), g.Activity)
}

// oddOneOut groups ranks by what they were at, those to blame first, and reports whether these differ
// from the others in more than chance would have it. States come before the calls in which ranks wait.
func oddOneOut(ranks []Rank) (groups []group, clear bool) {
	states := grouped(ranks, func(d Activity) Activity { return Activity{State: d.State} })
	clear = differs(states)
	for _, g := range states {
		calls := grouped(g.ranks, func(d Activity) Activity { return Activity{State: d.State, Call: d.Call} })
		if len(states) == 1 {
			clear = differs(calls)
		}
		groups = append(groups, calls...)
	}
	return groups, clear
}

func differs(groups []group) bool {
	return len(groups) > 1 && groups[0].State != Unknown && suspects(groups[0], groups[1]) < 0
}

// grouped gathers ranks by a part of what they were at, the most suspicious group first.
func grouped(ranks []Rank, part func(Activity) Activity) (groups []group) {
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
	slices.SortStableFunc(groups, suspects)
	return groups
}

// suspects compares groups: first comes what only the rank itself or somebody outside of the program can have caused,
// then the smaller number, then who does not wait for a message.
func suspects(a, b group) int {
	return cmp.Or(cmp.Compare(a.halted(), b.halted()), cmp.Compare(len(a.ranks), len(b.ranks)),
		cmp.Compare(a.waits(), b.waits()))
}

func (g group) halted() int {
	if i := slices.Index([]State{Stopped, Kernel, Asleep}, g.State); i >= 0 {
		return i
	}
	return 3
}

// waits is larger the more likely it is that a message of another rank is missing.
func (g group) waits() int {
	switch {
	case g.State == Busy:
		return 0
	case g.Call == "futex": // a lock of its own, or shared memory
		return 1
	}
	return 2
}

func numbers(ranks []Rank) []int {
	out := lists.Map(ranks, func(r Rank) int { return r.Rank })
	slices.Sort(out)
	return out
}

// FormatRanks names ranks: "rank 2", "ranks 0, 1, 3", "ranks 0 to 2046".
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
		switch {
		case end-i >= 2:
			parts = append(parts, fmt.Sprintf("%d to %d", ranks[i], ranks[end]))
		case end > i:
			parts = append(parts, fmt.Sprint(ranks[i]), fmt.Sprint(ranks[end]))
		default:
			parts = append(parts, fmt.Sprint(ranks[i]))
		}
		i = end + 1
	}
	return "ranks " + strings.Join(parts, ", ")
}
