// Package worker is both ends of the conversation between the supervisor and
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
)

// The variables that make a process a worker. They are removed from its
// environment before the body runs, so that its own children are none.
const (
	addrVar  = "KERNBENCH_WORKER"
	tokenVar = "KERNBENCH_TOKEN"
	agreeVar = "KERNBENCH_AGREE" // where the ranks agree: agreeShm or agreeHub
)

// Heartbeats are sent this often; a worker silent for Dead is taken for dead.
const (
	Beat = 500 * time.Millisecond
	Dead = 5 * time.Second
)

// The ways to agree: over shared memory on descriptor ShmFD, or, for ranks that
// may be on several hosts, over a second connection to the hub.
const (
	agreeShm = "shm"
	agreeHub = "hub"
)

// ShmFD is the descriptor on which a worker finds the shared memory of its
// launch's agreement: the first of its extra files.
const ShmFD = 3

// Banner opens every connection, before each side proves that it knows the token.
const Banner = "kernbench worker 1\n"

// hello is a worker's first message.
type hello struct {
	Rank  int  `json:"rank"`
	PID   int  `json:"pid"`
	Agree bool `json:"agree,omitempty"` // the connection is for the agreement
}

// Job is what all tasks of a launch have in common.
type Job struct {
	Bench string `json:"bench"`
	Part  string `json:"part"`
	Size  int    `json:"size"`
	// InProcess: this worker has all ranks of the launch, as goroutines.
	InProcess bool           `json:"in_process,omitempty"`
	Backend   string         `json:"backend"`
	Session   string         `json:"session"` // random, of this launch alone
	Seed      uint64         `json:"seed"`
	Watch     []string       `json:"watch"` // swept variables to report
	Measure   measure.Config `json:"measure"`
}

// Task is one point to run.
type Task struct {
	Index int          `json:"index"`
	Point point.Point  `json:"point"` // axes and options
	Kinds []point.Kind `json:"kinds"` // of the point's values; JSON alone loses them
	Trial int          `json:"trial"`
}

// toWorker is a message from the supervisor; one field is set.
type toWorker struct {
	Job   *Job    `json:"job,omitempty"`
	Task  *Task   `json:"task,omitempty"`
	Abort *string `json:"abort,omitempty"`
	Quit  bool    `json:"quit,omitempty"`
}

// toSupervisor is a message from a worker; besides the rank, one field is set.
type toSupervisor struct {
	// Rank is who says it, in a worker that has several: counted from its own.
	Rank  int    `json:"rank,omitempty"`
	Hello *hello `json:"hello,omitempty"`
	Ready *ready `json:"ready,omitempty"`
	Beat  *beat  `json:"beat,omitempty"`
	Done  *done  `json:"done,omitempty"`
}

// ready answers a job: what the worker saw of the swept environment.
type ready struct {
	Env   map[string]*string `json:"env"`
	Error string             `json:"error,omitempty"`
}

// beat says that the worker lives, and what it is at.
type beat struct {
	Phase   string `json:"phase"`
	Waiting bool   `json:"waiting,omitempty"` // for the other ranks, so not to blame
}

// done is a task's end on one rank.
type done struct {
	Index   int           `json:"index"`
	Outcome bench.Outcome `json:"outcome"`
	// Secondary marks a failure that only follows another rank's.
	Secondary bool `json:"secondary,omitempty"`
	// Culprit is the rank whose failure it follows, if that is known.
	Culprit *int `json:"culprit,omitempty"`
}
