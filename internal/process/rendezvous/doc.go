// Package rendezvous is where the nodes of one job meet, learn who they are,
// and stay in touch until the job ends: a small TCP store that one of the nodes
// runs in its own process.
//
// Each node calls [Meet] with the same endpoint. The one that owns the
// endpoint's address becomes the host, and all of them, the host itself
// included, are members. A round begins when every node is ready for it; a
// failure anywhere ends it everywhere, with one verdict that names what failed
// first; silence and closed connections are failures too. Then comes the next
// round, if the restarts allow it, or the end.
//
// Members prove to each other that they know a shared secret, which itself
// never travels, and every message is authenticated with a key that only they
// can derive. Nothing is encrypted: no message holds anything worth hiding.
//
// The package starts no process and knows nothing of logs or environments: what
// a node does in a round is its caller's matter.
package rendezvous

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Round is one start of the whole group.
type Round struct {
	Attempt    int      `json:"attempt"` // 0, then one more for each restart
	Node       int      `json:"node"`    // this node's rank
	Hosts      []string `json:"hosts"`   // the nodes' names, by node rank
	MasterAddr string   `json:"master_addr"`
	MasterPort int      `json:"master_port"`
	// Coordinator is the rank of the node that runs the rendezvous.
	Coordinator int `json:"coordinator"`
}

// Failure is what ended a round: a rank, or a whole node.
type Failure struct {
	Node int    `json:"node"`
	Host string `json:"host"`
	Rank int    `json:"rank"` // NoRank when it was none
	PID  int    `json:"pid,omitempty"`
	// Cause completes "rank 3 ...": "ended with exit code 1".
	Cause  string         `json:"cause"`
	Signal syscall.Signal `json:"signal,omitempty"` // that ended the rank, if one did
	Code   int            `json:"code"`             // exit code that the whole job gets
	Output string         `json:"output,omitempty"` // its last lines
	Note   string         `json:"note,omitempty"`   // what else was odd at the time
	// More says that the last lines are still to come, in a second report: who
	// failed first must be known before that.
	More bool `json:"more,omitempty"`
}

// NoRank is the Rank of a failure that no single rank caused.
const NoRank = -1

// LauncherStopped is the failure of a node whose launcher was stopped for so long that the others
// have given it up.
func LauncherStopped(pid int, stood time.Duration) Failure {
	const cause = "was stopped for %v (SIGSTOP, or starved of CPU), and the others gave it up"
	return Failure{Rank: NoRank, PID: pid, Code: 1, Cause: fmt.Sprintf(cause, stood.Round(time.Second))}
}

// String is the one message about a failure.
func (f Failure) String() string {
	var b strings.Builder
	if f.Rank == NoRank {
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

// SharedHosts says which hosts have several nodes, "" if none has.
func (r Round) SharedHosts() string {
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
	Restart bool    `json:"restart"` // another round follows
}

// Event is what a member hears; exactly one field is set.
type Event struct {
	Start    *Round   `json:"start,omitempty"`
	Stop     *Verdict `json:"stop,omitempty"`
	Finished bool     `json:"finished,omitempty"` // every node is done
	Refused  string   `json:"refused,omitempty"`  // there will be no round: why
	// Lost says that this node is cut off from the rendezvous; nothing follows.
	Lost string `json:"-"`
}
