package node

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/process/culprit"
)

// Round is one start of the whole group.
type Round struct {
	Attempt    int      `json:"attempt"` // 0, plus one for each restart
	Node       int      `json:"node"`    // this node's rank
	Hosts      []string `json:"hosts"`   // host names by node rank
	MasterAddr string   `json:"master_addr"`
	MasterPort int      `json:"master_port"`
	// Coordinator is the rank of the node that hosts the rendezvous.
	Coordinator int `json:"coordinator"`
}

// Failure is the failure of a rank, or of a whole node, that ended a round.
type Failure struct {
	Node int    `json:"node"`
	Host string `json:"host"`
	Rank int    `json:"rank"` // noRank for a whole node
	PID  int    `json:"pid,omitempty"`
	// Cause completes "rank 3 ...": "ended with exit code 1".
	Cause  string         `json:"cause"`
	Signal syscall.Signal `json:"signal,omitempty"` // that ended the rank, 0 if none did
	Code   int            `json:"code"`             // exit code of the whole job
	Output string         `json:"output,omitempty"` // its last lines
	Note   string         `json:"note,omitempty"`   // other irregularities at the time
	// More announces a second report with the last lines of output. The first report must not wait for them, because the
	// order in which failures are reported matters.
	More bool `json:"more,omitempty"`
}

// noRank is the Rank of a failure that concerns a whole node.
const noRank = -1

// launcherPaused returns the failure of a node whose launcher made no progress for so long that the other nodes
// considered it dead. pause describes why, as returned by [connection.Pause.Cause].
func launcherPaused(pid int, pause string) Failure {
	return Failure{Rank: noRank, PID: pid, Code: 1, Cause: pause + ", and the others gave it up"}
}

// String returns the message about the failure, over several lines if it quotes output.
func (f Failure) String() string {
	var b strings.Builder
	if f.Rank == noRank {
		fmt.Fprintf(&b, "node %d (host %s", f.Node, f.Host)
	} else {
		fmt.Fprintf(&b, "rank %d (node %d, host %s", f.Rank, f.Node, f.Host)
	}
	if f.PID > 0 {
		fmt.Fprintf(&b, ", pid %d", f.PID)
	}
	fmt.Fprintf(&b, ") %s", f.Cause)
	if f.Note != "" {
		fmt.Fprintf(&b, "; %s", f.Note)
	}
	if f.Output != "" {
		b.WriteString("; its last output:")
		for line := range strings.Lines(f.Output) {
			b.WriteString("\n    " + strings.TrimRight(line, "\n"))
		}
	}
	return b.String()
}

// sharedHosts returns a text that lists the hosts with several nodes, or "" if there are none.
func (r Round) sharedHosts() string {
	var texts []string
	for _, host := range lists.Distinct(r.Hosts) {
		var nodes []string
		for i, other := range r.Hosts {
			if other == host {
				nodes = append(nodes, fmt.Sprint(i))
			}
		}
		if len(nodes) > 1 {
			texts = append(texts, fmt.Sprintf("nodes %s are all on host %s", strings.Join(nodes, ", "), host))
		}
	}
	return strings.Join(texts, "; ")
}

// Verdict ends a round on every node.
type Verdict struct {
	Failure Failure `json:"failure"`
	// Restarts is the number of restarts with the one that follows; 0 if none follows.
	Restarts int `json:"restarts,omitempty"`
}

// Event is a message from the rendezvous to a node. Exactly one field is set.
type Event struct {
	Start    *Round   `json:"start,omitempty"`
	Stop     *Verdict `json:"stop,omitempty"`
	Finished bool     `json:"finished,omitempty"` // every node is done
	Refused  string   `json:"refused,omitempty"`  // no round will start, and why
	// Lost is the reason why this node has lost the rendezvous. No event follows.
	Lost string `json:"-"`
}

// rankStopped is the failure of a rank that has been stopped by a signal.
func rankStopped(rank, pid int, stopped time.Duration) Failure {
	return Failure{Rank: rank, PID: pid, Code: 1,
		Cause: fmt.Sprintf("has been stopped for %v (SIGSTOP, or a terminal's job control)", stopped)}
}

// interruptedCode is the Code of a failure that a user requested, such as by Ctrl-C.
const interruptedCode = 130

// blame returns the failure that explains the others. Failures are in the order of their reports; stopped has the ranks
// that were stopped meanwhile.
func blame(failures, stopped []Failure) Failure {
	var e culprit.Evidence
	for i, f := range failures {
		e.Ranks = append(e.Ranks, culprit.Rank{Rank: f.Rank, Order: i + 1, Failed: true, Signal: f.Signal,
			LastLine: culprit.SalientLine(f.Output, ""), Node: f.Rank == noRank,
			Interrupted: f.Rank == noRank && f.Code == interruptedCode})
	}
	for _, f := range stopped {
		e.Ranks = append(e.Ranks, culprit.Rank{Rank: f.Rank, Activity: &culprit.Activity{State: culprit.Stopped}})
	}
	v := culprit.Blame(e)
	f := failures[v.Order-1]
	if cause, is := lists.First(stopped, func(s Failure) bool { return s.Rank == v.Rank }); is && f.Rank != v.Rank {
		cause.Note = fmt.Sprintf("after that, rank %d (host %s) %s", f.Rank, f.Host, f.Cause)
		return cause
	}
	return f
}
