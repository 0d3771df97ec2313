// Package worker implements both ends of the connection between the supervisor and the processes
// that run a bench's body. A worker is the same binary, started again with an address and a
// one-time token in its environment. It connects back, receives its job, runs one task after
// another, and returns the results. Package launch starts and kills processes; package run decides
// what to run next and what a failure means.
package worker

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// The variables that make a process a worker. They are removed from its environment before the body
// runs, so that child processes do not become workers.
const (
	addrVar  = "KERNBENCH_WORKER"
	tokenVar = "KERNBENCH_TOKEN"
	syncVar  = "KERNBENCH_SYNC" // kind of sync group: syncShm or syncHub
)

// The kinds of sync group: over shared memory on descriptor ShmFD, or over a second connection to
// the hub, for ranks that may be on several hosts.
const (
	syncShm = "shm"
	syncHub = "hub"
)

// ShmFD is the descriptor of the sync group's shared memory in a worker: its first extra file.
const ShmFD = 3

// Service returns the protocol between a worker and its supervisor. Both prove that they know the token.
func Service(token string) connection.Service {
	return connection.Service{Banner: "kernbench worker 3\n", Secret: []byte(token)}
}

// Job describes a launch to its workers: everything that its tasks have in common.
type Job struct {
	Bench string `json:"bench"`
	Part  string `json:"part"`
	// Script is the interpreter, the file with the bodies, and the file's SHA-256. It is empty if
	// this program has the bodies.
	Script []string `json:"script,omitempty"`
	// ImportLimit limits the import of the file with the bodies; 0 means the default.
	ImportLimit time.Duration `json:"import_limit,omitempty"`
	Size        int           `json:"size"`
	// InProcess means that this worker has all ranks of the launch, as goroutines.
	InProcess bool `json:"in_process,omitempty"`
	// Virtual means that this worker is rank 0 and there is no other.
	Virtual bool           `json:"virtual,omitempty"`
	Backend string         `json:"backend"`
	Session string         `json:"session"` // random ID of this launch
	Seed    uint64         `json:"seed"`
	Watch   []string       `json:"watch"` // swept variables to report
	Measure measure.Config `json:"measure"`
	// Inputs are the planned SHA-256 sums of the files that options name, and of other inputs that are
	// identified by their content.
	Inputs map[string]string `json:"inputs,omitempty"`
}

// Task is one point to run.
type Task struct {
	Index int          `json:"index"`
	Point point.Point  `json:"point"` // axes and options
	Kinds []point.Kind `json:"kinds"` // of the point's values, which JSON does not preserve
	Trial int          `json:"trial"`
	// Limit is the task's time limit. The supervisor enforces it; the body sees it as the deadline of
	// its context.
	Limit time.Duration `json:"limit,omitempty"`
}

// message is one frame in either direction. Exactly one field is set, except in the empty message of
// [Hub.Ping].
type message struct {
	// From the supervisor.
	Job   *Job    `json:"job,omitempty"`
	Task  *Task   `json:"task,omitempty"`
	Abort *string `json:"abort,omitempty"` // the reason
	Quit  bool    `json:"quit,omitempty"`

	// From a worker. The rank of an event is relative to the worker's first rank.
	Hello *hello `json:"hello,omitempty"`
	Event *Event `json:"event,omitempty"`
}

// hello is a worker's first message.
type hello struct {
	Rank int  `json:"rank"`
	Sync bool `json:"sync,omitempty"` // this connection is for the sync group
	// PID is the worker's process ID on its host. Host is its proc.Space: if the supervisor has
	// the same one, the PID is valid there too.
	PID  int    `json:"pid,omitempty"`
	Host string `json:"host,omitempty"`
	Name string `json:"name,omitempty"` // of its host, for messages
}

// Event is a worker's message, or the end of its connection.
type Event struct {
	Rank int `json:"rank,omitempty"`

	Joined bool `json:"-"`
	// PID is the process of a worker that has joined, or 0 if it is on another host.
	PID  int    `json:"-"`
	Host string `json:"-"` // name of the other host
	// Ready answers a job, with the swept variables as the worker sees them, or with an error.
	Ready bool               `json:"ready,omitempty"`
	Env   map[string]*string `json:"env,omitempty"`
	Error string             `json:"error,omitempty"`
	// Heartbeat means that the rank is alive. Phase and Waiting are what it is doing.
	Heartbeat bool   `json:"beat,omitempty"`
	Phase     string `json:"phase,omitempty"`
	Waiting   bool   `json:"waiting,omitempty"` // only for other ranks, so it is not to blame for a hang
	// Done is the outcome of a task on one rank.
	Done      *decl.Outcome `json:"done,omitempty"`
	Index     int           `json:"index,omitempty"`
	Secondary bool          `json:"secondary,omitempty"` // the failure is a consequence of another rank's
	Culprit   *int          `json:"culprit,omitempty"`   // that other rank, if known
	// Closed is the end of the connection.
	Closed bool `json:"-"`
}

// maybeHelper runs this process as a helper of a bench if its environment asks for one, and reports
// whether it did.
func maybeHelper(benches []*bench.Bench) (exitCode int, is bool) {
	role, is := os.LookupEnv(launch.HelperVar)
	if !is {
		return 0, false
	}
	os.Unsetenv(launch.HelperVar)
	benchName, name, _ := strings.Cut(role, "/")
	for _, b := range benches {
		if f := b.Helpers[name]; b.Name == benchName && f != nil {
			if err := f(os.Args[1:]); err != nil {
				fmt.Fprintf(os.Stderr, "helper %s: %v\n", role, err)
				return 1, true
			}
			return 0, true
		}
	}
	fmt.Fprintf(os.Stderr, "helper %s: this program has no such helper\n", role)
	return 1, true
}
