// Package worker is both ends of the connection between the supervisor and
// the processes that run a bench's body. A worker is the same binary started
// again with an address and a one-time token in its environment; it connects
// back, is told its job, runs one task after the other, and answers with what
// it found. How processes are started and killed is package launch's matter,
// what to run next and what a failure means is package run's.
package worker

import (
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// The variables that make a process a worker. They are removed from its
// environment before the body runs, so that its own children are none.
const (
	addrVar  = "KERNBENCH_WORKER"
	tokenVar = "KERNBENCH_TOKEN"
	syncVar  = "KERNBENCH_SYNC" // how the ranks are in touch: syncShm or syncHub
)

// The kinds of sync group: over shared memory on descriptor ShmFD, or, for ranks that
// may be on several hosts, over a second connection to the hub.
const (
	syncShm = "shm"
	syncHub = "hub"
)

// ShmFD is the descriptor on which a worker finds the shared memory of its
// launch's sync group: the first of its extra files.
const ShmFD = 3

// Service is how a worker and its supervisor open a connection: both know the token.
func Service(token string) connection.Service {
	return connection.Service{Banner: "kernbench worker 3\n", Secret: []byte(token)}
}

// Job is what all tasks of a launch have in common.
type Job struct {
	Bench string `json:"bench"`
	Part  string `json:"part"`
	// Script is the interpreter, the file that has the bodies, and its SHA-256; none: this program has.
	Script []string `json:"script,omitempty"`
	Size   int      `json:"size"`
	// InProcess: this worker has all ranks of the launch, as goroutines.
	InProcess bool `json:"in_process,omitempty"`
	// Virtual: this worker is rank 0, and there is no other.
	Virtual bool           `json:"virtual,omitempty"`
	Backend string         `json:"backend"`
	Session string         `json:"session"` // random, of this launch alone
	Seed    uint64         `json:"seed"`
	Watch   []string       `json:"watch"` // swept variables to report
	Measure measure.Config `json:"measure"`
	// Inputs are the SHA-256 of the files that options name, and of what is known by its content.
	Inputs map[string]string `json:"inputs,omitempty"`
}

// Task is one point to run.
type Task struct {
	Index int          `json:"index"`
	Point point.Point  `json:"point"` // axes and options
	Kinds []point.Kind `json:"kinds"` // of the point's values; JSON alone loses them
	Trial int          `json:"trial"`
	// Limit is how long it may take. The supervisor watches over it; the body sees it
	// as the deadline of its context.
	Limit time.Duration `json:"limit,omitempty"`
}

// message is one frame, in either direction: one field is set.
type message struct {
	// From the supervisor.
	Job   *Job    `json:"job,omitempty"`
	Task  *Task   `json:"task,omitempty"`
	Abort *string `json:"abort,omitempty"` // why
	Quit  bool    `json:"quit,omitempty"`

	// From a worker. In one that has several ranks an event's is counted from its own.
	Hello *hello `json:"hello,omitempty"`
	Event *Event `json:"event,omitempty"`
}

// hello is a worker's first message.
type hello struct {
	Rank int  `json:"rank"`
	Sync bool `json:"sync,omitempty"` // the connection is the sync group's
}

// Event is something a worker said, or that its connection ended.
type Event struct {
	Rank int `json:"rank,omitempty"`

	Joined bool `json:"-"`
	// Ready answers a job: with the swept variables it saw, or why it cannot work.
	Ready bool               `json:"ready,omitempty"`
	Env   map[string]*string `json:"env,omitempty"`
	Error string             `json:"error,omitempty"`
	// Heartbeat says that it lives, and what it is at.
	Heartbeat bool   `json:"beat,omitempty"`
	Phase     string `json:"phase,omitempty"`
	Waiting   bool   `json:"waiting,omitempty"` // for the other ranks, so not to blame
	// Done is a task's end on one rank.
	Done      *bench.Outcome `json:"done,omitempty"`
	Index     int            `json:"index,omitempty"`
	Secondary bool           `json:"secondary,omitempty"` // a failure that only follows another rank's
	Culprit   *int           `json:"culprit,omitempty"`   // whose, if that is known
	Closed    bool           `json:"-"`
}
